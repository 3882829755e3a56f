// The real agent and real Python workers, driven by a small engine over a socket pair.

#include "skyward/agent/loop.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "skyward/io/channel.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"
#include "skyward/io/shared_memory.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"
#include "skyward/wire/session.h"

namespace skyward::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::TaskStatus;

constexpr Duration kLoopTimeout = 60s;

std::string python() { return io::environment_variable("SKYWARD_TEST_PYTHON").value_or("python3"); }

std::string run_python(const std::string& script, std::string_view input) {
  io::SpawnOptions options;
  options.command = {python(), "-c", script};
  const auto result = io::run_command(options, kLoopTimeout, input);
  if (!result || result->status.code != 0) {
    ADD_FAILURE() << (result ? result->err : result.error().message);
    return "";
  }
  return result->out;
}

// The pickle of `value`, which the source defines.
SharedBytes pickled(const std::string& source) {
  static std::map<std::string, SharedBytes> made;
  SharedBytes& bytes = made[source];
  if (bytes.empty()) {
    bytes =
        SharedBytes(run_python("import sys, cloudpickle\n"
                               "space = {'__name__': '__main__'}\n"
                               "exec(sys.stdin.read(), space)\n"
                               "sys.stdout.buffer.write(cloudpickle.dumps(space['value'], 5))",
                               source));
  }
  return bytes;
}

// How Python would print a result.
std::string shown(const wire::Payload& payload) {
  if (payload.buffers.empty()) return "(nothing)";
  return run_python(
      "import sys, pickle\n"
      "sys.stdout.write(repr(pickle.loads(sys.stdin.buffer.read())))",
      as_text(payload.buffers[0].bytes.view));
}

bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

