#pragma once

// How OpenSSH reaches a pool's machines: directly by address, or through Session Manager, which
// needs no open port.
//
// Session Manager is used as Amazon documents it: ssh runs the program `aws`, which needs
// `session-manager-plugin`. It inherits this process's environment, finds credentials by the rules
// of credentials.h and renews them itself; it is given none.

#include <optional>
#include <string>

#include "skyward/base/error.h"
#include "skyward/provider/renting/rented_cloud.h"
#include "skyward/provider/world.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::aws {

struct Login {
  std::string user{};
  std::string image{};           // for people: its id and name
  std::string session_region{};  // through Session Manager there; empty: directly
  std::string silent_hint{};     // SshRoute, without Session Manager
};

// Fails where Session Manager cannot work: a program is not on PATH, or the machines have no role.
Status check_session_manager(const World& world, const std::string& instance_profile);

// What may be wrong when a machine does not answer.
std::string silent_hint(const ProviderSpec& settings);

SshRoute route_by(const Login& login, const Instance& instance);

// Explains an error of Session Manager and adds what to do; its own words stay in the message.
// Empty for output that is not known.
std::optional<Error> explain_session_error(const Login& login, const Instance& instance,
                                           const Error& error);

// Explains the refusal of a login: mostly, the image has no such user. Empty for other errors.
std::optional<Error> explain_refused_login(const Login& login, const Instance& instance,
                                           const Error& error);

}  // namespace skyward::provider::aws
