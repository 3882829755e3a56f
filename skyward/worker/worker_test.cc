// A worker in a child process, and this test in the agent's place at the other end of its socket.

#include "skyward/worker/worker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "skyward/call/error.h"
#include "skyward/call/function.h"
#include "skyward/call/instance_info.h"
#include "skyward/call/map_blob.h"
#include "skyward/call/remote_error.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/shared_memory.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/answer_ring.h"
#include "skyward/wire/group.h"
#include "skyward/worker/preemption.h"
#include "skyward/worker/worker_socket.h"

namespace skyward {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::WorkerKind;
using wire::WorkerStatus;

constexpr int kDeadlineSeconds = 30;
constexpr const char* kMark = "0102030405060708";

std::vector<double> twice(std::vector<double> values) {
  for (double& value : values) value *= 2;
  return values;
}
int forks(std::span<const double> values) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return static_cast<int>(values.size());
}
int rank() { return instance_info().global_worker_index(); }
// The child returns, too.
int forks_and_returns() {
  const pid_t child = fork();
  if (child > 0) waitpid(child, nullptr, 0);
  return child == 0 ? -1 : rank();
}
// The same while a callback of its own runs.
int forks_beside_a_callback() {
  static std::atomic<bool> called{false};
  static std::atomic<bool> forked{false};
  on_preemption([](Duration) {
    called = true;
    called.notify_all();
    forked.wait(false);
  });
  called.wait(false);
  const int result = forks_and_returns();
  forked = true;
  forked.notify_all();
  return result;
}
// How a child ends that somebody signals.
int signals_a_child(int number) {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) poll(nullptr, 0, 10);  // pause() may miss a signal that comes before it
  }
  kill(child, number);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
int signals_itself(int number) { return raise(number); }
// How a program ends that gets the signal.
int signals_a_program(int number) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string line = "kill -" + std::to_string(number) + " $$";
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(99);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
// Says that it sleeps; whether anything wakes it before its time.
bool is_woken() {
  std::puts("running");
  return poll(nullptr, 0, 2000) != 0;
}
// Says which item it has made, each of half of what a stream may have unread.
void makes_large_items(Sink<std::vector<double>>& out, int count) {
  for (int i = 0; i < count; ++i) {
    std::printf("item %d\n", i);
    out.put(std::vector<double>((std::size_t{32} << 20) / sizeof(double), i));
  }
}
int fails(const std::string& text) { throw std::invalid_argument(text); }
int fails_oddly() { throw 7; }
int prints(const std::string& text) {
  std::cout << text << " to stdout\n";
  std::printf("%s without newline", text.c_str());
  std::fprintf(stderr, "%s to stderr\n", text.c_str());
  return 0;
}
// Says that it runs, then waits for its cancellation.
int waits() {
  std::puts("running");
  while (!cancelled()) std::this_thread::yield();
  return 1;
}
int waits_and_throws() {
  std::puts("running");
  while (true) throw_if_cancelled();
}
// Says that it runs, then waits for the notice of its machine's end.
int hears() {
  std::atomic<int> heard{-1};
  on_preemption([&](Duration left) {
    heard.store(static_cast<int>(seconds(left)));
    if (left < std::chrono::seconds(30)) throw std::runtime_error("no time to save");
  });
  std::puts("running");
  while (heard.load() < 0) std::this_thread::yield();
  return heard.load();
}
int only_registers() {
  on_preemption([](Duration) { std::puts("called though its task is over"); });
  return 1;
}
std::atomic<int> steps_of_saving{0};
int ends_while_it_saves() {
  on_preemption([](Duration) {
    steps_of_saving = 1;
    for (int i = 0; i < 1000; ++i) std::this_thread::yield();
    steps_of_saving = 2;
  });
  std::puts("running");
  while (steps_of_saving == 0) std::this_thread::yield();
  return 1;
}
int steps_saved() { return steps_of_saving; }
// Leaves room for two more descriptors: a sanitizer needs a pipe now and then.
int leaves_room_for_two_files() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = 0;
  for (int room = 0; room < 2; ++files.rlim_cur) {
    if (fcntl(static_cast<int>(files.rlim_cur), F_GETFD) < 0) ++room;
  }
  return setrlimit(RLIMIT_NOFILE, &files);
}
int takes_three(const std::vector<double>&, const std::vector<double>&,
                const std::vector<double>&) {
  return 3;
}
int closes(int descriptor) { return close(descriptor); }
// Leaves a thread that waits for a line of a pipe.
int leaves_a_reader() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return 0;
  FILE* const stream = fdopen(ends[0], "r");
  std::thread([stream] { (void)std::fgetc(stream); }).detach();
  while (ftrylockfile(stream) == 0) {
    funlockfile(stream);
    std::this_thread::yield();
  }
  return 1;
}
std::string head_address() { return instance_info().head_addr; }
bool has_worker_variable() { return std::getenv("SKYWARD_WORKER") != nullptr; }