// Waits for the end of a process of anybody's.
bool wait_for_end(pid_t pid) {
  const io::FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd ready{.fd = process.get(), .events = POLLIN};
  return ::poll(&ready, 1, 60'000) == 1;
}

// An engine of a few lines. Its loop has a thread of its own; the test waits for messages.
class FakeEngine {
 public:
  explicit FakeEngine(std::uint32_t protocol = kProtocolVersion) {
    thread_ = std::thread([this] { loop_.run(); });
    on_loop([&] { connect(protocol); });
  }
  ~FakeEngine() {
    on_loop([this] {
      channel_.reset();
      process_.reset();
    });
    loop_.stop();
    thread_.join();
  }
  FakeEngine(const FakeEngine&) = delete;
  FakeEngine& operator=(const FakeEngine&) = delete;

  void send(const wire::Message& message) {
    on_loop([&] {
      if (channel_) write(message, session_.number(message));
    });
  }
  // As if the driver had been killed.
  void hang_up() {
    on_loop([this] { channel_.reset(); });
  }

  // The next message of the kind; others are kept for later, but for heartbeats.
  template <typename T>
  T take() {
    std::unique_lock lock(mutex_);
    T taken;
    const auto find = [&] {
      for (auto at = inbox_.begin(); at != inbox_.end(); ++at) {
        if (!std::holds_alternative<T>(*at)) continue;
        taken = std::get<T>(std::move(*at));
        inbox_.erase(at);
        return true;
      }
      return false;
    };
    if (!changed_.wait_for(lock, kLoopTimeout, find)) ADD_FAILURE() << "no " << typeid(T).name();
    return taken;
  }
  // All lines of a task up to now; they come before its result.
  std::vector<std::string> lines_of(std::uint64_t task) {
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> lines;
    for (const wire::Message& message : inbox_) {
      const auto* output = std::get_if<wire::Output>(&message);
      if (output == nullptr) continue;
      for (const wire::OutputLine& line : output->lines)
        if (line.task.value == task) lines.push_back(line.text);
    }
    return lines;
  }
  bool wait_for_line(const std::string& text) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLoopTimeout, [&] {
      for (const wire::Message& message : inbox_)
        if (const auto* output = std::get_if<wire::Output>(&message))
          for (const wire::OutputLine& line : output->lines)
            if (line.text == text) return true;
      return false;
    });
  }
  io::ExitStatus wait_for_exit() {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kLoopTimeout, [&] { return exit_.has_value(); }))
      ADD_FAILURE() << "the agent did not end";
    return exit_.value_or(io::ExitStatus{});
  }
  pid_t pid() const { return process_->pid(); }

 private:
  void on_loop(const std::function<void()>& what) {
    std::unique_lock lock(mutex_);
    bool done = false;
    loop_.post([&] {
      what();
      const std::scoped_lock inner(mutex_);
      done = true;
      changed_.notify_all();
    });
    changed_.wait(lock, [&] { return done; });
  }
  void connect(std::uint32_t protocol) {
    auto sockets = io::make_socket_pair();
    ASSERT_TRUE(sockets);
    io::SpawnOptions options;
    options.command = {SKYWARD_AGENT, "run"};
    options.descriptors = {{sockets->theirs.get(), 0}, {sockets->theirs.get(), 1}, {2, 2}};
    auto process = io::Process::spawn(loop_, options, [this](io::ExitStatus status) {
      const std::scoped_lock lock(mutex_);
      exit_ = status;
      changed_.notify_all();
    });
    ASSERT_TRUE(process) << process.error().message;
    process_ = std::move(*process);
    channel_ = std::make_unique<io::Channel>(
        loop_, std::move(sockets->ours), io::FileDescriptor(), wire::kFramePrefixBytes,
        wire::decode_prefix,
        io::Channel::Handlers{.on_message = [this](io::Incoming in) { receive(std::move(in)); },
                              .on_closed = [](const Error&) {}});
    write(wire::Hello{.protocol = protocol, .version = "test", .pool = "p", .descriptors = true},
          session_.control());
  }
  void write(const wire::Message& message, wire::Envelope envelope) {
    channel_->send(wire::encode(message, envelope));
  }
  void receive(io::Incoming incoming) {
    std::vector<wire::Blob> blobs;
    for (io::FileDescriptor& descriptor : incoming.descriptors) {
      auto owner = std::make_shared<io::FileDescriptor>(std::move(descriptor));
      blobs.push_back({.descriptor = owner->get(), .storage = owner});
    }
    auto frame = wire::decode(ByteView(incoming.head).subspan(wire::kFramePrefixBytes),
                              std::move(incoming.body), std::move(blobs));
    ASSERT_TRUE(frame) << frame.error().message;
    EXPECT_EQ(session_.arrived(frame->envelope), wire::Session::Arrival::deliver);
    if (session_.should_acknowledge()) write(wire::Heartbeat{}, session_.control());
    const std::scoped_lock lock(mutex_);
    if (const auto* batch = std::get_if<wire::TaskResults>(&frame->message)) {
      for (wire::TaskResult& result : batch->results()) inbox_.emplace_back(std::move(result));
    } else if (!std::holds_alternative<wire::Heartbeat>(frame->message)) {
      inbox_.push_back(std::move(frame->message));
    }
    changed_.notify_all();
  }

  io::EventLoop loop_;
  std::thread thread_;
  std::unique_ptr<io::Process> process_;
  std::unique_ptr<io::Channel> channel_;
  wire::Session session_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<wire::Message> inbox_;
  std::optional<io::ExitStatus> exit_;
};

class LoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    io::SpawnOptions options;
    options.command = {python(), "-c", "import cloudpickle as c; assert c.__version__ >= '3'"};
    const auto found = io::run_command(options, kLoopTimeout);
    if (!found || found->status.code != 0)
      GTEST_SKIP() << "needs " << python()
                   << " with cloudpickle 3; choose an interpreter with SKYWARD_TEST_PYTHON";
    EXPECT_EQ(engine.take<wire::Welcome>().refusal, "");
  }

  wire::Configure configuration(std::uint32_t concurrency = 1) {
    wire::Configure configure;
    configure.worker_command = {python(), SKYWARD_WORKER};
    configure.workers.resize(1);
    configure.workers[0].environment = {{"COMPUTE_POOL", "{}"}};
    configure.concurrency = concurrency;
    configure.metrics_ms = 50;
    return configure;
  }
  void make_ready(std::uint32_t concurrency = 1) {
    engine.send(configuration(concurrency));
    EXPECT_GT(engine.take<wire::Ready>().memory_bytes, 0U);
  }
  // A task starts it, for a pool that it has opened. A shell stands for it, and stops.
  pid_t start_reaper() {
    const auto task = call(
        "def value():\n"
        "  import pathlib, subprocess, tempfile\n"
        "  folder = tempfile.mkdtemp()\n"
        "  pathlib.Path(folder, 'reap').write_text('rm -r \"$PWD\"; kill -STOP $$')\n"
        "  print(subprocess.Popen(['/bin/skyward', 'reap'], executable='/bin/sh', cwd=folder, "
        "start_new_session=True).pid)");
    EXPECT_EQ(run(task).status, wire::TaskStatus::ok);
    return std::stoi(engine.lines_of(task.task.value).at(0));
  }
  // `source` defines `value`, a function; `arguments` is a Python tuple.
  wire::RunTask call(const std::string& source, const std::string& arguments = "()") {
    wire::RunTask run;
    run.task = TaskId{++last_task};
    run.body = wire::small_buffer(pickled(source));
    const std::uint64_t hash = std::hash<std::string>()(source);
    std::memcpy(run.function.value.data(), &hash, sizeof hash);
    run.arguments.buffers.push_back(wire::small_buffer(pickled("value = (" + arguments + ", {})")));
    return run;
  }
  wire::TaskResult run(const wire::RunTask& task) {
    engine.send(task);
    auto result = engine.take<wire::TaskResult>();
    EXPECT_EQ(result.task, task.task);
    return result;
  }

  FakeEngine engine;
  std::uint64_t last_task = 0;
};

TEST_F(LoopTest, RunsAFunctionAndTellsItsException) {
  make_ready();
  const auto sum = run(call("def value(a, b): return a + b", "(2, 3)"));
  EXPECT_EQ(sum.status, TaskStatus::ok);
  EXPECT_EQ(shown(sum.payload), "5");
  EXPECT_GT(sum.run_ns, 0U);
  const auto failed = run(call("def value():\n  print('before')\n  raise ValueError('bad')"));
  EXPECT_EQ(failed.status, TaskStatus::raised);
  EXPECT_THAT(shown(failed.payload), HasSubstr("'message': 'bad'"));
  EXPECT_THAT(failed.tail, ElementsAre("before"));
  EXPECT_GT(engine.take<wire::MetricsSample>().memory_total_mb, 0);
}

TEST_F(LoopTest, SurvivesFunctionsThatKillTheirWorker) {
  make_ready();
  const auto exited =
      run(call("def value():\n  import os\n  print('last', end='', flush=True)\n"
               "  os._exit(3)"));
  EXPECT_EQ(exited.status, TaskStatus::worker_died);
  EXPECT_THAT(exited.detail, HasSubstr("exited with code 3"));
  EXPECT_THAT(exited.tail, ElementsAre("last"));
  const auto killed = run(call("def value():\n  import os\n  os.kill(os.getpid(), 9)"));
  EXPECT_THAT(killed.detail, HasSubstr("killed by signal 9 (SIGKILL) while it ran the task"));
  EXPECT_THAT(killed.detail, HasSubstr("memory runs out"));
  const auto crashed = run(call("def value():\n  import ctypes\n  ctypes.string_at(0)"));
  EXPECT_THAT(crashed.detail, HasSubstr("SIGSEGV"));
  EXPECT_THAT(crashed.tail, ::testing::Contains(HasSubstr("Segmentation fault")));
  EXPECT_EQ(shown(run(call("def value(): return 'fine'")).payload), "'fine'");
}

