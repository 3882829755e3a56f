#include "skyward/provider/aws/account.h"

#include <fmt/format.h>

#include "skyward/io/own_process.h"
#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/aws/tags.h"

namespace skyward::provider::aws {

Result<Caller> find_caller(Client& client, Time deadline) {
  const auto arn = Ec2Api(client).caller(deadline);
  if (!arn) return std::unexpected(to_error(arn.error(), "STS GetCallerIdentity"));
  if (account_of(*arn).empty()) {
    return fail(ErrorKind::unavailable,
                "STS GetCallerIdentity does not say whose credentials these are", "try again");
  }
  client.pin_account(account_of(*arn));
  return Caller{.arn = *arn, .owner = owner_of(*arn), .account = account_of(*arn)};
}

bool opened_here(const LedgerPool& pool) {
  const std::string boot = io::boot_id();
  return pool.setting("host") == io::host_name() || (!boot.empty() && pool.setting("boot") == boot);
}

std::map<std::string, std::string> way_back(const Client& client, const Caller& caller) {
  std::map<std::string, std::string> way = {{"account", caller.account},
                                            {"owner", caller.owner},
                                            {"host", io::host_name()},
                                            {"boot", io::boot_id()}};
  const Configuration& configuration = client.configuration();
  if (configuration.profile_was_asked_for) way["profile"] = configuration.profile;
  return way;
}

}  // namespace skyward::provider::aws
