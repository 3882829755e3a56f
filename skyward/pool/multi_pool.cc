#include "skyward/pool/multi_pool.h"

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "skyward/pool/callbacks.h"

namespace skyward {
namespace {

// Ends the opening of a pool because another one has failed.
struct OtherPoolFailed {};

}  // namespace

MultiPool::MultiPool(std::vector<PoolOptions> options) : pools_(options.size()) {
  std::vector<std::exception_ptr> failures(options.size());
  std::atomic<bool> failed{false};
  const std::function<void()> check = [&failed] {
    if (failed) throw OtherPoolFailed();
  };
  std::vector<std::jthread> threads;  // joined before what they write to goes
  for (std::size_t i = 0; i < options.size(); ++i) {
    threads.emplace_back([this, &options, &failures, &failed, &check, i] {
      try {
        // NOLINTNEXTLINE(modernize-make-unique): the constructor is private
        pools_[i] = std::unique_ptr<ComputePool>(new ComputePool(std::move(options[i]), check));
      } catch (const OtherPoolFailed&) {  // that one's failure is thrown
      } catch (...) {
        failures[i] = std::current_exception();
        failed = true;
      }
    });
  }
  threads.clear();
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    close_all();
    std::rethrow_exception(failure);
  }
}

MultiPool::~MultiPool() { close_all(); }

void MultiPool::close_all() {
  std::vector<std::jthread> threads;
  for (auto& pool : pools_) {
    if (!pool) continue;
    if (!runs_callbacks()) {  // else the new thread would wait for this one
      try {
        threads.emplace_back([&pool] { pool.reset(); });
        continue;
      } catch (const std::system_error&) {  // no more threads: one after the other
      }
    }
    pool.reset();
  }
}

}  // namespace skyward
