#include "skyward/provider/aws/account.h"

#include <fmt/format.h>

#include "skyward/provider/aws/arn.h"
#include "skyward/provider/aws/ec2_api.h"

namespace skyward::provider::aws {

Result<CallerIdentity> find_caller(Client& client, Time deadline) {
  const auto arn = Ec2Api(client).caller(deadline);
  if (!arn) {
    return std::unexpected(
        to_error(arn.error(), fmt::format("STS GetCallerIdentity in {}", client.region())));
  }
  if (account_of(*arn).empty()) {
    return fail(ErrorKind::unavailable,
                "STS GetCallerIdentity does not say whose credentials these are", "try again");
  }
  client.pin_account(account_of(*arn));
  return CallerIdentity{.arn = *arn, .owner = owner_of(*arn), .account = account_of(*arn)};
}

std::map<std::string, std::string> way_back(const Client& client, const CallerIdentity& caller) {
  std::map<std::string, std::string> way = {{"account", caller.account}};
  const Configuration& configuration = client.configuration();
  if (configuration.profile_was_asked_for) way["profile"] = configuration.profile;
  return way;
}

}  // namespace skyward::provider::aws