TEST_F(LoopTest, ATaskThatItsDeadWorkerHadNotReadRunsInTheNextOne) {
  make_ready();
  const auto pid_of_worker = [&] {
    return std::stoi(shown(run(call("import os\ndef value(): return os.getpid()")).payload));
  };
  const pid_t worker = pid_of_worker();
  ASSERT_EQ(::kill(worker, SIGSTOP), 0);
  engine.send(call("def value(): return 'ran'"));
  engine.send(wire::RecallTasks{1});
  EXPECT_TRUE(engine.take<wire::Recalled>().tasks.empty()) << "the worker has it";
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  const auto result = engine.take<wire::TaskResult>();
  EXPECT_EQ(result.status, wire::TaskStatus::ok) << result.detail;
  EXPECT_EQ(shown(result.payload), "'ran'");
}

TEST_F(LoopTest, TwoTasksThatTheirDeadWorkerHadNotReadRunInTheNextOne) {
  make_ready();
  const auto pid_of_worker = [&] {
    return std::stoi(shown(run(call("import os\ndef value(): return os.getpid()")).payload));
  };
  for (int warm = 0; warm < 3; ++warm) pid_of_worker();
  const pid_t worker = pid_of_worker();
  ASSERT_EQ(::kill(worker, SIGSTOP), 0);
  for (int task = 0; task < 2; ++task)
    engine.send(call("import os\ndef value(): return os.getpid()"));
  engine.send(wire::RecallTasks{2});
  const std::size_t recalled = engine.take<wire::Recalled>().tasks.size();
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  for (std::size_t task = recalled; task < 2; ++task) {
    const auto result = engine.take<wire::TaskResult>();
    EXPECT_EQ(result.status, wire::TaskStatus::ok) << result.detail;
    EXPECT_NE(shown(result.payload), std::to_string(worker));
  }
  if (recalled > 0) GTEST_SKIP() << "too busy a machine: no task was given ahead of its turn";
}

TEST_F(LoopTest, ADirectoryThatATaskRemovesIsMadeAgain) {
  wire::Configure configure = configuration();
  configure.directory = ::testing::TempDir() + "skyward-removed-" + std::to_string(::getpid());
  engine.send(configure);
  engine.take<wire::Ready>();
  const auto died =
      run(call("import os, shutil\ndef value():\n  shutil.rmtree(os.getcwd())\n  os._exit(3)"));
  EXPECT_EQ(died.status, wire::TaskStatus::worker_died);
  const auto result = run(call("import os\ndef value(): return os.path.isdir(os.getcwd())"));
  EXPECT_EQ(result.status, wire::TaskStatus::ok) << result.detail;
  EXPECT_EQ(shown(result.payload), "True");
  std::filesystem::remove_all(configure.directory);
}

TEST_F(LoopTest, DoesNotWaitForChildrenThatKeepThePipesOpen) {
  make_ready();
  const auto died =
      run(call("def value():\n  import os, subprocess\n"
               "  print(subprocess.Popen(['sleep', '1000']).pid, flush=True)\n"
               "  os._exit(1)"));
  EXPECT_EQ(died.status, TaskStatus::worker_died);
  ASSERT_EQ(died.tail.size(), 1U);
  EXPECT_EQ(run(call("def value(): return 1")).status, TaskStatus::ok);
  EXPECT_TRUE(wait_for_end(std::stoi(died.tail[0])));
}

TEST_F(LoopTest, CancelsAndLimitsTasks) {
  make_ready();
  const std::string nap =
      "def value():\n  import time\n  print('asleep', flush=True)\n  time.sleep(1000)";
  const auto sleeper = call(nap);
  engine.send(sleeper);
  ASSERT_TRUE(engine.wait_for_line("asleep"));
  engine.send(wire::CancelTask{sleeper.task});
  EXPECT_EQ(engine.take<wire::TaskResult>().status, TaskStatus::cancelled);
  auto limited = call(nap);
  limited.timeout_ms = 200;
  const auto late = run(limited);
  EXPECT_EQ(late.status, TaskStatus::timed_out);
  EXPECT_EQ(late.detail, "ran longer than 0.2 s");
  auto stubborn = call(
      "def value():\n  while True:\n    try:\n      import time; time.sleep(1000)\n"
      "    except KeyboardInterrupt: pass");
  stubborn.timeout_ms = 200;
  EXPECT_EQ(run(stubborn).status, TaskStatus::timed_out);
  EXPECT_EQ(run(call("def value(): return 1")).status, TaskStatus::ok);
}

