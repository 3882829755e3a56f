#pragma once

// What a user has told Amazon's tools: the files ~/.aws/config and ~/.aws/credentials, read as
// those tools read them, the AWS_… variables that outrank them, and what follows from both: the
// region and each service's address.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"

namespace skyward::provider::aws {

// Properties of a section; names in lower case. Nested ones are the lines of their property.
using Section = std::map<std::string, std::string>;

struct Profiles {
  std::map<std::string, Section> profiles{};
  std::map<std::string, Section> sso_sessions{};
  std::map<std::string, Section> services{};

  bool operator==(const Profiles&) const = default;
};

// Both files together; the credentials file wins. Fails with `invalid`, naming file and line.
Result<Profiles> parse_profiles(std::string_view config, std::string_view credentials);

struct Configuration {
  Profiles files{};
  std::string profile = "default";
  bool profile_was_asked_for = false;  // by the user, in code or by a variable

  // A property of the chosen profile; empty when it has none.
  std::string property(const std::string& name) const;
};

// Where the two files lie.
struct FileLocations {
  std::string config;
  std::string credentials;
};
FileLocations file_locations(const World& world);

// AWS_PROFILE, else AWS_DEFAULT_PROFILE.
std::optional<std::string> profile_variable(const World& world);

// `profile` as given in code; empty: that of the variables, else "default". A missing file is an
// empty one.
Result<Configuration> load_configuration(const World& world, const std::string& profile);

// A setting by its variable, else by its property; empty when neither is there.
std::string setting(const World& world, const Configuration& configuration, const char* variable,
                    const std::string& property);

// `given` in code, else AWS_REGION, AWS_DEFAULT_REGION, the profile's, else empty.
std::string find_region(const World& world, const Configuration& configuration,
                        const std::string& given);

// The address of a service ("ec2", "sts", "ssm", "pricing", "sso", "oidc", or "checkip", which
// tells the caller's own address), without '/' at its end: a configured one, else Amazon's. Fails
// with `invalid` for a region that is no name of one: it would name somebody else's host.
Result<std::string> find_endpoint(const World& world, const Configuration& configuration,
                                  std::string_view service, std::string_view region);

}  // namespace skyward::provider::aws