struct Sending {
  bool with_body = true;
  bool behind = false;  // other tasks are before it in the worker's hands
  bool ring = false;
  std::uint32_t group = 0;  // so many calls, all with these arguments
};

class WorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    std::array<int, 2> cancel{};
    std::array<int, 2> out{};
    std::array<int, 2> err{};
    ASSERT_EQ(pipe2(cancel.data(), O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(out.data(), O_CLOEXEC), 0);
    ASSERT_EQ(pipe2(err.data(), O_CLOEXEC), 0);
    std::array<int, 2> bell{};
    ASSERT_EQ(pipe2(bell.data(), O_CLOEXEC | O_NONBLOCK), 0);
    shared_ = io::SharedMemory::create(sizeof(wire::WorkerMemory)).value();
    ring_.emplace(*new (shared_->data()) wire::WorkerMemory);
    ring_->set_sleeps(true);
    std::fflush(nullptr);
    child_ = fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      become_worker({{{out[1], 1},
                      {err[1], 2},
                      {ends[1], wire::kWorkerSocket},
                      {cancel[0], wire::kWorkerCancelPipe},
                      {shared_->descriptor(), wire::kWorkerShared},
                      {bell[1], wire::kWorkerBell}}});
    }
    for (const int theirs : {ends[1], cancel[0], out[1], err[1], bell[1]}) close(theirs);
    socket_descriptor_ = io::FileDescriptor(ends[0]);
    cancel_ = io::FileDescriptor(cancel[1]);
    out_ = io::FileDescriptor(out[0]);
    err_ = io::FileDescriptor(err[0]);
    bell_ = io::FileDescriptor(bell[0]);
    const timeval deadline{.tv_sec = kDeadlineSeconds, .tv_usec = 0};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
    socket_ = std::make_unique<WorkerSocket>(ends[0]);
    const auto hello = socket_->receive();
    ASSERT_TRUE(hello);
    EXPECT_EQ(hello->kind, WorkerKind::hello);
    EXPECT_EQ(hello->text, "c++");
    EXPECT_TRUE(ring_->is_announced());
  }

  void TearDown() override {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
  }

  // `places`: descriptors, and the numbers that they get.
  [[noreturn]] static void become_worker(std::array<std::pair<int, int>, 6> places) {
    constexpr int kFree = 100;
    for (auto& [from, to] : places) from = fcntl(from, F_DUPFD, kFree);
    for (const auto& [from, to] : places) dup2(from, to);
    for (int descriptor = wire::kWorkerBell + 1; descriptor < kFree + 10; ++descriptor)
      close(descriptor);
    setenv(wire::kWorkerVariable, "1", 1);
    setenv("SKYWARD_MARK", kMark, 1);
    setenv(
        "COMPUTE_POOL",
        R"({"node":2,"worker":0,"total_nodes":3,"workers_per_node":1,"accelerators":[],)"
        R"("total_accelerators":0,"head_addr":"127.0.0.1","head_port":29500,"job_id":"1a2b3c4d"})",
        1);
    execl("/proc/self/exe", "worker_test", "--skyward-worker", nullptr);
    _exit(99);
  }

  static wire::Blob store(ByteView bytes) {
    auto memory = io::SharedMemory::create(bytes.size()).value();
    io::copy_bytes(memory->data(), bytes);
    const int descriptor = memory->descriptor();
    return {
        .id = {++last_blob_}, .size = bytes.size(), .descriptor = descriptor, .storage = memory};
  }

  // Sends a call as the agent does.
  template <typename Recorded>
  void send(std::uint64_t task, const Recorded& pending, Sending how = {}) {
    const Call call = pending.to_call({.put = &WorkerTest::store});
    wire::WorkerMessage run;
    run.kind = WorkerKind::run;
    run.task = {task};
    run.function = call.function->id;
    if (how.with_body) run.body = call.function->bytes.bytes;
    run.behind = how.behind;
    run.ring = how.ring;
    run.payload = call.arguments;
    run.stream_window = call.options.stream_window;
    wire::GroupWriter group;
    for (std::uint32_t i = 0; i < how.group; ++i) group.add(call.arguments.buffers[0].bytes.view);
    if (how.group > 0) {
      run.group = true;
      run.stream_window = how.group;
      run.payload = group.take();
    }
    socket_->send(run);
  }

  // The next one, from the ring or, where the ring says so, from the socket.
  std::optional<wire::WorkerMessage> answer() {
    const Time deadline = io::EventLoop::now() + std::chrono::seconds(kDeadlineSeconds);
    while (answers_.empty()) {
      answers_ = ring_->take().value();
      if (!answers_.empty()) break;
      std::array<pollfd, 2> ends{pollfd{.fd = bell_.get(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = socket_descriptor_.get(), .events = 0, .revents = 0}};
      constexpr int kLook_ms = 5;  // an agent that does not sleep is not woken
      poll(ends.data(), ends.size(), kLook_ms);
      const bool over = io::EventLoop::now() > deadline;
      if (over || (ends[1].revents & POLLHUP) != 0) return std::nullopt;
    }
    std::uint32_t length = 0;
    std::memcpy(&length, answers_.view.data(), sizeof length);
    const ByteView body = answers_.view.subspan(wire::kWorkerPrefixBytes, length);
    auto message = wire::decode_worker_message({answers_.owner, body}, {}).value();
    answers_.view = answers_.view.subspan(wire::kWorkerPrefixBytes + length);
    if (message.kind == WorkerKind::elsewhere) return socket_->receive();
    return message;
  }

  wire::WorkerMessage receive(std::uint64_t task) {
    auto message = answer();
    EXPECT_TRUE(message) << "the worker ended";
    if (!message) return {};
    EXPECT_EQ(message->kind, WorkerKind::result);
    EXPECT_EQ(message->task, TaskId{task});
    EXPECT_THAT(message->retained, ::testing::IsEmpty());
    return *std::move(message);
  }

  // Of calls of a group that return the rank.
  void expect_outcomes(std::uint64_t task, int count) {
    for (int i = 0; i < count; ++i) {
      const auto message = answer();
      ASSERT_TRUE(message) << "the worker ended";
      EXPECT_EQ(message->kind, WorkerKind::outcome);
      EXPECT_EQ(message->task, TaskId{task});
      wire::WorkerMessage result;
      result.payload.buffers.push_back(wire::small_buffer(message->value));
      EXPECT_EQ(value<int>(result), 2);
    }
  }

  // What the next answer says is still in use.
  std::vector<BlobId> receive_retained() {
    const auto message = answer();
    EXPECT_TRUE(message) << "the worker ended";
    return message ? message->retained : std::vector<BlobId>();
  }

  template <typename R>
  static R value(const wire::WorkerMessage& message) {
    EXPECT_EQ(message.status, WorkerStatus::ok);
    R result{};
    ArchiveReader reader(message.payload, &map_blob);
    reader(result);
    return result;
  }

  static std::pair<std::string, std::string> exception(const wire::WorkerMessage& message) {
    EXPECT_EQ(message.status, WorkerStatus::raised);
    std::pair<std::string, std::string> type_and_text;
    ArchiveReader reader(message.payload, &map_blob);
    reader(type_and_text.first, type_and_text.second);
    return type_and_text;
  }

  // As the agent does.
  void cancel(std::uint64_t task) {
    ASSERT_EQ(write(cancel_.get(), &task, sizeof task), static_cast<ssize_t>(sizeof task));
    const bool told = (task & (wire::kWorkerWithdrawBit | wire::kWorkerNoticeBit)) != 0;
    ASSERT_EQ(kill(child_, told ? SIGURG : SIGINT), 0);
  }

  // Reads until `text` has come, at most until the deadline; what has come.
  static std::string read_until(const io::FileDescriptor& from, const std::string& text) {
    std::string all;
    while (all.find(text) == std::string::npos) {
      pollfd waiting{.fd = from.get(), .events = POLLIN, .revents = 0};
      if (poll(&waiting, 1, kDeadlineSeconds * 1000) != 1) break;
      std::array<char, 4096> piece{};
      const ssize_t count = read(from.get(), piece.data(), piece.size());
      if (count <= 0) break;
      all.append(piece.data(), static_cast<std::size_t>(count));
    }
    EXPECT_THAT(all, HasSubstr(text));
    return all;
  }

  static std::string mark_of(std::uint64_t task) {
    std::string mark = "\1\2\3\4\5\6\7\10";
    mark.append(reinterpret_cast<const char*>(&task), sizeof task);
    return mark;
  }

  pid_t child_ = -1;
  std::unique_ptr<WorkerSocket> socket_;
  io::FileDescriptor socket_descriptor_;
  io::FileDescriptor bell_;
  inline static std::uint64_t last_blob_ = 0;
  io::FileDescriptor cancel_;
  std::shared_ptr<io::SharedMemory> shared_;
  std::optional<wire::AnswerReader> ring_;
  SharedBytes answers_;  // taken from the ring
  io::FileDescriptor out_;
  io::FileDescriptor err_;
};