TEST_F(LoopTest, TellsOutputOfEveryKindBeforeTheResult) {
  make_ready();
  const auto loud = call(
      "def value():\n"
      "  import ctypes, os, subprocess, sys\n"
      "  print('one')\n"
      "  os.write(1, b'two\\n')\n"
      "  subprocess.run(['echo', 'three'])\n"
      "  ctypes.CDLL(None).printf(b'four')\n");
  EXPECT_EQ(run(loud).status, TaskStatus::ok);
  EXPECT_THAT(engine.lines_of(loud.task.value), ElementsAre("one", "two", "three", "four"));
}

TEST_F(LoopTest, AttributesTheOutputOfShortTasksSentAhead) {
  make_ready();
  const std::string source = "def value(n):\n  import os\n  os.write(n % 2 + 1, b'%d' % n)";
  EXPECT_EQ(run(call(source, "(1,)")).status, TaskStatus::ok);
  constexpr std::uint64_t kTasks = 300;
  const auto wanted = call(source, "(2,)");
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    auto next = wanted;
    next.task = TaskId{100 + i};
    next.body = {};
    next.arguments.buffers = {
        wire::small_buffer(pickled(fmt::format("value = (({},), {{}})", i % 7)))};
    engine.send(next);
  }
  std::set<std::uint64_t>
      answered;  // not in order when one took so long that the agent took others back
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    const std::uint64_t task = engine.take<wire::TaskResult>().task.value;
    EXPECT_TRUE(answered.insert(task).second);
    EXPECT_THAT(engine.lines_of(task), ElementsAre(std::to_string((task - 100) % 7)));
  }
  EXPECT_EQ(answered.size(), kTasks);
}

TEST_F(LoopTest, TakesTasksBackFromBehindOneThatTurnsOutSlow) {
  make_ready(2);
  const std::string path = fmt::format("/tmp/skyward-loop-test-{}", ::getpid());
  // Each waits until the other runs: with both in one process that would be for ever.
  const std::string source =
      "def value(mine, other):\n"
      "  import os, time\n"
      "  if mine: open(mine, 'w').close()\n"
      "  while other and not os.path.exists(other): time.sleep(0.001)";
  EXPECT_EQ(run(call(source, "('', '')")).status, TaskStatus::ok);
  const auto first = call(source, fmt::format("('{0}-a', '{0}-b')", path));
  const auto second = call(source, fmt::format("('{0}-b', '{0}-a')", path));
  engine.send(first);
  engine.send(second);
  EXPECT_EQ(engine.take<wire::TaskResult>().status, TaskStatus::ok);
  EXPECT_EQ(engine.take<wire::TaskResult>().status, TaskStatus::ok);
  ::unlink((path + "-a").c_str());
  ::unlink((path + "-b").c_str());
}

TEST_F(LoopTest, PassesLargeBuffersInSharedMemoryBothWays) {
  make_ready();
  constexpr std::size_t kBytes = 1 << 20;
  auto memory = io::SharedMemory::create(kBytes);
  ASSERT_TRUE(memory);
  std::memset((*memory)->data(), 'a', kBytes);
  // A pickle whose one buffer is beside it, writable.
  const std::string script =
      "import pickle, sys\n"
      "data = pickle.dumps(((pickle.PickleBuffer(bytearray(1)),), {}), 5, buffer_callback=lambda "
      "b: False)\n"
      "sys.stdout.buffer.write(data)";
  auto task = call(
      "def value(data):\n"
      "  data[0] = 98\n"
      "  import pickle\n"
      "  return pickle.PickleBuffer(bytearray(data) * 2)");
  task.arguments.buffers = {wire::small_buffer(SharedBytes(run_python(script, ""))),
                            wire::blob_buffer({.id = BlobId{5},
                                               .size = kBytes,
                                               .descriptor = (*memory)->descriptor(),
                                               .storage = *memory},
                                              0, kBytes)};
  const auto result = run(task);
  ASSERT_EQ(result.status, TaskStatus::ok) << shown(result.payload);
  EXPECT_EQ((*memory)->data()[0], std::byte{'a'});
  EXPECT_TRUE(result.retained.empty());
  ASSERT_EQ(result.payload.buffers.size(), 2U);
  const wire::Buffer& buffer = result.payload.buffers[1];
  ASSERT_TRUE(buffer.in_blob());
  EXPECT_EQ(buffer.size, 2 * kBytes);
  std::array<char, 2> start{};
  ASSERT_EQ(::pread(buffer.blob.descriptor, start.data(), 2, static_cast<off_t>(buffer.offset)), 2);
  EXPECT_EQ(start, (std::array{'b', 'a'}));
}

