#include "skyward/provider/aws/credentials.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "skyward/base/text.h"
#include "skyward/provider/aws/credentials_sources.h"

namespace skyward::provider::aws {

namespace {

std::string quoted(const std::string& name) { return "profile \"" + name + "\""; }

std::unexpected<Error> wrong_profile(const std::string& name, const std::string& what) {
  return fail(ErrorKind::invalid, fmt::format("the AWS {} cannot be used: {}", quoted(name), what),
              "correct it in ~/.aws/config or ~/.aws/credentials");
}

bool has(const Section& section, const std::string& name) {
  return !value_at(section, name).empty();
}

// Follows a profile to its credentials.
class ProfileWalk {
 public:
  explicit ProfileWalk(const Search& search) : search_(search) {}

  Found resolve(const std::string& name) {
    const auto& profiles = search_.configuration.files.profiles;
    const auto found = profiles.find(name);
    const bool is_source = !visited_.empty();
    if (found == profiles.end()) {
      if (!is_source) return std::nullopt;
      return wrong_profile(last_, fmt::format("its source_profile \"{}\" does not exist", name));
    }
    const Section& section = found->second;
    const bool has_keys =
        has(section, "aws_access_key_id") || has(section, "aws_secret_access_key");
    if (visited_.contains(name)) {
      if (name == last_ && has_keys) return keys_of(name, section);
      return wrong_profile(name, "its source_profile leads back to itself");
    }
    visited_.insert(name);
    last_ = name;
    if (is_source && has_keys) return keys_of(name, section);
    Found result = from_section(name, section, has_keys);
    if (!result) return result;
    if (!*result && is_source) return wrong_profile(name, "it has no credentials");
    return result;
  }

 private:
  Found from_section(const std::string& name, const Section& section, bool has_keys) {
    if (has(section, "source_profile") && has(section, "credential_source")) {
      return wrong_profile(name, "it has both source_profile and credential_source");
    }
    if (has(section, "web_identity_token_file")) {
      if (!has(section, "role_arn")) {
        return wrong_profile(name, "it has web_identity_token_file but no role_arn");
      }
      return named(name, from_web_identity(search_, value_at(section, "role_arn"),
                                           value_at(section, "web_identity_token_file"),
                                           value_at(section, "role_session_name")));
    }
    if (has(section, "role_arn")) return role_of(name, section);
    if (has(section, "sso_session") || has(section, "sso_start_url") ||
        has(section, "sso_account_id") || has(section, "sso_role_name")) {
      return named(name, from_single_sign_on(search_, section));
    }
    if (has(section, "login_session")) {
      return named(name, from_login(search_, value_at(section, "login_session"), name));
    }
    if (has(section, "credential_process")) {
      Found result = named(name, from_program(search_, value_at(section, "credential_process")));
      if (result && *result && (*result)->account_id.empty()) {
        (*result)->account_id = value_at(section, "aws_account_id");
      }
      return result;
    }
    if (has_keys) return keys_of(name, section);
    return std::nullopt;
  }

  Found keys_of(const std::string& name, const Section& section) {
    for (const char* key : {"aws_access_key_id", "aws_secret_access_key"}) {
      if (!has(section, key)) return wrong_profile(name, fmt::format("it lacks {}", key));
    }
    return Credentials{.keys = {.access_key_id = value_at(section, "aws_access_key_id"),
                                .secret_access_key = value_at(section, "aws_secret_access_key"),
                                .session_token = value_at(section, "aws_session_token")},
                       .account_id = value_at(section, "aws_account_id"),
                       .expires_s = std::nullopt,
                       .source = quoted(name)};
  }

  Found role_of(const std::string& name, const Section& section) {
    Found base = std::nullopt;
    if (has(section, "source_profile")) {
      base = resolve(value_at(section, "source_profile"));
    } else if (has(section, "credential_source")) {
      base = named_source(name, value_at(section, "credential_source"));
    } else {
      return wrong_profile(name,
                           "it has role_arn but neither source_profile nor credential_source");
    }
    if (!base) return base;
    if (!*base) return wrong_profile(name, "its source has no credentials");
    Result<Credentials> taken = assume_role(search_, **base, section);
    if (!taken) return fail(taken);
    if ((*base)->ends_s) taken->ends_s = std::max(*(*base)->ends_s, taken->expires_s.value_or(0));
    taken->source = fmt::format("{}, role {} by way of {}", quoted(name),
                                value_at(section, "role_arn"), (*base)->source);
    return *std::move(taken);
  }

  Found named_source(const std::string& name, const std::string& source) {
    if (source == "Environment") return from_environment(search_);
    if (source == "EcsContainer") return from_container(search_);
    if (source == "Ec2InstanceMetadata") return from_metadata(search_, true);
    return wrong_profile(name, fmt::format("credential_source \"{}\" is none of Environment, "
                                           "EcsContainer, Ec2InstanceMetadata",
                                           source));
  }

  static Found named(const std::string& name, Found result) {
    if (result && *result) (*result)->source = quoted(name) + ", " + (*result)->source;
    return result;
  }

  const Search& search_;
  std::set<std::string> visited_;
  std::string last_;
};

}  // namespace

Result<Credentials> find_credentials(const World& world, const Configuration& configuration,
                                     const std::string& region, Time deadline) {
  const Search search{world, configuration, region.empty() ? "us-east-1" : region, deadline};
  // A profile that is named in code outranks the environment's keys.
  const bool named_in_code =
      configuration.profile_was_asked_for && profile_variable(world) != configuration.profile;
  const auto take = [](Found& found) { return *std::move(*found); };
  if (!named_in_code) {
    Found found = from_environment(search);
    if (!found) return fail(found);
    if (*found) return take(found);
  }
  Found found = ProfileWalk(search).resolve(configuration.profile);
  if (!found) return fail(found);
  if (*found) return take(found);
  const std::string token_file = variable_of(world, "AWS_WEB_IDENTITY_TOKEN_FILE");
  const std::string role = variable_of(world, "AWS_ROLE_ARN");
  if (!token_file.empty() && !role.empty()) {
    found =
        from_web_identity(search, role, token_file, variable_of(world, "AWS_ROLE_SESSION_NAME"));
    if (!found) return fail(found);
    if (*found) return take(found);
  }
  found = from_container(search);
  if (found && !*found) found = from_metadata(search, false);
  if (!found) return fail(found);
  if (*found) return take(found);
  return fail(ErrorKind::denied,
              fmt::format("no AWS credentials were found: not in AWS_ACCESS_KEY_ID, not in the {} "
                          "of ~/.aws, and not from the service of a container or machine",
                          quoted(configuration.profile)),
              "run 'aws configure' or 'aws sso login', or set AWS_PROFILE");
}

std::string variable_of(const World& world, const char* name) {
  return std::string(trimmed(world.variable(name).value_or("")));
}

}  // namespace skyward::provider::aws
