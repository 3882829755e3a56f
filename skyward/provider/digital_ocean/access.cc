#include "skyward/provider/digital_ocean/access.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <utility>

#include "skyward/provider/marks.h"

namespace skyward::provider::digital_ocean {

namespace {

using namespace std::chrono_literals;

constexpr const char* kUrlVariable = "DIGITALOCEAN_API_URL";
// 250 requests a minute, and 5,000 an hour, of one token.
constexpr Duration kGap = 250ms;

constexpr std::array kVariables = {"DIGITALOCEAN_TOKEN", "DIGITALOCEAN_ACCESS_TOKEN"};
constexpr std::array kFiles = {SecretFile{.path = ".config/doctl/config.yaml",
                                          .format = SecretFormat::yaml,
                                          .key = "access-token",
                                          // "doctl auth switch"
                                          .profile = {.variable = "DIGITALOCEAN_CONTEXT",
                                                      .path = ".config/doctl/config.yaml",
                                                      .format = SecretFormat::yaml,
                                                      .key = "context",
                                                      .secret = "auth-contexts/{}"}}};
constexpr std::array kSecrets = {SecretSheet{
    .cloud = "DigitalOcean",
    .setting = "token",
    .variables = kVariables,
    .files = kFiles,
    .advice =
        "create one at cloud.digitalocean.com/account/api/tokens and set $DIGITALOCEAN_TOKEN"}};

// The id of nothing: a token that may ask for it is told that there is none.
constexpr const char* kNobody = "0";

template <typename T>
ApiResult<void> judge_right(const ApiResult<T>& answer, const char* scope) {
  if (answer || answer.error().refusal == Refusal::not_found) return {};
  ApiError error = answer.error();
  error.hint = fmt::format("give the token the scope {}", scope);
  return std::unexpected(std::move(error));
}

}  // namespace

Result<RestAccess> find_access(const World& world, const ProviderSpec& spec) {
  const auto token = find_secret(world, spec, kSecrets.front());
  if (!token) return fail(token);
  auto url = base_url_of(world, kUrlVariable, kBaseUrl);
  if (!url) return fail(url);
  RestAccount account{.base_url = *std::move(url), .read_error = read_error, .gap = kGap};
  return RestAccess{.account = with_token(std::move(account), token->value),
                    .origin = token->origin};
}

Result<AccountUser> find_user(Api& api, Time deadline) {
  const auto account = api.account(deadline);
  if (!account) return std::unexpected(to_error(account.error(), "DigitalOcean: the account"));
  if (account->status == "locked") {
    return fail(ErrorKind::denied,
                fmt::format("DigitalOcean: the account {} is locked{}{}", account->email,
                            account->message.empty() ? "" : ": ", account->message),
                "see cloud.digitalocean.com/support");
  }
  return AccountUser{
      .owner = owner_digits(account->user), .account = account->team, .email = account->email};
}

ApiResult<void> may_delete(Api& api, Time deadline) {
  return judge_right(api.delete_droplet(kNobody, deadline), "droplet:delete");
}

ApiResult<void> may_read_actions(Api& api, Time deadline) {
  return judge_right(api.action_status(kNobody, deadline), "actions:read");
}

std::span<const SecretSheet> secrets() { return kSecrets; }

}  // namespace skyward::provider::digital_ocean
