#include "skyward/provider/verda/access.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <utility>

#include "skyward/provider/marks.h"

namespace skyward::provider::verda {

namespace {

using namespace std::chrono_literals;

constexpr const char* kUrlVariable = "VERDA_BASE_URL";
// No limit is published.
constexpr Duration kGap = 100ms;
constexpr std::string_view kAdvice =
    "create them at console.verda.com, Keys, Cloud API, and set $VERDA_CLIENT_ID and "
    "$VERDA_CLIENT_SECRET";

constexpr const char* kPathVariable = "VERDA_SHARED_CREDENTIALS_FILE";
constexpr const char* kHomeVariable = "VERDA_HOME";
// "verda auth use"
constexpr SecretProfile profile_with(std::string_view secret) {
  return {.variable = "VERDA_PROFILE",
          .path = ".verda/config.yaml",
          .format = SecretFormat::yaml,
          .key = "auth/profile",
          .secret = secret,
          .home = kHomeVariable};
}
constexpr std::array kIdVariables = {"VERDA_CLIENT_ID"};
constexpr std::array kSecretVariables = {"VERDA_CLIENT_SECRET"};
constexpr std::array kIdFiles = {SecretFile{.path = ".verda/credentials",
                                            .format = SecretFormat::ini,
                                            .key = "default/verda_client_id",
                                            .profile = profile_with("{}/verda_client_id"),
                                            .variable = kPathVariable,
                                            .home = kHomeVariable}};
constexpr SecretSheet kId = {.cloud = "Verda",
                             .setting = "client_id",
                             .variables = kIdVariables,
                             .files = kIdFiles,
                             .advice = kAdvice,
                             .other_half = "client_secret",
                             .other_variables = kSecretVariables};
constexpr std::array kSecretFiles = {SecretFile{.path = ".verda/credentials",
                                                .format = SecretFormat::ini,
                                                .key = "default/verda_client_secret",
                                                .profile = profile_with("{}/verda_client_secret"),
                                                .variable = kPathVariable,
                                                .home = kHomeVariable}};
constexpr SecretSheet kSecret = {.cloud = "Verda",
                                 .setting = "client_secret",
                                 .variables = kSecretVariables,
                                 .files = kSecretFiles,
                                 .advice = kAdvice,
                                 .other_half = "client_id",
                                 .other_variables = kIdVariables};
constexpr std::array kSecrets = {kId, kSecret};

// Where a profile's API is, which alone may get its secret.
constexpr std::array kUrlFiles = {SecretFile{.path = ".verda/credentials",
                                             .format = SecretFormat::ini,
                                             .key = "default/verda_base_url",
                                             .profile = profile_with("{}/verda_base_url"),
                                             .variable = kPathVariable,
                                             .home = kHomeVariable}};
constexpr SecretSheet kUrl = {.cloud = "Verda",
                              .setting = "base_url",
                              .variables = {},
                              .files = kUrlFiles,
                              .advice = kAdvice};

Result<std::string> find_url(const World& world, const Secret& secret) {
  if (secret.in_file && !world.variable(kUrlVariable)) {
    if (const auto told = find_secret(world, {}, kUrl)) {
      std::string url = told->value;
      if (url.ends_with('/')) url.pop_back();
      if (Status safe = check_base_url(url, told->origin); !safe) return fail(safe);
      return url;
    }
  }
  return base_url_of(world, kUrlVariable, kBaseUrl);
}

}  // namespace

Result<RestAccess> find_access(const World& world, const ProviderSpec& spec) {
  const auto id = find_secret(world, spec, kId);
  if (!id) return fail(id);
  const auto secret = find_secret(world, spec, kSecret);
  if (!secret) return fail(secret);
  const auto url = find_url(world, *secret);
  if (!url) return fail(url);
  RestAccess out{.account = {.base_url = *url,
                             .read_error = read_error,
                             .gap = kGap,
                             .request_timeout = request_timeout(spec)},
                 .origin = secret->origin,
                 .user = owner_digits(id->value)};
  const auto tokens = std::make_shared<TokenSource>(
      world, ClientCredentials{.token_url = *url + "/oauth2/token",
                               .id = id->value,
                               .secret = secret->value,
                               .request_timeout = out.account.request_timeout});
  out.account.authorization = [tokens](bool renew, Time deadline) {
    return tokens->authorization(renew, deadline);
  };
  return out;
}

std::span<const SecretSheet> secrets() { return kSecrets; }

}  // namespace skyward::provider::verda
