// Agents that say anything at any time, over a real connection to the real loop and its links:
// frames in the wrong order, with wrong numbers, ids and sizes, frames that are cut, garbage. The
// driver loses the node and never itself, answers every task once, and closes in time. Seeded. The
// agent is this very program, started again.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "skyward/engine/link_entry.h"
#include "skyward/engine/loop.h"
#include "skyward/io/channel.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::engine {
namespace {

constexpr std::string_view kAgent = "--hostile-agent";  // then its seed and its machine
constexpr std::string_view kNoShell = "-";              // in place of the machine
constexpr std::uint64_t kSeeds = 100;
constexpr std::size_t kDrivers = 4;        // at a time: they wait more than they compute
constexpr std::uint64_t kShellSeeds = 10;  // these reconnect, which takes a second
constexpr int kTasks = 12;
constexpr int kWords = 60;
constexpr Duration kPulse = 50ms;        // between heartbeats
constexpr Duration kLife = 400ms;        // of a pool that goes well
constexpr Duration kShellLife = 2500ms;  // ... and whose agents reconnect
constexpr Duration kLimit = 30s;         // of one that does not

// ---- the agent

class Hostile {
 public:
  Hostile(std::uint64_t seed, std::string_view machine)
      : random_(seed), shell_(machine != kNoShell) {
    for (const int descriptor : {0, 1}) (void)io::set_non_blocking(descriptor, true);
    channel_ = std::make_unique<io::Channel>(
        loop_, io::FileDescriptor(0), shell_ ? io::FileDescriptor(1) : io::FileDescriptor(),
        wire::kFramePrefixBytes, wire::decode_prefix,
        io::Channel::Handlers{.on_message = [this](io::Incoming in) { hear(std::move(in)); },
                              .on_closed = [this](const Error&) { loop_.stop(); }});
    if (shell_) say(fmt::format("skyward-agent: machine {}\nskyward-agent: connected\n", machine));
    loop_.start_timer(io::EventLoop::now() + kLimit, [this] { loop_.stop(); });
    loop_.run();
  }

 private:
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  std::uint64_t upto(std::uint64_t high) {
    return std::uniform_int_distribution<std::uint64_t>(0, high)(random_);
  }
  void say(const std::string& bytes) {
    const ByteView view = as_bytes(bytes);
    channel_->send({.head = Bytes(view.begin(), view.end())});
  }

  void hear(io::Incoming in) {
    const ByteView header = ByteView(in.head).subspan(wire::kFramePrefixBytes);
    auto frame = wire::decode(header, std::move(in.body), {});
    if (!frame) return;
    if (frame->envelope.sequence > 0) received_ = frame->envelope.sequence;
    if (std::holds_alternative<wire::Hello>(frame->message)) return greet();
    if (std::holds_alternative<wire::Configure>(frame->message)) {
      const bool ready = chance(0.95);
      if (ready) tell(wire::Ready{});
      if (!ready || chance(0.2)) talk();
    } else if (const auto* run = std::get_if<wire::RunTask>(&frame->message)) {
      run_ = *run;
      talk();
      if (chance(0.6)) tell(wire::TaskResult{.task = run->task, .attempt = run->attempt});
    } else if (std::holds_alternative<wire::Shutdown>(frame->message) && chance(0.9)) {
      loop_.stop();
    }
    if (talks_ && chance(0.5)) word();
  }

  // Most agents are honest until their pool has opened, however long that takes on a busy machine.
  void talk() {
    if (!std::exchange(talks_, true)) later();
  }
  void pulse() {
    put(wire::Heartbeat{}, {.sequence = 0, .acknowledged = received_});
    if (words_ > 0) loop_.start_timer(io::EventLoop::now() + kPulse, [this] { pulse(); });
  }

