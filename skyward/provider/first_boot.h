#pragma once

// What a machine is told at its first boot: the timer that ends it when nobody else does, armed
// before anything else; the host key that it shows, so that it can be told from an impostor; the
// key that may log in. Pure text, as cloud-init reads it.
//
// The host key is made for one launch and thrown away with it. It is the only secret here, and
// whoever can read it is on the machine already.

#include <cstdint>
#include <string>

#include "skyward/base/time.h"

namespace skyward::provider {

// The paths that the machine and its agent agree on.
inline constexpr const char* kEndProgram = "/usr/local/sbin/skyward-end";  // ends the machine
// Made when an agent has begun, and touched by it every few seconds.
inline constexpr const char* kClaimFile = "/run/skyward/claimed";

// A machine that no agent has begun to use so long after its boot ends itself.
inline constexpr Duration kUnclaimed = std::chrono::seconds(900);

struct DeadMan {
  std::int64_t expires_s = 0;  // seconds since 1970: the machine ends whatever it does
  Duration lifetime{};         // the same from its boot, for a machine whose clock is wrong
  Duration unclaimed{};        // it ends so long after its boot when no agent has begun
  Duration lease{};            // ... and when the agent that began is gone for so long; 0: never
  Duration look_every = std::chrono::seconds(10);
  std::string root{};  // before every path, for tests
};

// A shell script for root that arms the timer and returns at once. May run at every boot.
std::string dead_man_script(const DeadMan& dead_man);

struct FirstBoot {
  DeadMan dead_man{};
  std::string host_key{};         // private, as OpenSSH writes it
  std::string host_key_public{};  // one line
  std::string login_key{};        // public, one line
  bool root_login = false;        // root logs in; cloud-init keeps it from that unless told
};

// "#cloud-config" and a document.
std::string user_data(const FirstBoot& boot);

}  // namespace skyward::provider
