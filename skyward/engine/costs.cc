#include "skyward/engine/costs.h"

#include <algorithm>
#include <utility>

#include "skyward/engine/effects.h"
#include "skyward/engine/options.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

std::optional<MachinePrice> to_price(bool spot, const std::optional<double>& spot_dollars,
                                     const std::optional<double>& on_demand_dollars) {
  const std::optional<double>& dollars = spot && spot_dollars ? spot_dollars : on_demand_dollars;
  if (!dollars) return std::nullopt;
  MachinePrice price{.hourly = to_micro_dollars(*dollars), .spot = spot};
  if (on_demand_dollars) price.on_demand_hourly = to_micro_dollars(*on_demand_dollars);
  return price;
}

}  // namespace

// Without a price on demand, only spot machines can be launched where there is a budget.
std::optional<MachinePrice> highest_price(const Offer& offer, const PoolSpec& spec,
                                          const BillingRules& billing) {
  std::optional<double> most = offer.price_on_demand;
  if (most && offer.prices_vary) *most *= kMostTimesThePrice;
  const bool spot_alone = least_spot_count(spec.spot, spec.nodes) == spec.nodes;
  if (offer.price_spot && (!most || (spot_alone && !billing.prices_change))) {
    most = *offer.price_spot * kMostTimesThePrice;  // of another type
  }
  if (!most) return std::nullopt;
  return MachinePrice{.hourly = to_micro_dollars(*most)};
}

CostBook new_book(const Options& options, const Offer& offer) {
  BillingRules rules = options.billing;
  rules.set_increment(offer.billing_increment_minutes);
  return CostBook(rules);
}

Duration CloudClock::read(Time now, Time cloud_now) {
  constexpr Duration kTolerance = 1s;  // of our clock
  ahead = cloud_now - now;
  const std::optional<Reading> before = std::exchange(last, Reading{now, ahead});
  if (!before) return {};
  const Duration since = now - before->at;
  const Duration more = since + (ahead - before->ahead) - to_cloud(since);
  return more > to_cloud(kTolerance) ? more : Duration{};
}

void Costs::take_offer(const PoolSpec& spec, const Options& options, const Offer& offer) {
  offer_ = offer;
  highest_price_ = engine::highest_price(offer, spec, options.billing);
  if (!book_.asked_for_any()) book_ = new_book(options, offer);
}

void Costs::on_asked(Time now, NodeId first_node, int count) {
  book_.on_asked(static_cast<int>(first_node.value), clock_.at(now), count, highest_price_);
}

Time Costs::on_answered(Time now, NodeId first_node) {
  return book_.on_answered(static_cast<int>(first_node.value), clock_.at(now));
}

void Costs::on_launched(Time asked, NodeId node, const Instance& instance) {
  const auto& spot = instance.price_spot ? instance.price_spot : offer_.price_spot;
  const auto& plain = instance.price_on_demand ? instance.price_on_demand : offer_.price_on_demand;
  book_.on_launched(instance.id, static_cast<int>(node.value), asked,
                    to_price(instance.spot, spot, plain));
}

void Costs::on_ready(Time now, const InstanceId& instance) {
  book_.on_ready(instance, clock_.at(now));
}

void Costs::on_work(const InstanceId& instance, const Work& work) {
  if (work.useful + work.lost == Duration{}) return;
  book_.on_work(instance, clock_.to_cloud(work.useful), clock_.to_cloud(work.lost));
}

void Costs::on_gone(Time now, const std::vector<InstanceId>& instances) {
  const Time cloud_now = clock_.at(now);
  for (const InstanceId& id : instances) book_.on_gone(id, cloud_now);
}

void Costs::on_charges(Time now, const std::vector<Charge>& charges) {
  book_.on_charges(charges, clock_.at(now));
}

void Costs::tell(EngineEffects& effects, Time now) {
  if (!book_.costs_anything() || now < told_at_ + kCostUpdateInterval) return;
  told_at_ = now;
  const CostNow cost = this->now(now);
  effects.emit(CostUpdate{.elapsed_seconds = seconds(cost.elapsed),
                          .accumulated_cost = to_dollars(cost.total),
                          .hourly_rate = to_dollars(cost.hourly),
                          .spot_count = cost.spot_count,
                          .ondemand_count = cost.on_demand_count});
}

void Costs::tell_final(EngineEffects& effects, Time now, PoolStopped& stopped) const {
  if (!book_.costs_anything()) return;
  const Time cloud_now = clock_.at(now);
  const auto by_node = book_.by_node(cloud_now);
  for (NodeReceipt& receipt : stopped.nodes) {
    const auto found = by_node.find(receipt.node);
    if (found != by_node.end()) receipt.cost = to_dollars(found->second);
  }
  const CostNow cost = book_.now(cloud_now);
  const CostSplit split = book_.split(cloud_now);
  effects.emit(CostFinal{.total_cost = to_dollars(cost.total),
                         .total_seconds = seconds(cost.elapsed),
                         .hourly_rate = to_dollars(book_.highest_hourly()),
                         .spot_count = book_.machines(true),
                         .ondemand_count = book_.machines(false),
                         .savings_vs_ondemand = to_dollars(cost.on_demand - cost.total),
                         .setup_cost = to_dollars(split.setup),
                         .useful_cost = to_dollars(split.useful),
                         .idle_cost = to_dollars(split.idle),
                         .lost_cost = to_dollars(split.lost)});
}

PoolCost Costs::until(Time cloud_now) const {
  const CostSplit split = book_.split(cloud_now);
  return {.total = to_dollars(split.total),
          .hourly = to_dollars(book_.now(cloud_now).hourly),
          .setup = to_dollars(split.setup),
          .useful = to_dollars(split.useful),
          .idle = to_dollars(split.idle),
          .lost = to_dollars(split.lost)};
}

void BillPoll::start(Time now) {
  if (interval_ > Duration{}) ask_at_ = std::min(ask_at_, now + interval_);
}

void BillPoll::ask(EngineEffects& effects, Time now, const CostBook& book) {
  ask_at_ = kNever;
  if (interval_ <= Duration{}) return;
  ask_at_ = now + interval_;
  std::vector<InstanceId> bills = book.open_bills();
  if (bills.empty() || std::exchange(asking_, true)) return;
  effects.ask_charges(std::move(bills));
}

void BillPoll::ask_last(EngineEffects& effects, const CostBook& book) {
  ask_at_ = kNever;
  if (interval_ <= Duration{} || !book.asked_for_any()) return;
  asking_ = true;
  effects.ask_charges(book.open_bills());
}

void BillPoll::on_answer(Time now, bool news) {
  asking_ = false;
  if (news) news_at_ = now;
}

void BillPoll::ask_often(EngineEffects& effects, Time now, const CostBook& book, Duration pause) {
  const Time again = news_at_ + pause;
  if (again <= now) {
    ask(effects, now, book);
  } else if (interval_ > Duration{}) {
    ask_at_ = std::min(ask_at_, again);
  }
}

}  // namespace skyward::engine
