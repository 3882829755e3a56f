#pragma once

// The places where credentials may be, one function each; find_credentials() decides their order. A
// source that is configured but does not work fails; one that is not configured returns nothing.

#include <optional>
#include <string>

#include "skyward/provider/aws/credentials.h"

namespace skyward::provider::aws {

using Found = Result<std::optional<Credentials>>;

// What every source needs.
struct Search {
  const World& world;
  const Configuration& configuration;
  std::string region;  // for STS
  Time deadline;
};

Found from_environment(const Search& search);
Found from_container(const Search& search);
// This machine's role. `named`: the profile asks for it. Otherwise it is tried only on EC2
// machines, and where the user set the service's address or AWS_EC2_METADATA_DISABLED=false.
Found from_metadata(const Search& search, bool named);
// The role that the token in a file may assume.
Found from_web_identity(const Search& search, const std::string& role, const std::string& file,
                        const std::string& session_name);
// Single sign-on: `section` has sso_account_id and sso_role_name.
Found from_single_sign_on(const Search& search, const Section& section);
// Saved by 'aws login' for a profile. They last 15 minutes, and the AWS CLI renews them.
Found from_login(const Search& search, const std::string& login_session,
                 const std::string& profile);
// A program that prints credentials.
Found from_program(const Search& search, const std::string& command);

// Assumes a role with other credentials.
Result<Credentials> assume_role(const Search& search, const Credentials& base,
                                const Section& section);

// Keys in JSON: {"AccessKeyId", "SecretAccessKey", "Token" | "SessionToken", "Expiration"}.
Found read_keys(const std::string& json, const std::string& source);

// A variable, trimmed; empty if it is not set or blank.
std::string variable_of(const World& world, const char* name);

}  // namespace skyward::provider::aws
