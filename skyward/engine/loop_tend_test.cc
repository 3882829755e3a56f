// What a provider looks after while its pool is open, and when the loop asks for it.

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/engine/loop.h"
#include "skyward/io/event_loop.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;

// Its machines are not there before it has been tended so often. Then there are none after all.
class TendedCloud final : public provider::Provider {
 public:
  explicit TendedCloud(int times) : times_(times) {}

  std::string_view name() const override { return "test"; }
  provider::Capabilities capabilities() const override { return {.tend_interval = 1ms}; }
  Status check(const PoolSpec&) override { return {}; }
  Result<std::vector<Offer>> offers(const PoolSpec&, Time) override {
    return std::vector{Offer{.instance_type = "small"}};
  }
  Result<Cluster> prepare(const PoolSpec&, const Offer&, Time) override {
    EXPECT_EQ(tended_, 0) << "before there is anything to look after";
    return Cluster{.id = "test-1"};
  }
  void set_meanwhile(std::function<void()> run) override { meanwhile_ = std::move(run); }
  Result<std::vector<Instance>> provision(const Cluster&, int, int, Time deadline) override {
    while (tended_ < times_ && io::EventLoop::now() < deadline) {
      meanwhile_();
      std::this_thread::yield();
    }
    return fail(ErrorKind::invalid, "there are none", "");
  }
  Status tend(const Cluster& cluster, Time) override {
    EXPECT_EQ(cluster.id, "test-1");
    EXPECT_FALSE(torn_down_) << "nothing is left to look after";
    ++tended_;
    return fail(ErrorKind::unavailable, "the process is gone", "install it again");
  }
  Result<std::optional<Instance>> get_instance(const Cluster&, const std::string&, Time) override {
    return std::nullopt;
  }
  Status terminate(const Cluster&, const std::vector<std::string>&, Time) override { return {}; }
  // Outlasts several intervals at which the loop tends it.
  Status teardown(const Cluster&, Time) override {
    const Time until = io::EventLoop::now() + 20ms;
    while (io::EventLoop::now() < until) std::this_thread::yield();
    torn_down_ = true;
    return {};
  }
  provider::Connection connection(const Cluster&, const Instance&) override { return {}; }
  provider::Bootstrap bootstrap(const Cluster&, const Instance&) override { return {}; }

 private:
  const int times_;
  int tended_ = 0;  // verbs run one at a time
  bool torn_down_ = false;
  std::function<void()> meanwhile_;
};

class Listener final : public Caller {
 public:
  bool await_closed() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [this] { return closed_; });
  }
  std::vector<std::string> warnings() {
    const std::scoped_lock lock(mutex_);
    return warnings_;
  }

  void complete(TaskId, wire::Outcome) override {}
  void deliver_item(TaskId, wire::Payload) override {}
  void retain_blob(const wire::Blob&) override {}
  bool keeps_memory() const override { return false; }
  void drop_unused_memory() override {}
  void emit(Event event) override {
    const auto* notice = std::get_if<Notice>(&event);
    if (notice == nullptr || notice->level != "warning") return;
    const std::scoped_lock lock(mutex_);
    warnings_.push_back(notice->message);
  }
  void opened(Status) override {}
  void closed(Status) override {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> warnings_;
  bool closed_ = false;
};

TEST(LoopTend, RunsAlsoWhileMachinesAreWaitedForAndItsFailureIsToldOnce) {
  PoolSpec spec;
  spec.provider.name = "test";
  Listener listener;
  EngineLoop loop(spec, {.job_id = EngineLoop::new_job_id()}, std::make_unique<TendedCloud>(5),
                  listener);
  loop.open();
  EXPECT_TRUE(listener.await_closed());
  EXPECT_EQ(listener.warnings(), std::vector<std::string>{"the process is gone; install it again"});
}

}  // namespace
}  // namespace skyward::engine
