#pragma once

// The user's AWS configuration: the files ~/.aws/config and ~/.aws/credentials, read as Amazon's
// tools read them, and the AWS_… variables, which take precedence. Both decide the region and each
// service's address.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"

namespace skyward::provider::aws {

// The properties of a section, with names in lower case. Nested properties are the lines of their
// parent's value.
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
  bool profile_was_asked_for = false;  // in code or by a variable

  // A property of the chosen profile; empty if it is not set.
  std::string property(const std::string& name) const;
};

// The paths of the two files.
struct FileLocations {
  std::string config;
  std::string credentials;
};
FileLocations file_locations(const World& world);

// AWS_PROFILE, else AWS_DEFAULT_PROFILE.
std::optional<std::string> profile_variable(const World& world);

// `profile` as given in code; empty: from the variables, else "default". A missing file counts as
// empty.
Result<Configuration> load_configuration(const World& world, const std::string& profile);

// A setting from its variable, else from the profile's property; empty if neither is set.
std::string setting(const World& world, const Configuration& configuration, const char* variable,
                    const std::string& property);

// The file of certificates that the user trusts instead of the system's; empty: there is none.
std::string ca_bundle(const World& world, const Configuration& configuration);

// `given` in code, else AWS_REGION, AWS_DEFAULT_REGION, the profile's, else empty.
std::string find_region(const World& world, const Configuration& configuration,
                        const std::string& given);

// The region whose price list has the prices of this one.
std::string_view pricing_region(std::string_view region);

// The address of a service ("ec2", "sts", "ssm", "pricing", "sso", "oidc", or "checkip", which
// returns the caller's address), without a final '/': the configured one, else Amazon's. Fails with
// `invalid` if `region` is not the form of a region's name, since it becomes part of a host name.
Result<std::string> find_endpoint(const World& world, const Configuration& configuration,
                                  std::string_view service, std::string_view region);

}  // namespace skyward::provider::aws
