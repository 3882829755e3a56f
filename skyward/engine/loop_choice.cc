#include "skyward/engine/loop_choice.h"

#include <algorithm>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "skyward/base/guarded.h"
#include "skyward/base/wait_polling.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/http.h"
#include "skyward/io/start_thread.h"
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
  return asking_price(offer, spec.spot.allows_spot()).value_or(std::numeric_limits<double>::max());
}

// Asks all at the same time; answers in order. When `poll` throws, those that still ask end by
// themselves, unheard: they share nothing with the caller, and their requests end with the program.
template <typename Answer>
std::vector<Result<Answer>> ask_all(std::vector<std::function<Result<Answer>()>> questions,
                                    const std::function<void()>& poll) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t left = 0;
    std::vector<Result<Answer>> answers;
  };
  const auto shared = std::make_shared<Shared>();
  shared->left = questions.size();
  shared->answers.resize(questions.size());
  for (std::size_t i = 0; i < questions.size(); ++i) {
    io::start_thread([shared, i, ask = std::move(questions[i])] {
      const io::BackgroundRequests requests;
      Result<Answer> answer = guarded(ask);
      const std::scoped_lock lock(shared->mutex);
      shared->answers[i] = std::move(answer);
      if (--shared->left == 0) shared->changed.notify_all();
    }).detach();
  }
  std::unique_lock lock(shared->mutex);
  wait_polling(lock, shared->changed, poll, [&] { return shared->left == 0; });
  return std::move(shared->answers);
}

}  // namespace

std::vector<Result<Offer>> best_offers(const std::vector<PoolSpec>& choices,
                                       const std::function<void()>& poll) {
  const Time deadline = io::EventLoop::now() + kCompareTimeout;
  std::vector<std::function<Result<Offer>()>> questions;
  for (const PoolSpec& choice : choices) {
    questions.emplace_back([choice, deadline] { return best_offer(choice, deadline); });
  }
  return ask_all(std::move(questions), poll);
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

Result<std::vector<Offer>> catalogue_of(const ProviderSpec& provider,
                                        const std::function<void()>& poll) {
  const auto ask = [provider]() -> Result<std::vector<Offer>> {
    const auto made = provider::make_provider(provider);
    if (!made) return fail(made);
    return (*made)->catalogue(io::EventLoop::now() + kProvisionTimeout);
  };
  return std::move(ask_all<std::vector<Offer>>({ask}, poll).front());
}

}  // namespace skyward::engine
