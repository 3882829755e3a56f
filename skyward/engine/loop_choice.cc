#include "skyward/engine/loop_choice.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

#include "skyward/engine/wait_polling.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/provider.h"
#include "skyward/provider/settings.h"
#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

Result<Offer> best_offer(const PoolSpec& choice, Time deadline) {
  const auto provider = provider::make_provider(choice.provider);
  if (!provider) return fail(provider);
  if (Status possible = (*provider)->check(choice); !possible) return fail(possible);
  auto offers = (*provider)->offers(choice, deadline);
  if (!offers) return fail(offers);
  if (offers->empty()) return fail(ErrorKind::exhausted, "it has no machine that fits");
  return offers->front();
}

// Unknown prices come last.
double price_of(const PoolSpec& spec, const Offer& offer) {
  const bool spot = spec.spot.kind != SpotKind::never && offer.price_spot.has_value();
  return (spot ? offer.price_spot : offer.price_on_demand)
      .value_or(std::numeric_limits<double>::max());
}

}  // namespace

std::vector<Result<Offer>> best_offers(const std::vector<PoolSpec>& choices,
                                       const std::function<void()>& poll) {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t left = choices.size();
  std::vector<Result<Offer>> offers(choices.size());
  const Time deadline = io::EventLoop::now() + kCompareTimeout;
  std::vector<std::jthread> threads;  // joined before what they write to goes
  for (std::size_t i = 0; i < choices.size(); ++i) {
    threads.emplace_back([&, i] {
      auto offer = best_offer(choices[i], deadline);
      const std::scoped_lock lock(mutex);
      offers[i] = std::move(offer);
      if (--left == 0) changed.notify_all();
    });
  }
  std::unique_lock lock(mutex);
  wait_polling(lock, changed, poll, [&] { return left == 0; });
  return offers;
}

std::vector<std::size_t> order_of(const PoolSpec& spec, const std::vector<Result<Offer>>& offers) {
  std::vector<std::size_t> order(offers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) {
    const double price =
        offers[i] && spec.selection == Selection::cheapest ? price_of(spec, *offers[i]) : 0.0;
    return std::pair(!offers[i].has_value(), price);
  });
  return order;
}

Result<ProviderSpec> with_settings(const ProviderSpec& said) {
  return provider::with_settings(provider::world_of_this_process(), said);
}

Result<std::string> provider_to_take(const std::string& named) {
  return provider::provider_to_take(provider::world_of_this_process(), named);
}

Result<std::vector<Offer>> catalogue_of(const ProviderSpec& provider) {
  const auto made = provider::make_provider(provider);
  if (!made) return fail(made);
  return (*made)->catalogue(io::EventLoop::now() + kProvisionTimeout);
}

}  // namespace skyward::engine