TEST_F(WorkerTest, TellsWhichTaskHasBegun) {
  const auto begun = [&] { return ring_->begun().value; };
  EXPECT_EQ(begun(), 0U);
  send(7, compute<rank>());
  EXPECT_EQ(value<int>(receive(7)), 2);
  EXPECT_EQ(begun(), 7U);
  cancel(8);
  send(8, compute<rank>());
  EXPECT_EQ(receive(8).status, WorkerStatus::cancelled);
  EXPECT_EQ(begun(), 7U);
}

TEST_F(WorkerTest, RunsTasksInOrderAndKeepsBodies) {
  send(1, compute<twice>({1, 2}));
  send(2, compute<twice>({3}), {.with_body = false, .behind = true});
  send(3, compute<rank>());
  EXPECT_EQ(value<std::vector<double>>(receive(1)), (std::vector<double>{2, 4}));
  EXPECT_EQ(value<std::vector<double>>(receive(2)), std::vector<double>{6});
  EXPECT_EQ(value<int>(receive(3)), 2);
}

TEST_F(WorkerTest, AStreamOfLargeItemsWaitsForItsReader) {
  const auto next_item = [&] {
    const auto message = answer();
    EXPECT_TRUE(message && message->kind == WorkerKind::item);
    return message ? value<std::vector<double>>(*message).front() : -1;
  };
  send(1, compute<makes_large_items>(5));
  EXPECT_EQ(next_item(), 0);
  EXPECT_EQ(next_item(), 1);
  read_until(out_, "item 2\n");  // made, but not sent
  wire::WorkerMessage credit;
  credit.kind = WorkerKind::credit;
  credit.task = {1};
  credit.count = 1;
  socket_->send(credit);
  EXPECT_EQ(next_item(), 2);
  read_until(out_, "item 3\n");
  cancel(1);
  EXPECT_EQ(receive(1).status, WorkerStatus::cancelled);
}