  void greet() {
    wire::Welcome welcome{.protocol = chance(0.95) ? kProtocolVersion : 99,
                          .version = SKYWARD_VERSION,
                          .last_received = chance(0.95) ? 0 : upto(9),
                          .refusal = chance(0.03) ? "no" : "",
                          .blob_bytes = upto(1 << 20)};
    if (chance(0.97)) put(std::move(welcome), {});
    if (chance(0.1)) talk();
    pulse();
  }
  void later() {
    loop_.start_timer(io::EventLoop::now() + std::chrono::microseconds(upto(20'000)), [this] {
      word();
      if (--words_ > 0) later();
    });
  }

  // The next message, numbered as it should be.
  void tell(wire::Message message) {
    put(std::move(message), {.sequence = ++sequence_, .acknowledged = received_});
  }
  void put(const wire::Message& message, wire::Envelope envelope) {
    Outgoing frame = wire::encode(message, envelope);
    channel_->send({.head = std::move(frame.head), .body = std::move(frame.body)});
  }

  void word() {
    const wire::Message message = any_message();
    switch (upto(19)) {
      case 0:
        return put(message, {.sequence = upto(2 * sequence_ + 3), .acknowledged = upto(99)});
      case 1:
        return say(std::string(1 + upto(99), static_cast<char>(upto(255))));
      case 2: {  // cut short, or with wrong bytes inside
        Outgoing frame =
            wire::encode(message, {.sequence = ++sequence_, .acknowledged = received_});
        if (chance(0.5)) {
          frame.head.resize(1 + upto(frame.head.size() - 1));
        } else {
          for (std::uint64_t n = upto(3); n < 4; ++n) {
            frame.head[upto(frame.head.size() - 1)] = static_cast<std::byte>(upto(255));
          }
        }
        return channel_->send({.head = std::move(frame.head)});
      }
      case 3:  // more, or fewer, descriptors than the frame lists
        return channel_->send(
            {.head =
                 wire::encode(message, {.sequence = ++sequence_, .acknowledged = received_}).head,
             .descriptors = shell_ ? std::vector<int>{} : std::vector{2}});
      case 4:
        if (chance(0.2)) loop_.stop();
        return;
      default:
        return tell(message);
    }
  }

  wire::Payload any_payload() {
    wire::Payload payload;
    for (std::uint64_t n = upto(2); n > 0; --n) {
      wire::Blob blob{.id = BlobId{upto(4)}, .size = upto(1 << 20), .descriptor = -1};
      if (chance(0.5)) {
        payload.buffers.push_back(wire::small_buffer(SharedBytes(std::string(upto(9), 'x'))));
      } else {
        payload.buffers.push_back(wire::blob_buffer(blob, upto(1 << 20), upto(1 << 20)));
      }
    }
    return payload;
  }

  wire::Message any_message() {
    const TaskId task = chance(0.7) ? run_.task : TaskId{upto(kTasks + 2)};
    const auto attempt = chance(0.7) ? run_.attempt : static_cast<std::uint32_t>(upto(4));
    switch (upto(12)) {
      case 0:
        return wire::TaskResult{.task = task,
                                .attempt = attempt,
                                .status = static_cast<wire::TaskStatus>(upto(4)),
                                .worker = static_cast<std::uint32_t>(upto(99)),
                                .payload = any_payload(),
                                .run_ns = random_(),
                                .retained = {BlobId{upto(5)}}};
      case 1:
        return wire::StreamItem{.task = task, .attempt = attempt, .payload = any_payload()};
      case 2:
        return wire::Recalled{.tasks = {task, task, TaskId{upto(99)}}};
      case 3:
        return wire::Ready{};
      case 4:
        return wire::Failed{.step = "any", .reason = "none"};
      case 5:
      case 6: {
        const std::uint64_t size = chance(0.8) ? upto(99) : random_();
        return wire::BlobChunk{.blob = BlobId{upto(4)},
                               .size = size,
                               .offset = chance(0.8) ? upto(9) : random_(),
                               .bytes = SharedBytes(std::string(upto(99), 'y'))};
      }
      case 7:
        return wire::BlobFetched{.blob = BlobId{upto(5)}, .received = random_()};
      case 8:
        return wire::Preempted{.left_ms = random_(), .reason = "why not"};
      case 9:
        return wire::Output{{{.task = task, .worker = 99, .text = "words"}}};
      case 10:
        return wire::BootstrapStep{.step = "no such step"};
      case 11:
        return wire::DropBlobs{{BlobId{upto(5)}}};
      default:
        return wire::MetricsSample{};
    }
  }

  std::mt19937_64 random_;
  const bool shell_;
  io::EventLoop loop_;
  std::unique_ptr<io::Channel> channel_;
  wire::RunTask run_;
  std::uint64_t sequence_ = 0;
  std::uint64_t received_ = 0;
  bool talks_ = false;
  int words_ = kWords;
};

// Before main(): its words must be the first that this process writes.
[[gnu::constructor]] void be_the_agent(int argc, char** argv) {
  if (argc < 4 || argv[1] != kAgent) return;
  const Hostile hostile(std::strtoull(argv[2], nullptr, 10), argv[3]);
  std::_Exit(0);
}

// ---- the pool

class HostileCloud final : public provider::Provider {
 public:
  HostileCloud(std::uint64_t seed, bool shell) : seed_(seed), shell_(shell) {}

  std::string_view name() const override { return "test"; }
  provider::Capabilities capabilities() const override {
    return {.private_network = true, .descriptors = !shell_, .greet_timeout = 5s};
  }
  Status check(const PoolSpec&) override { return {}; }
  Result<std::vector<Offer>> offers(const PoolSpec&, Time) override {
    return std::vector{Offer{.instance_type = "small"}};
  }
  Result<Cluster> prepare(const PoolSpec&, const Offer&, Time) override {
    return Cluster{.id = "test-1"};
  }
  Result<std::vector<Instance>> provision(const Cluster&, int count, int, Time) override {
    std::vector<Instance> made;
    for (int i = 0; i < count; ++i) made.push_back({.id = fmt::format("i-{}", ++machines_)});
    return made;
  }
  Result<std::optional<Instance>> get_instance(const Cluster&, const std::string&, Time) override {
    return std::nullopt;
  }
  Status terminate(const Cluster&, const std::vector<std::string>&, Time) override { return {}; }
  Status teardown(const Cluster&, Time) override { return {}; }
  provider::Connection connection(const Cluster&, const Instance& instance) override {
    const std::uint64_t seed = seed_ * 1000 + std::hash<std::string>()(instance.id) % 1000;
    const std::string program = "/proc/self/exe";
    provider::Connection way{.command = {program, std::string(kAgent), std::to_string(seed)},
                             .shell = shell_};
    if (shell_) way.agents = {program};
    way.command.push_back(shell_ ? inspect_agent(program)->machine : std::string(kNoShell));
    return way;
  }
  provider::Bootstrap bootstrap(const Cluster&, const Instance&) override {
    return {.worker_command = {"worker"}};
  }

