#include "skyward/provider/vast/access.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace skyward::provider::vast {

namespace {

constexpr const char* kUrlVariable = "VAST_URL";
constexpr std::array kVariables = {"VAST_API_KEY"};
constexpr std::array kFiles = {
    SecretFile{.path = ".config/vastai/vast_api_key", .format = SecretFormat::plain},
    SecretFile{.path = ".vast_api_key", .format = SecretFormat::plain}};
constexpr std::array kSecrets = {
    SecretSheet{.cloud = "Vast.ai",
                .setting = "api_key",
                .variables = kVariables,
                .files = kFiles,
                .advice = "create one at cloud.vast.ai, Keys, and set $VAST_API_KEY"}};

}  // namespace

Result<RestAccess> find_access(const World& world, const ProviderSpec& spec) {
  const auto key = find_secret(world, spec, kSecrets.front());
  if (!key) return fail(key);
  auto url = base_url_of(world, kUrlVariable, kBaseUrl);
  if (!url) return fail(url);
  RestAccount account{.base_url = *std::move(url),
                      .read_error = read_error,
                      .request_timeout = request_timeout(spec)};
  return RestAccess{.account = with_token(std::move(account), key->value), .origin = key->origin};
}

std::span<const SecretSheet> secrets() { return kSecrets; }

}  // namespace skyward::provider::vast