TEST_F(WorkerTest, LargeBuffersArePassedByDescriptor) {
  const std::vector<double> large(kBlobThresholdBytes, 1.5);
  for (std::uint64_t task = 1; task <= 3; ++task) {
    send(task, compute<twice>(large));
    const wire::WorkerMessage result = receive(task);
    ASSERT_EQ(result.payload.buffers.size(), 2U);
    EXPECT_TRUE(result.payload.buffers[1].in_blob());
    EXPECT_EQ(value<std::vector<double>>(result), std::vector<double>(large.size(), 3.0));
  }
}

// Else a later call would take the memory of another for its own.
TEST_F(WorkerTest, AProcessWithoutRoomForDescriptorsSaysSoAndExits) {
  send(1, compute<leaves_room_for_two_files>());
  EXPECT_EQ(value<int>(receive(1)), 0);
  const std::vector<double> large(kBlobThresholdBytes, 1.5);
  send(2, compute<takes_three>(large, large, large));
  const std::string reason = "it has too many files open";
  ASSERT_THAT(read_until(err_, reason), HasSubstr(reason));
  int status = -1;
  ASSERT_EQ(waitpid(child_, &status, 0), child_);
  child_ = -1;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE) << status;
}

TEST_F(WorkerTest, TellsThatAChildMayUseTheArgumentsStill) {
  const std::vector<double> large(kBlobThresholdBytes, 1.5);
  send(1, compute<forks>(large));
  EXPECT_THAT(receive_retained(), ::testing::ElementsAre(BlobId{last_blob_}));
  send(2, compute<twice>(large));
  EXPECT_THAT(receive_retained(), ::testing::IsEmpty());
}

