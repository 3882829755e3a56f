#include "sim/bill.h"

#include <algorithm>

#include "skyward/base/check.h"

namespace skyward::sim {

namespace {

constexpr Duration kStep = std::chrono::milliseconds(10);

}  // namespace

void Bill::begin(const InstanceId& id, Time now, double hourly) {
  lives_[id] = {.began = now, .prices = {{now, hourly}}};
}

void Bill::set_price(const InstanceId& id, Time now, double hourly) {
  Life& life = lives_.at(id);
  if (!life.ended) life.prices.emplace_back(now, hourly);
}

void Bill::end(const InstanceId& id, Time now, bool taken_back) {
  Life& life = lives_.at(id);
  if (life.ended) return;
  life.ended = now;
  life.taken_back = taken_back;
}

void Bill::tell(const InstanceId& id, Time now, std::vector<Charge>& charges) const {
  const auto found = lives_.find(id);
  if (found == lives_.end()) return;
  const Life& life = found->second;
  for (const auto& [time, hourly] : life.prices) {
    charges.push_back({.instance = id, .hourly = hourly, .since = now - time});
  }
  Charge& last = charges.back();
  last.began = now - life.began;
  if (life.ended) last.ended = now - *life.ended;
  last.taken_back = life.taken_back;
}

double Bill::dollars_of(const Life& life) const {
  SKYWARD_CHECK(life.ended.has_value());
  if (life.taken_back && *life.ended - life.began < rules_.free_when_taken_back) return 0;
  double dollars = 0;
  double price = 0;
  Duration counted{};
  for (auto next = life.prices.begin();;) {
    const Time here = life.began + counted;
    const bool runs = here < *life.ended;
    // A begun quantum is paid whole, and no machine costs less than the minimum.
    if (!runs && counted >= rules_.minimum && counted % rules_.quantum == Duration{}) break;
    while (next != life.prices.end() && next->first <= here) price = (next++)->second;
    dollars += price * (seconds(kStep) / 3600);
    counted += kStep;
  }
  return dollars;
}

double Bill::dollars() const {
  double sum = 0;
  for (const auto& [id, life] : lives_) sum += dollars_of(life);
  return sum;
}

}  // namespace skyward::sim
