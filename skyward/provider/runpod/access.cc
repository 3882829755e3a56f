#include "skyward/provider/runpod/access.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "skyward/provider/marks.h"

namespace skyward::provider::runpod {

namespace {

// RunPod's own client has it, too.
constexpr const char* kUrlVariable = "RUNPOD_API_BASE_URL";
constexpr std::array kVariables = {"RUNPOD_API_KEY"};
constexpr std::array kFiles = {
    SecretFile{
        .path = ".runpod/config.toml", .format = SecretFormat::toml, .key = "default/api_key"},
    SecretFile{.path = ".runpod/config.toml", .format = SecretFormat::toml, .key = "apikey"}};
constexpr std::array kSecrets = {
    SecretSheet{.cloud = "RunPod",
                .setting = "api_key",
                .variables = kVariables,
                .files = kFiles,
                .advice = "create one at console.runpod.io, Settings, API Keys, and "
                          "set $RUNPOD_API_KEY"}};

}  // namespace

Result<RestAccess> find_access(const World& world, const ProviderSpec& spec) {
  const auto key = find_secret(world, spec, kSecrets.front());
  if (!key) return fail(key);
  auto url = base_url_of(world, kUrlVariable, kBaseUrl);
  if (!url) return fail(url);
  RestAccount account{.base_url = *std::move(url),
                      .read_error = read_error,
                      .request_timeout = request_timeout(spec)};
  return RestAccess{.account = with_token(std::move(account), key->value),
                    .origin = key->origin,
                    .user = owner_digits(key->value)};
}

std::span<const SecretSheet> secrets() { return kSecrets; }

}  // namespace skyward::provider::runpod