TEST_F(WorkerTest, ExceptionsCarryTypeAndText) {
  send(1, compute<fails>("no such optimizer"));
  EXPECT_EQ(exception(receive(1)), std::pair("std::invalid_argument"s, "no such optimizer"s));
  send(2, compute<fails_oddly>());
  EXPECT_EQ(exception(receive(2)).first, "int");
  send(3, compute<twice>({1}));
  EXPECT_EQ(receive(3).status, WorkerStatus::ok);
}

TEST_F(WorkerTest, UnknownFunctionsAreNamed) {
  wire::WorkerMessage run;
  run.kind = WorkerKind::run;
  run.task = {1};
  run.body = SharedBytes("no such symbol"s);
  run.payload = compute<rank>().to_call({}).arguments;
  socket_->send(run);
  const auto [type, text] = exception(receive(1));
  EXPECT_EQ(type, "skyward::ConfigurationError");
  EXPECT_THAT(text, HasSubstr("no such symbol"));
}

TEST_F(WorkerTest, OutputIsThereBeforeTheResult) {
  send(1, compute<prints>("one"));
  receive(1);
  EXPECT_THAT(read_until(out_, "without newline"),
              StartsWith("one to stdout\none without newline"));
  EXPECT_THAT(read_until(err_, "stderr\n"), StartsWith("one to stderr\n"));
}

TEST_F(WorkerTest, AThreadThatReadsAStreamHoldsNoAnswerBack) {
  send(1, compute<leaves_a_reader>());
  EXPECT_EQ(value<int>(receive(1)), 1);
}

TEST_F(WorkerTest, OutputOfATaskBehindAnotherBeginsWithAMark) {
  send(1, compute<waits>());
  read_until(out_, "running\n");
  send(2, compute<prints>("two"), {.behind = true});
  cancel(1);
  EXPECT_EQ(receive(1).status, WorkerStatus::cancelled);
  receive(2);
  EXPECT_EQ(read_until(out_, "newline"), mark_of(2) + "two to stdout\ntwo without newline");
  EXPECT_EQ(read_until(err_, "stderr\n"), mark_of(2) + "two to stderr\n");
}

TEST_F(WorkerTest, RingsBehindTheAnswersForWhichItWasAskedTo) {
  std::array<char, 8> rings{};
  ring_->set_sleeps(false);
  send(1, compute<twice>({1}));
  receive(1);
  EXPECT_EQ(read(bell_.get(), rings.data(), rings.size()), -1);
  send(2, compute<twice>({2}), {.ring = true});
  send(3, compute<twice>({3}), {.behind = true});
  receive(2);
  receive(3);
  EXPECT_EQ(read(bell_.get(), rings.data(), rings.size()), 1);
}

TEST_F(WorkerTest, RingsBehindEveryAnswerForAnAgentThatSleeps) {
  std::array<char, 8> rings{};
  for (std::uint64_t task = 1; task <= 3; ++task) {
    send(task, compute<twice>({1}));
    receive(task);
    pollfd bell{.fd = bell_.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&bell, 1, kDeadlineSeconds * 1000), 1);  // rings after the answer can be seen
    EXPECT_EQ(read(bell_.get(), rings.data(), rings.size()), 1);
  }
}

TEST_F(WorkerTest, SendsAWordThroughTheSocketWhenTheBellIsGone) {
  send(1, compute<closes>(wire::kWorkerBell));
  const auto word = socket_->receive();
  ASSERT_TRUE(word);
  EXPECT_EQ(word->kind, WorkerKind::elsewhere);
  EXPECT_EQ(value<int>(receive(1)), 0);
}

TEST_F(WorkerTest, CancelReachesTheNamedTaskOnly) {
  send(1, compute<waits_and_throws>());
  read_until(out_, "running\n");
  send(2, compute<twice>({1}));
  send(3, compute<twice>({2}));
  cancel(2);
  cancel(1);
  EXPECT_EQ(receive(1).status, WorkerStatus::cancelled);
  EXPECT_EQ(receive(2).status, WorkerStatus::cancelled);
  EXPECT_EQ(value<std::vector<double>>(receive(3)), std::vector<double>{4});
  kill(child_, SIGINT);  // names nobody: nothing happens
  send(4, compute<twice>({3}));
  EXPECT_EQ(receive(4).status, WorkerStatus::ok);
}