 private:
  const std::uint64_t seed_;
  const bool shell_;
  int machines_ = 0;
};

class Driver final : public Caller {
 public:
  Driver(std::uint64_t seed, bool shell)
      : life_(shell ? kShellLife : kLife),
        loop_(spec(), options(), std::make_unique<HostileCloud>(seed, shell), *this) {}

  void run() {
    loop_.open();
    wait(kLimit, [&] { return opened_ || closed_; });
    const bool submitted = well_;
    if (submitted) submit();
    wait(life_, [&] { return closed_ || (lost_ && answered_.size() == kTasks); });
    loop_.close();
    // Those that do not listen get no more time than somebody who is impatient gives them.
    if (!wait(1s, [&] { return closed_; })) loop_.hurry();
    EXPECT_TRUE(wait(kLimit, [&] { return closed_; })) << "it does not close";
    EXPECT_EQ(answered_.size(), submitted ? std::size_t{kTasks} : 0);
    for (const auto& [task, times] : answered_) EXPECT_EQ(times, 1) << "task " << task.value;
  }
  bool was_lost() const { return lost_; }
  bool went_well() const { return well_; }

 private:
  static PoolSpec spec() {
    PoolSpec spec;
    spec.provider.name = "test";
    spec.nodes = 2;
    spec.concurrency = 2;
    spec.heartbeat_timeout = 300ms;
    spec.reconnect_timeout = 300ms;
    return spec;
  }
  static Options options() {
    return {.job_id = EngineLoop::new_job_id(), .heartbeat_timeout = 2s, .greet_timeout = 5s};
  }

  void submit() {
    const auto function = std::make_shared<const wire::FunctionBody>(wire::FunctionBody{
        .id = {}, .bytes = wire::small_buffer(SharedBytes(std::string("body"))), .name = "f"});
    std::vector<wire::Call> calls;
    for (std::uint64_t id = 1; id <= kTasks; ++id) {
      calls.push_back({.function = function,
                       .arguments = {},
                       .options = {.stream_window = id % 3 == 0 ? 2U : 0U}});
    }
    loop_.submit(TaskId{1}, std::move(calls));
  }
  template <typename Ready>
  bool wait(Duration limit, Ready ready) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, ready);
  }
  template <typename Change>
  void note(Change change) {
    const std::scoped_lock lock(mutex_);
    change();
    changed_.notify_all();
  }

  void complete(TaskId task, wire::Outcome) override {
    note([&] { ++answered_[task]; });
  }
  void deliver_item(TaskId, wire::Payload) override {}
  void retain_blob(const wire::Blob&) override {}
  void emit(Event event) override {
    const auto* error = std::get_if<ErrorEvent>(&event);
    if (error != nullptr && error->message.contains("was lost")) note([&] { lost_ = true; });
  }
  void opened(Status status) override {
    note([&] {
      opened_ = true;
      well_ = status.has_value();
    });
  }
  void closed(Status) override {
    note([&] { closed_ = true; });
  }

  const Duration life_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<TaskId, int> answered_;
  bool opened_ = false;
  bool well_ = false;
  bool lost_ = false;
  bool closed_ = false;
  EngineLoop loop_;  // last: its thread calls what stands above
};

class HostileLoopTest : public testing::TestWithParam<bool> {};

TEST_P(HostileLoopTest, AHostileAgentCostsItsNodeAndNothingElse) {
  std::atomic<int> lost = 0;
  std::atomic<int> opened = 0;
  std::atomic<std::uint64_t> seeds = 0;
  const auto run = [&] {
    const std::uint64_t last = GetParam() ? kShellSeeds : kSeeds;
    for (std::uint64_t seed = ++seeds; seed <= last && !HasFailure(); seed = ++seeds) {
      SCOPED_TRACE(seed);
      Driver driver(seed, GetParam());
      driver.run();
      lost += driver.was_lost() ? 1 : 0;
      opened += driver.went_well() ? 1 : 0;
    }
  };
  std::vector<std::jthread> drivers(GetParam() ? 1 : kDrivers);
  for (std::jthread& driver : drivers) driver = std::jthread(run);
  drivers.clear();
  EXPECT_GT(opened, 2) << "they were honest for long enough";
  EXPECT_GT(lost, 2);
}

INSTANTIATE_TEST_SUITE_P(Ways, HostileLoopTest, testing::Bool(),
                         [](const auto& way) { return way.param ? "Shell" : "Socket"; });

}  // namespace
}  // namespace skyward::engine
