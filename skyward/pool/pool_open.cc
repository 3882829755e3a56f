// Opening a pool, at one provider after the other, and closing it.

#include <fmt/format.h>

#include <mutex>
#include <numeric>
#include <utility>

#include "skyward/base/stderr_line.h"
#include "skyward/base/wait_polling.h"
#include "skyward/call/error.h"
#include "skyward/engine/link_policy.h"
#include "skyward/engine/loop_choice.h"
#include "skyward/pool/pool_state.h"
#include "skyward/spec/cost.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/spec/provider_settings.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;

MachinesLeftError machines_left(const Error& error) {
  return MachinesLeftError(fmt::format("{}\n  hint: {}", error.message, error.hint));
}

// Where nothing can be thrown.
void complain(const MachinesLeftError& error) {
  write_stderr_line(fmt::format("skyward: {}", error.what()));
}

}  // namespace

Pool::~Pool() {
  try {
    close();
  } catch (const MachinesLeftError& error) {
    complain(error);
  }
  // NOLINTNEXTLINE(bugprone-unused-return-value): what is in there waits for threads of the parent.
  if (!is_ours()) static_cast<void>(impl_.release());
}

std::function<void()> PoolState::hurrying(const std::function<void()>& poll,
                                          std::exception_ptr& thrown) {
  if (!poll) return {};
  return [this, &poll, &thrown] {
    try {
      poll();
    } catch (...) {
      if (!thrown) thrown = std::current_exception();
      hurry();
    }
  };
}

Status PoolState::end_loop(const std::function<void()>& poll) {
  Status result;
  {
    std::unique_lock lock(mutex);
    wait_polling(lock, changed, poll, [this] { return loop_closed; });
    result = std::exchange(left, {});
  }
  access->end();
  loop.reset();
  return result;
}

void PoolState::begin_opening() {
  check_owner();
  {
    const std::scoped_lock lock(mutex);
    if (phase != Phase::closed) throw ConfigurationError("the pool is open already");
    phase = Phase::opening;
    job_id = engine::EngineLoop::new_job_id();
    bill = {};
    bill_due = false;
    held_back.reset();
  }
  events.open(asked.record_root, job_id);
}

// The choices in the order in which they are tried.
std::vector<std::size_t> PoolState::order(const std::vector<PoolSpec>& choices,
                                          const std::function<void()>& poll) const {
  if (choices.size() > 1 && asked.selection != Selection::first) {
    return engine::order_of(asked, engine::best_offers(choices, poll));
  }
  std::vector<std::size_t> as_given(choices.size());
  std::iota(as_given.begin(), as_given.end(), std::size_t{0});
  return as_given;
}