TEST_F(WorkerTest, WhatCancelsNothingEndsNoWaitOfATask) {
  send(1, compute<is_woken>());
  read_until(out_, "running\n");
  send(2, compute<twice>({1}), {.behind = true});
  cancel(2 | wire::kWorkerWithdrawBit);
  cancel(wire::kWorkerNoticeBit | 90'000);
  EXPECT_EQ(receive(2).status, WorkerStatus::cancelled);
  EXPECT_FALSE(value<bool>(receive(1)));
}

TEST_F(WorkerTest, AnInterruptedChildOfATaskEnds) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the sanitizer keeps back signals in children of processes with threads";
#endif
  send(1, compute<signals_a_child>(SIGINT));
  EXPECT_EQ(value<int>(receive(1)), SIGINT);
}

// The agent of a local node starts its workers so.
class LocalWorkerTest : public WorkerTest {
 protected:
  void SetUp() override {
    const auto terminate = ::signal(SIGTERM, SIG_IGN);
    const auto hang_up = ::signal(SIGHUP, SIG_IGN);
    WorkerTest::SetUp();
    ::signal(SIGTERM, terminate);
    ::signal(SIGHUP, hang_up);
  }
};

TEST_F(LocalWorkerTest, ASignalToAllProcessesOfAServiceEndsNoWorker) {
  send(1, compute<signals_itself>(SIGTERM));
  EXPECT_EQ(value<int>(receive(1)), 0);
  send(2, compute<signals_itself>(SIGHUP));
  EXPECT_EQ(value<int>(receive(2)), 0);
}

TEST_F(LocalWorkerTest, WhatTasksStartEndsByThatSignal) {
  send(1, compute<signals_a_program>(SIGTERM));
  EXPECT_EQ(value<int>(receive(1)), SIGTERM);
#ifndef __SANITIZE_THREAD__
  send(2, compute<signals_a_child>(SIGTERM));
  EXPECT_EQ(value<int>(receive(2)), SIGTERM);
#endif
}

TEST_F(WorkerTest, TasksThatHaveNotBegunAreGivenBackAtOnce) {
  send(1, compute<twice>({1}));
  receive(1);
  send(2, compute<waits>());
  read_until(out_, "running\n");
  send(3, compute<twice>({3}), {.behind = true});
  send(4, compute<twice>({4}), {.behind = true});
  cancel(3 | wire::kWorkerWithdrawBit);
  EXPECT_EQ(receive(3).status, WorkerStatus::cancelled);
  cancel(1 | wire::kWorkerWithdrawBit);  // too late: has ended
  cancel(2 | wire::kWorkerWithdrawBit);  // too late: runs, and goes on
  cancel(2);
  EXPECT_EQ(receive(2).status, WorkerStatus::cancelled);
  EXPECT_EQ(value<std::vector<double>>(receive(4)), std::vector<double>{8});
  send(3, compute<twice>({3}));  // it found no better place
  EXPECT_EQ(value<std::vector<double>>(receive(3)), std::vector<double>{6});
}

TEST_F(WorkerTest, CallsOfAGroupAreAnsweredOneByOne) {
  send(1, compute<rank>(), {.group = 3});
  expect_outcomes(1, 2);
  EXPECT_EQ(value<int>(receive(1)), 2);
  send(2, compute<rank>(), {.with_body = false, .group = 1});
  EXPECT_EQ(value<int>(receive(2)), 2);
}

TEST_F(WorkerTest, ChildrenThatReturnTakeNothingOfTheGroup) {
  send(1, compute<forks_and_returns>(), {.group = 4});
  expect_outcomes(1, 3);
  EXPECT_EQ(value<int>(receive(1)), 2);
}