TEST_F(LoopTest, StreamsAGeneratorAtTheReadersPace) {
  make_ready();
  auto stream = call("def value():\n  for n in range(5): yield n");
  stream.stream_window = 2;
  engine.send(stream);
  for (int n = 0; n < 5; ++n) {
    EXPECT_EQ(shown(engine.take<wire::StreamItem>().payload), std::to_string(n));
    engine.send(wire::StreamCredit{.task = stream.task, .count = 1});
  }
  EXPECT_EQ(engine.take<wire::TaskResult>().status, TaskStatus::ok);
}

TEST_F(LoopTest, GivesQueuedTasksBack) {
  make_ready();
  const std::string nap = "def value(): import time; print('asleep', flush=True); time.sleep(1000)";
  const auto running = call(nap);
  engine.send(running);
  const auto queued = call(nap);
  engine.send(queued);
  ASSERT_TRUE(engine.wait_for_line("asleep"));
  engine.send(wire::RecallTasks{5});
  EXPECT_THAT(engine.take<wire::Recalled>().tasks, ElementsAre(queued.task));
}

TEST_F(LoopTest, LeavesNoProcessAfterShutdown) {
  make_ready();
  const std::string source =
      "def value():\n"
      "  import os, subprocess\n"
      "  child = subprocess.Popen(['setsid', 'sleep', '1000'])\n"
      "  print(child.pid); print(os.getpid())";
  const auto task = call(source);
  EXPECT_EQ(run(task).status, TaskStatus::ok);
  const auto pids = engine.lines_of(task.task.value);
  ASSERT_EQ(pids.size(), 2U);
  EXPECT_TRUE(is_alive(std::stoi(pids[0])));
  engine.send(wire::Shutdown{.grace_ms = 5000});
  EXPECT_EQ(engine.wait_for_exit().describe(), "exit code 0");
  for (const std::string& pid : pids) EXPECT_FALSE(is_alive(std::stoi(pid))) << pid;
}

TEST_F(LoopTest, LeavesAReaperWhereTheMachineStaysOn) {
  make_ready();
  const pid_t reaper = start_reaper();
  engine.hang_up();
  EXPECT_EQ(engine.wait_for_exit().describe(), "exit code 0");
  EXPECT_TRUE(is_alive(reaper));
  ::kill(reaper, SIGKILL);
}

TEST_F(LoopTest, LeavesNoReaperOnAMachineThatItEnds) {
  auto configure = configuration();
  configure.end_command = {"true"};
  engine.send(configure);
  engine.take<wire::Ready>();
  const pid_t reaper = start_reaper();
  engine.hang_up();
  EXPECT_EQ(engine.wait_for_exit().describe(), "exit code 0");
  EXPECT_FALSE(is_alive(reaper));
}

TEST_F(LoopTest, KillsAtShutdownWhatDoesNotEndInTime) {
  make_ready();
  engine.send(
      call("def value():\n  import time\n  print('asleep', flush=True)\n  while True:\n"
           "    try: time.sleep(1000)\n    except KeyboardInterrupt: pass"));
  ASSERT_TRUE(engine.wait_for_line("asleep"));
  engine.send(wire::Shutdown{.grace_ms = 100});
  EXPECT_EQ(engine.wait_for_exit().describe(), "exit code 0");
}

