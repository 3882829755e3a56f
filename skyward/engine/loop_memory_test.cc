// Memory that the caller keeps for the next large call, and the loop that has it dropped.

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "skyward/engine/loop.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;

class Keeper final : public Caller {
 public:
  // There is memory until it has been dropped so often.
  explicit Keeper(int drops) : left_(drops) {}

  bool await_empty() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [this] { return left_ == 0; });
  }

  void complete(TaskId, wire::Outcome) override {}
  void deliver_item(TaskId, wire::Payload) override {}
  void retain_blob(const wire::Blob&) override {}
  bool keeps_memory() const override {
    const std::scoped_lock lock(mutex_);
    return left_ > 0;
  }
  void drop_unused_memory() override {
    const std::scoped_lock lock(mutex_);
    EXPECT_GT(left_, 0) << "there was nothing left";
    --left_;
    changed_.notify_all();
  }
  void emit(Event) override {}
  void opened(Status) override {}
  void closed(Status) override {}

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int left_;
};

TEST(LoopMemory, IsDroppedUntilNoneIsLeft) {
  PoolSpec spec;
  spec.provider.name = "local";
  Keeper keeper(3);
  EngineLoop loop(spec, {.job_id = EngineLoop::new_job_id(), .idle_memory = 1ms},
                  provider::make_provider(spec.provider).value(), keeper);
  loop.cancel(TaskId{1});  // whatever happens: the loop looks then
  EXPECT_TRUE(keeper.await_empty());
  loop.cancel(TaskId{1});
  loop.cost().get();
}

}  // namespace
}  // namespace skyward::engine