TEST_F(WorkerTest, AChildThatReturnsWaitsForNoCallback) {
  send(1, compute<forks_beside_a_callback>());
  cancel(wire::kWorkerNoticeBit | 90'000);
  EXPECT_EQ(value<int>(receive(1)), 2);
}

TEST_F(WorkerTest, ACallThatThrowsEndsItsGroup) {
  send(1, compute<fails>("text"), {.group = 3});
  EXPECT_EQ(exception(receive(1)).second, "text");
  send(2, compute<rank>());
  EXPECT_EQ(value<int>(receive(2)), 2);
}

TEST_F(WorkerTest, ALargeResultEndsItsGroup) {
  send(1, compute<twice>(std::vector<double>(wire::kMaxRingMessageBytes / sizeof(double), 1.0)),
       {.group = 3});
  EXPECT_EQ(value<std::vector<double>>(receive(1)).front(), 2.0);
}

TEST_F(WorkerTest, CallsThatTheAgentHasTakenAreNotBegun) {
  send(1, compute<hears>(), {.group = 5});
  read_until(out_, "running\n");
  EXPECT_EQ(ring_->claim_rest(TaskId{1}, 5), 4U);
  cancel(wire::kWorkerNoticeBit | 90'000);  // lets the first one end
  EXPECT_GT(value<int>(receive(1)), 60);
}

TEST_F(WorkerTest, CancellingAGroupEndsItWithTheCallThatRuns) {
  send(1, compute<waits>(), {.group = 3});
  read_until(out_, "running\n");
  cancel(1);
  EXPECT_EQ(receive(1).status, WorkerStatus::cancelled);
  send(2, compute<rank>());
  EXPECT_EQ(value<int>(receive(2)), 2);
}

TEST_F(WorkerTest, ARunningTaskHearsOfItsMachinesEnd) {
  send(1, compute<hears>());
  read_until(out_, "running\n");
  cancel(wire::kWorkerNoticeBit | 90'000);
  const int left = value<int>(receive(1));
  EXPECT_TRUE(left > 60 && left <= 90) << left;
}

TEST_F(WorkerTest, WhoAsksAfterTheNoticeHearsAtOnceAndOthersNever) {
  send(1, compute<only_registers>());
  receive(1);
  cancel(wire::kWorkerNoticeBit | 2'000);
  send(2, compute<hears>());
  const int left = value<int>(receive(2));
  EXPECT_LE(left, 2);
  EXPECT_THAT(read_until(err_, "no time to save"), HasSubstr("on_preemption threw"));
  EXPECT_THAT(read_until(out_, "running\n"), ::testing::Not(HasSubstr("called though")));
}

TEST_F(WorkerTest, ATaskEndsWhenItsCallbackHasReturned) {
  send(1, compute<ends_while_it_saves>());
  read_until(out_, "running\n");
  cancel(wire::kWorkerNoticeBit | 90'000);
  receive(1);
  send(2, compute<steps_saved>());
  EXPECT_EQ(value<int>(receive(2)), 2);
}

TEST_F(WorkerTest, BodiesOfCancelledTasksAreKept) {
  send(1, compute<waits>());
  read_until(out_, "running\n");
  send(2, compute<twice>({1}));
  send(3, compute<fails>("x"));
  cancel(2);
  cancel(3 | wire::kWorkerWithdrawBit);
  receive(3);
  cancel(1);
  receive(1);
  receive(2);
  send(4, compute<twice>({2}), {.with_body = false});
  send(5, compute<fails>("y"), {.with_body = false});
  EXPECT_EQ(value<std::vector<double>>(receive(4)), std::vector<double>{4});
  EXPECT_EQ(exception(receive(5)).second, "y");
}

TEST_F(WorkerTest, ProgramsStartedByTasksAreNoWorkers) {
  send(1, compute<has_worker_variable>());
  EXPECT_FALSE(value<bool>(receive(1)));
}

TEST_F(WorkerTest, KnowsWhereANodeIsNow) {
  send(1, compute<head_address>());
  EXPECT_NE(value<std::string>(receive(1)), "10.0.0.9");
  wire::WorkerMessage moved;
  moved.kind = WorkerKind::instance_info;
  moved.text = to_json({.total_nodes = 2, .head_addr = "10.0.0.9"});
  socket_->send(moved);
  send(2, compute<head_address>(), {.with_body = false});
  EXPECT_EQ(value<std::string>(receive(2)), "10.0.0.9");
}

TEST_F(WorkerTest, StopEndsItInOrder) {
  wire::WorkerMessage stop;
  stop.kind = WorkerKind::stop;
  socket_->send(stop);
  EXPECT_FALSE(socket_->receive());
  int status = -1;
  ASSERT_EQ(waitpid(child_, &status, 0), child_);
  child_ = -1;
  EXPECT_EQ(status, 0);
}

TEST_F(WorkerTest, EndsWhenTheAgentIsGone) {
  socket_.reset();
  socket_descriptor_.reset();
  int status = -1;
  ASSERT_EQ(waitpid(child_, &status, 0), child_);
  child_ = -1;
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace skyward
