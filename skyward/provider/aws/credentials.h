#pragma once

// Finds credentials where Amazon's own tools look, in the same order: environment variables, the
// chosen profile (keys, an assumed role, single sign-on, a program, a web identity), a web identity
// in the environment, the container's credential service, and last an EC2 machine's metadata
// service. They are not stored anywhere. Requests to the metadata service have a short timeout, and
// none is sent if AWS_EC2_METADATA_DISABLED is true.

#include <cstdint>
#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/aws/configuration.h"
#include "skyward/provider/aws/sigv4.h"

namespace skyward::provider::aws {

struct Credentials {
  Keys keys{};
  std::string account_id{};                 // empty if the source does not say
  std::optional<std::int64_t> expires_s{};  // seconds since 1970
  std::optional<std::int64_t> ends_s{};     // when the source has no more new ones, if known
  std::string source{};                     // for people, without secrets: "profile \"work\": …"
};

// Fails with `denied` if no source has any; the message lists where it looked. A source that is
// configured but fails ends the search: with `unavailable` or `timeout` if it does not answer.
Result<Credentials> find_credentials(const World& world, const Configuration& configuration,
                                     const std::string& region, Time deadline);

// The address of the container's credential service, from its variables; empty outside a container.
// Fails unless the address is https, this machine's, or the container runtime's.
Result<std::string> container_endpoint(const World& world);

// The address of the metadata service.
Result<std::string> metadata_endpoint(const World& world, const Configuration& configuration);

}  // namespace skyward::provider::aws
