#pragma once

// How a pool's machines are logged into: by OpenSSH, straight to their address or by way of Session
// Manager, which needs no open port. Either way a machine must show the host key of its launch.
//
// Session Manager is used as Amazon documents it: ssh runs the program `aws`, which needs
// `session-manager-plugin`. It inherits this process's environment and finds credentials there by
// the rules of credentials.h, and renews them: none are handed to it.

#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/provider/world.h"
#include "skyward/spec/offer.h"

namespace skyward::provider::aws {

struct Login {
  std::string user{};
  std::string identity_file{};
  std::string known_hosts_file{};  // of the machine's launch
  std::string session_region{};    // by way of Session Manager there; empty: straight
};

// Refuses Session Manager where it cannot work: a program that is not on PATH, machines without a
// role.
Status check_session_manager(const World& world, const std::string& instance_profile);

// argv up to and without what shall run on the machine.
std::vector<std::string> login_command(const Login& login, const Instance& instance);

// Words after which trying again is useless. A machine that boots refuses connections and keys, and
// is unknown to Session Manager: that is tried again.
std::vector<std::string> permanent_login_errors(const Login& login);

// What the command wrote, told so that it says what to do; its own words stay in it.
Error explain_login_error(const Login& login, const Instance& instance, Error error);

}  // namespace skyward::provider::aws
