#include "sim/simulator.h"

#include "skyward/base/check.h"

namespace skyward::sim {
namespace {

// More than any run has at one moment: somebody goes round in circles.
constexpr std::uint64_t kMaxStepsAtOnce = 1'000'000;

}  // namespace

Simulator::Timer Simulator::at(Time time, Event event) {
  const Timer timer{std::max(time, now_), next_++};
  events_.emplace(timer, std::move(event));
  return timer;
}

void Simulator::cancel(Timer& timer) { events_.erase(std::exchange(timer, kNoTimer)); }

bool Simulator::step() {
  if (events_.empty()) return false;
  auto next = events_.extract(events_.begin());
  steps_now_ = next.key().first == now_ ? steps_now_ + 1 : 0;
  SKYWARD_CHECK(steps_now_ < kMaxStepsAtOnce, "time stands still");
  now_ = next.key().first;
  next.mapped()();
  return true;
}

int Simulator::make_segment() {
  segments_.push_back(std::make_shared<Segment>());
  return static_cast<int>(segments_.size()) - 1;
}

}  // namespace skyward::sim
