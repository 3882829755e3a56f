#pragma once

// A machine at a double, as moments in time: what it is follows from what time it is.

#include <algorithm>
#include <set>
#include <string>

#include "doubles/request.h"
#include "skyward/base/time.h"

namespace skyward::doubles {

struct Machine {
  std::string id{};
  std::string name{};
  std::string account{};
  std::string size{};
  std::string place{};
  std::set<std::string> tags{};
  double hourly = 0;
  bool spot = false;
  Json request{};  // what asked for it
  Time made{};
  Time ready = kNever;   // when it runs
  Time failed = kNever;  // when its creation fails
  Time off = kNever;     // since when it is switched off
  Time ended = kNever;   // when it was told to end
  Time gone = kNever;
  bool preempted = false;  // the cloud ended it
  Duration paused{};       // how long it was off before, in all
  Json inside{};           // what it knows of itself: variables
  int ssh_port = 22;
  Duration listing_lag{};
  Duration reading_lag{};
  std::string public_address{};
  std::string private_address{};

  void stop(Time now) { off = std::min(off, now); }
  void resume(Time now) {
    if (off < now) paused += now - off;
    off = kNever;
  }
  bool is_there(Time now) const { return now < gone; }
  bool has_failed(Time now) const { return now >= failed; }
  bool is_new(Time now) const { return now < ready && !has_failed(now); }
  // Lists forget as late as they learn.
  bool is_listed(Time now) const {
    return now >= made + listing_lag && (gone == kNever || now < gone + listing_lag);
  }
  bool is_known(Time now) const { return is_there(now) && now >= made + reading_lag; }
};

// How a cloud counts.
struct Tariff {
  Duration increment = std::chrono::seconds(1);
  Duration least{};        // billed in any case
  double least_price = 0;  // of a machine that ran at all
};

// What is billed until now: from its creation, off or not, until it was told to end. A machine
// whose creation failed costs nothing.
inline double bill_of(const Machine& machine, const Tariff& tariff, Time now) {
  if (machine.failed != kNever) return 0;
  const Duration lived = std::max(std::min(now, machine.ended) - machine.made, tariff.least);
  const auto counts = (lived + tariff.increment - Duration(1)) / tariff.increment;
  const double hours = seconds(counts * tariff.increment) / 3600;
  return std::max(hours * machine.hourly, tariff.least_price);
}

}  // namespace skyward::doubles
