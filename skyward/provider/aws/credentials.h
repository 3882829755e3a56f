#pragma once

// Finds credentials where Amazon's own tools find them, in their order: environment variables, the
// chosen profile (keys, an assumed role, single sign-on, a program, a web identity), a web identity
// in the environment, the container's service, and last the metadata service of an EC2 machine.
// Nothing is copied anywhere. The metadata service is asked with a short limit, and never when
// AWS_EC2_METADATA_DISABLED is true.

#include <cstdint>
#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/aws/configuration.h"
#include "skyward/provider/aws/sigv4.h"

namespace skyward::provider::aws {

struct Credentials {
  Keys keys{};
  std::string account_id{};                 // empty when the source does not tell
  std::optional<std::int64_t> expires_s{};  // seconds since 1970
  std::string source{};                     // in words, without secrets: "profile \"work\": …"
};

// Fails with `denied` when no source has any, telling where it looked; a source that is set up and
// fails ends the search.
Result<Credentials> find_credentials(const World& world, const Configuration& configuration,
                                     const std::string& region, Time deadline);

// Seconds since 1970 of "2021-09-21T23:34:52Z" or "…+02:00".
std::optional<std::int64_t> parse_iso_time(std::string_view text);

// Where the container's service is, from its variables; empty: not in a container. Fails on an
// address that is not this machine's, the container's, or encrypted.
Result<std::string> container_endpoint(const World& world);

// The address of the metadata service.
Result<std::string> metadata_endpoint(const World& world, const Configuration& configuration);

}  // namespace skyward::provider::aws
