#pragma once

// The user data of a machine, which cloud-init applies at its first boot: a timer that powers it
// off when nobody else terminates it, started before anything else; its host key, so that an
// impostor is detected; the key that may log in. Pure text.
//
// The host key is generated for one launch and used for no other. It is the only secret here.
// Whoever is on the machine can read it, and in some clouds whoever may read the account's
// machines: the pages of the guide say so.

#include <cstdint>
#include <string>

#include "skyward/base/time.h"

namespace skyward::provider {

// Paths that the machine's timer and its agent share.
inline constexpr const char* kEndProgram = "/usr/local/sbin/skyward-end";  // powers it off
// The agent creates it when it starts, and touches it every few seconds.
inline constexpr const char* kClaimFile = "/run/skyward/claimed";

// A machine on which no agent has started this long after boot powers itself off.
inline constexpr Duration kUnclaimed = std::chrono::seconds(900);

struct EndTimer {
  std::int64_t expires_s = 0;  // seconds since 1970: it powers off then in any case
  Duration lifetime{};         // the same, counted from boot, in case its clock is wrong
  Duration unclaimed{};        // this long after boot if no agent has started
  Duration lease{};            // ... and this long after the agent was last seen; 0: never
  Duration look_every = std::chrono::seconds(10);
  // A line of shell that ends the machine's cost, where powering it off does not. It may hold a
  // secret, which root on the machine can read. boot_script() installs curl for it.
  std::string end_first{};
  bool container = false;  // what the machine is; its own boot is when the script runs
  std::string root{};      // prefix of every path, for tests
};

// A shell script for root that arms the timer and returns at once. May run at every boot.
std::string end_timer_script(const EndTimer& end_timer);

struct FirstBoot {
  EndTimer end_timer{};
  std::string host_key{};         // private, as OpenSSH writes it
  std::string host_key_public{};  // one line
  std::string login_key{};        // public, one line
  bool root_login = false;        // root logs in; cloud-init forbids it by default
  std::string new_user{};     // user_data() alone: logs in, and is created beside the image's own
  bool install_sshd = false;  // boot_script() alone: it may be missing
};

// "#cloud-config" and a document.
std::string user_data(const FirstBoot& boot);
// The same as a shell script, for clouds that run one as root at the first boot, without
// cloud-init. Until it has run, sshd shows another host key, which a pool does not trust.
std::string boot_script(const FirstBoot& boot);

}  // namespace skyward::provider
