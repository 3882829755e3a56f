#pragma once

// The single places where credentials may be: parts of find_credentials(), which says in which
// order they are asked. Each fails when it is set up but does not work; one that is not set up
// gives an empty value.

#include <optional>
#include <string>

#include "skyward/provider/aws/credentials.h"

namespace skyward::provider::aws {

using Found = Result<std::optional<Credentials>>;

// What a source needs besides its own settings.
struct Search {
  const World& world;
  const Configuration& configuration;
  std::string region;  // for STS
  Time deadline;
};

Found from_environment(const Search& search);
Found from_container(const Search& search);
// This machine's role. `named`: the profile asks for it; else only a machine of EC2 does, or one
// whose user has given the service's address or AWS_EC2_METADATA_DISABLED=false.
Found from_metadata(const Search& search, bool named);
// A file with a token, and a role that it may take.
Found from_web_identity(const Search& search, const std::string& role, const std::string& file,
                        const std::string& session_name);
// Single sign-on: `section` has sso_account_id and sso_role_name.
Found from_single_sign_on(const Search& search, const Section& section);
// What 'aws login' left.
Found from_login(const Search& search, const std::string& login_session);
// A program that prints credentials.
Found from_program(const Search& search, const std::string& command);

// Takes a role with the credentials of somebody who may.
Result<Credentials> assume_role(const Search& search, const Credentials& base,
                                const Section& section);

// Keys in JSON: {"AccessKeyId", "SecretAccessKey", "Token" | "SessionToken", "Expiration"}.
Found read_keys(const std::string& json, const std::string& source);

// A variable without blanks at its ends: all blanks count as not set.
std::string variable_of(const World& world, const char* name);

}  // namespace skyward::provider::aws
