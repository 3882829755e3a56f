#pragma once

// How a pool's machines are reached: by OpenSSH, straight to their address or by way of Session
// Manager, which needs no open port.
//
// Session Manager is used as Amazon documents it: ssh runs the program `aws`, which needs
// `session-manager-plugin`. It inherits this process's environment and finds credentials there by
// the rules of credentials.h, and renews them: none are handed to it.

#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"
#include "skyward/spec/offer.h"

namespace skyward::provider::aws {

struct Login {
  std::string user{};
  std::string session_region{};  // by way of Session Manager there; empty: straight
};

// Refuses Session Manager where it cannot work: a program that is not on PATH, machines without a
// role.
Status check_session_manager(const World& world, const std::string& instance_profile);

SshWay way_by(const Login& login, const Instance& instance);

// What Session Manager wrote, told so that it says what to do; its own words stay in it. Empty when
// it wrote nothing that is known.
std::optional<Error> explain_session_error(const Login& login, const Instance& instance,
                                           const Error& error);

}  // namespace skyward::provider::aws
