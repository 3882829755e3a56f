#include "skyward/engine/releases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/effects.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;

// Between two requests to end a machine that did not end; then as the last. An open pool goes on
// for ever, a closing one gives up after these: its caller waits, and its machines end themselves.
constexpr std::array<Duration, 4> kReleasePauses = {1s, 4s, 16s, 60s};

}  // namespace

void Releases::release(EngineEffects& effects, std::vector<InstanceId> instances) {
  asked_.push_back(instances);
  effects.terminate(std::move(instances));
}

void Releases::hold(const InstanceId& instance, Time until) { held_.push_back({instance, until}); }

std::vector<InstanceId> Releases::take_held() {
  std::vector<InstanceId> instances;
  for (const Held& held : std::exchange(held_, {})) instances.push_back(held.instance);
  return instances;
}

void Releases::release_last(EngineEffects& effects, std::vector<InstanceId> instances) {
  left_.insert(left_.end(), instances.begin(), instances.end());
  tries_ = 0;
  last_ = true;
  again_at_ = kNever;
  if (!left_.empty()) release(effects, take_left());
}

std::vector<InstanceId> Releases::on_answer(EngineEffects& effects, Time now,
                                            const Status& status) {
  SKYWARD_CHECK(!asked_.empty());
  std::vector<InstanceId> instances = std::move(asked_.front());
  asked_.pop_front();
  if (status) {
    if (left_.empty()) tries_ = 0;
    return instances;
  }
  // Those that fail while others wait to be asked again are asked with them.
  const auto tries = static_cast<std::size_t>(tries_);
  if (again_at_ == kNever && !(last_ && tries >= kReleasePauses.size())) {
    again_at_ = now + kReleasePauses.at(std::min(tries, kReleasePauses.size() - 1));
    ++tries_;
  }
  const std::string again = again_at_ == kNever
                                ? std::string()
                                : fmt::format("; retrying in {:.3g} s", seconds(again_at_ - now));
  effects.emit(ErrorEvent{fmt::format("{} did not end: {}{}", fmt::join(instances, ", "),
                                      status.error().message, again),
                          instances.front()});
  left_.insert(left_.end(), instances.begin(), instances.end());
  return {};
}

void Releases::on_timer(EngineEffects& effects, Time now) {
  std::vector<InstanceId> due;
  if (again_at_ <= now) {
    again_at_ = kNever;
    due = take_left();
  }
  for (const Held& held : held_) {
    if (held.until <= now) due.push_back(held.instance);
  }
  std::erase_if(held_, [now](const Held& held) { return held.until <= now; });
  if (!due.empty()) release(effects, std::move(due));
}

Time Releases::next_at() const {
  Time next = again_at_;
  for (const Held& held : held_) next = std::min(next, held.until);
  return next;
}

std::vector<InstanceId> Releases::take_left() { return std::exchange(left_, {}); }

bool Releases::may_still_end() const {
  return !left_.empty() && tries_ <= std::ssize(kReleasePauses);
}

std::vector<InstanceId> Releases::asked() const {
  std::vector<InstanceId> all;
  for (const auto& instances : asked_) all.insert(all.end(), instances.begin(), instances.end());
  return all;
}

}  // namespace skyward::engine
