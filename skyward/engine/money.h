#pragma once

// What a pool spends, and what it may: tasks are begun until the rest of the budget suffices only
// for those that run and for giving the machines back. core_money.cc acts on it.

#include "skyward/base/time.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/pool_cost.h"

namespace skyward::engine {

struct Money {
  CostBook book;  // by the cloud's clock
  // The cloud's clock, by which it bills: so far ahead of ours, and so many times as fast.
  Duration ahead{};
  double rate = 1;
  bool warned = false;
  bool draining = false;  // nothing is begun or bought any more; idle machines go at once
  Time look_at = kNever;  // at the budget
  Time ask_at = kNever;   // the cloud
  bool asking = false;
  Time told_by_cloud_at{};
  Time told_at{};  // the last CostUpdate
};

}  // namespace skyward::engine