// If it fails, everything is released.
Status PoolState::open_choice(const PoolSpec& choice, const std::function<void()>& poll) {
  auto provider = provider::make_provider(choice.provider);
  if (!provider) return fail(provider);
  if (Status possible = (*provider)->check(choice); !possible) return possible;
  if (Status possible = engine::EngineLoop::allow_links(choice.nodes); !possible) return possible;
  engine::Options options;
  options.job_id = job_id;
  options.heartbeat_timeout = kHeartbeatTimeout;
  options.workers_per_node = static_cast<std::uint32_t>(workers_per_node(choice));
  const provider::Capabilities capabilities = (*provider)->capabilities();
  options.billing = capabilities.billing;
  options.provision_timeout = capabilities.provision_timeout;
  options.charges_interval = capabilities.charges_interval;
  options.spent_before = to_micro_dollars(bill_until_now().total_cost);
  options.private_network = capabilities.private_network;
  blobs.name_by_content(!capabilities.descriptors);
  if (!capabilities.descriptors) {
    // The link decides; the core only sees to it that somebody does.
    options.heartbeat_timeout = engine::decided_after(choice, capabilities.gateway);
    options.heartbeat_interval = choice.heartbeat_timeout / 4;
    options.greet_timeout = capabilities.greet_timeout + kBootstrapTimeout;  // slow uploads
    options.lease = choice.lease;
  }
  {
    const std::scoped_lock lock(mutex);
    spec = choice;
    opened_status.reset();
    stopping = expired = loop_closed = false;
    billed = false;
    loop = std::make_unique<engine::EngineLoop>(choice, std::move(options), *std::move(provider),
                                                *this);
    access = std::make_shared<engine::LoopAccess>(*loop);
  }
  loop->open();
  Status status;
  try {
    std::unique_lock lock(mutex);
    wait_polling(lock, changed, poll, [this] { return opened_status.has_value(); });
    status = *opened_status;
    if (status) {
      last_choice = true;
      phase = Phase::active;
    }
  } catch (...) {
    last_choice = true;
    loop->close();
    std::exception_ptr again;  // of no interest: the first one goes on from here
    if (const Status ended = end_loop(hurrying(poll, again)); !ended) {
      complain(machines_left(ended.error()));
    }
    throw;
  }
  if (status) return status;
  if (const Status ended = end_loop({}); !ended) {
    Error why = status.error();
    why.message += "; " + ended.error().message;
    why.hint = ended.error().hint;
    status = std::unexpected(std::move(why));
  }
  return status;
}

void Pool::open(const std::function<void()>& poll) {
  impl_->begin_opening();
  std::vector<ProviderFailure> failures;
  try {
    std::vector<PoolSpec> choices = choices_of(impl_->asked);
    for (PoolSpec& choice : choices) {
      auto complete = engine::with_settings(choice.provider);
      if (!complete) throw_error(complete.error());
      choice.provider = *std::move(complete);
    }
    const auto label = [&](std::size_t i) { return provider_label(choices[i].provider.name); };
    const std::vector<std::size_t> order = impl_->order(choices, poll);
    for (std::size_t i = 0; i < order.size(); ++i) {
      impl_->last_choice = i + 1 == order.size();
      impl_->set_chosen(order[i]);
      Status status = impl_->open_choice(choices[order[i]], poll);
      if (status) return;
      failures.push_back({label(order[i]), std::move(status.error())});
      if (impl_->last_choice) break;
      impl_->events.put(ErrorEvent{fmt::format("{} failed: {}; trying {}", label(order[i]),
                                               failures.back().error.message, label(order[i + 1])),
                                   std::nullopt});
    }
  } catch (...) {
    impl_->last_choice = true;
    impl_->set_closed();
    throw;
  }
  impl_->set_closed();
  if (failures.size() == 1) throw_error(failures.front().error);
  throw AllProvidersFailedError(std::move(failures));
}

void Pool::close(const std::function<void()>& poll) {
  if (!is_ours()) return;
  bool on_loop_thread = false;
  impl_->with_open_loop(
      [&on_loop_thread](engine::EngineLoop& loop) { on_loop_thread = loop.is_this_thread(); });
  if (on_loop_thread) {
    throw SkywardError(
        "close() was called from Handle::on_done(), on the thread that does the closing\n"
        "hint: tell another thread to close the pool");
  }
  std::exception_ptr thrown;
  const auto hurrying = impl_->hurrying(poll, thrown);
  Status left;
  {
    std::unique_lock lock(impl_->mutex);
    if (impl_->phase == PoolState::Phase::closing) {  // another thread is at it
      wait_polling(lock, impl_->changed, hurrying,
                   [this] { return impl_->phase == PoolState::Phase::closed; });
    }
    if (impl_->phase == PoolState::Phase::active) {
      impl_->phase = PoolState::Phase::closing;
      lock.unlock();
      impl_->loop->close();
      left = impl_->end_loop(hurrying);
      impl_->set_closed();
    }
  }
  if (thrown && !left) complain(machines_left(left.error()));
  if (thrown) std::rethrow_exception(thrown);
  if (!left) throw machines_left(left.error());
}

}  // namespace skyward