TEST_F(LoopTest, LeavesNoProcessWhenTheDriverIsGone) {
  make_ready();
  const auto task = call(
      "def value():\n"
      "  import os, subprocess, time\n"
      "  print(subprocess.Popen(['setsid', 'sleep', '1000']).pid); print(os.getpid()); "
      "print('asleep')\n"
      "  time.sleep(1000)");
  engine.send(task);
  ASSERT_TRUE(engine.wait_for_line("asleep"));
  const auto pids = engine.lines_of(task.task.value);
  engine.hang_up();
  EXPECT_EQ(engine.wait_for_exit().describe(), "exit code 0");
  ASSERT_GE(pids.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_FALSE(is_alive(std::stoi(pids[i]))) << pids[i];
}

TEST_F(LoopTest, RunsTheBootstrapBeforeTheWorkers) {
  auto configure = configuration();
  configure.bootstrap = "echo uv >&3\n[ \"$SECRET\" = sesame ]\necho deps >&3\n";
  configure.bootstrap_environment = {{"SECRET", "sesame"}};
  engine.send(configure);
  EXPECT_EQ(engine.take<wire::BootstrapStep>().step, "uv");
  EXPECT_EQ(engine.take<wire::BootstrapStep>().step, "deps");
  engine.take<wire::Ready>();
}

// By this a machine's own timer knows that its agent lives.
TEST_F(LoopTest, TouchesTheFileThatTheBootstrapNames) {
  const std::string file = ::testing::TempDir() + "skyward-alive-" + io::random_hex(12);
  auto configure = configuration();
  configure.bootstrap = "echo 'alive " + file + "' >&3\necho deps >&3\n";
  engine.send(configure);
  EXPECT_EQ(engine.take<wire::BootstrapStep>().step, "deps") << "no step of its own";
  for (int times = 0; times < 2; ++times) {
    const Time until = io::EventLoop::now() + kLoopTimeout;
    while (::unlink(file.c_str()) != 0 && io::EventLoop::now() < until) io::pause_thread(10ms);
    EXPECT_LT(io::EventLoop::now(), until) << times;
  }
  engine.take<wire::Ready>();
}

TEST_F(LoopTest, TellsWhyTheBootstrapFailed) {
  auto configure = configuration();
  configure.bootstrap =
      "echo begin deps >&3\necho looking\nls --no-such-option\necho not reached\n";
  engine.send(configure);
  const auto failed = engine.take<wire::Failed>();
  EXPECT_EQ(failed.step, "deps");
  EXPECT_EQ(failed.command, "ls --no-such-option");
  EXPECT_EQ(failed.reason, "exit code 2");
  ASSERT_GE(failed.lines.size(), 2U);
  EXPECT_EQ(failed.lines[0], "looking");
  EXPECT_THAT(failed.lines[1], HasSubstr("no-such-option"));
}

TEST_F(LoopTest, TellsWhyTheWorkersDoNotStart) {
  auto configure = configuration();
  configure.workers[0].environment = {{"SKYWARD_CLIENT_PYTHON", "3.99"}};
  engine.send(configure);
  const auto failed = engine.take<wire::Failed>();
  EXPECT_EQ(failed.step, "server");
  EXPECT_EQ(failed.reason, "exit code 1");
  EXPECT_THAT(failed.lines, ElementsAre(HasSubstr("the driver runs Python 3.99")));
}

TEST_F(LoopTest, TellsThatTheInterpreterIsMissing) {
  auto configure = configuration();
  configure.worker_command[0] = "/no/such/python";
  engine.send(configure);
  const auto failed = engine.take<wire::Failed>();
  EXPECT_EQ(failed.step, "server");
  EXPECT_THAT(failed.reason, HasSubstr("/no/such/python"));
}

TEST(Agent, RefusesAnotherProtocol) {
  FakeEngine engine(kProtocolVersion + 1);
  EXPECT_THAT(engine.take<wire::Welcome>().refusal,
              HasSubstr("use the same version of Skyward on both sides"));
  engine.wait_for_exit();
}

}  // namespace
}  // namespace skyward::agent
