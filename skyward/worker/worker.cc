#include "skyward/worker/worker.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/stderr_line.h"
#include "skyward/call/archive.h"
#include "skyward/call/error.h"
#include "skyward/call/instance_info.h"
#include "skyward/call/map_blob.h"
#include "skyward/call/registry.h"
#include "skyward/call/remote_error.h"
#include "skyward/call/sink.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/forks.h"
#include "skyward/io/shared_memory.h"
#include "skyward/io/start_thread.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/answer_ring.h"
#include "skyward/wire/blobs_of.h"
#include "skyward/wire/group.h"
#include "skyward/wire/worker_protocol.h"
#include "skyward/worker/rank_error.h"
#include "skyward/worker/user_code.h"
#include "skyward/worker/worker_notice.h"
#include "skyward/worker/worker_socket.h"

namespace skyward {
namespace {

constexpr const char* kMarkVariable = "SKYWARD_MARK";

// A stream sends no item while its reader has so much to take; as in loop.py.
constexpr std::uint64_t kUnreadBytes = std::uint64_t{64} << 20;

// More tasks than this process ever has.
constexpr std::size_t kRemembered = 4 * kMaxWorkerWindow;

// What the thread that listens and the main thread know in common. Only the main thread adds to
// `finished`, and to the others whoever holds `answering`; any thread reads (cancelled()).
using Tasks = std::array<std::atomic<std::uint64_t>, kRemembered>;

class Memory {
 public:
  void add(std::uint64_t task) {
    if (tasks_[count_++ % kRemembered].exchange(task) == 0) ++here_;
  }
  bool has(std::uint64_t task) const {
    return here_.load() != 0 &&
           std::ranges::any_of(tasks_, [task](const auto& one) { return one.load() == task; });
  }
  // Whether it was there. Mostly nothing is, and looking is much cheaper than exchanging.
  bool remove(std::uint64_t task) {
    if (here_.load() == 0) return false;
    bool found = false;
    for (auto& one : tasks_) {
      std::uint64_t wanted = task;
      if (one.load() != task || !one.compare_exchange_strong(wanted, 0)) continue;
      found = true;
      --here_;
    }
    return found;
  }

 private:
  Tasks tasks_{};
  std::size_t count_ = 0;
  std::atomic<int> here_{0};  // how many places are taken
};

Memory cancels;   // asked for, done or not
Memory finished;  // have a result
Memory returned;  // withdrawn and answered for; their messages are still to come
std::atomic<std::uint64_t> running_task{0};
std::atomic<std::uint64_t> cancel_seen{0};  // the task that has looked and knows
std::atomic<bool> interrupted{false};       // by SIGINT: the cancel pipe holds something
// Held while an answer is written, and while a task begins: nobody then answers for it.
std::mutex answering;
pthread_t main_thread;
pid_t worker_process;
wire::WorkerMemory* shared_memory;  // with the agent

// A byte for the agent, which then looks into the ring. A bell that takes no more rings already.
// False when the bell is gone.
bool ring_bell() {
  const char one = 1;
  while (write(wire::kWorkerBell, &one, 1) < 0) {
    if (errno != EINTR) return errno == EAGAIN;
  }
  return true;
}

// Answers for a task that has not begun. False when that is not possible now; then the main thread
// does it when it comes to the task, which is soon if it runs none. With `answering` held.
bool release(std::uint64_t task) {
  if (running_task.load() == 0) return false;
  struct {
    std::uint32_t length = 28;
    wire::WorkerKind kind = wire::WorkerKind::result;
    wire::WorkerStatus status = wire::WorkerStatus::cancelled;
    std::uint16_t descriptors = 0;
    std::uint64_t task_id = 0;
    std::uint64_t run_ns = 0;
    std::uint32_t buffers = 0;
    std::uint32_t retained = 0;
  } message;
  static_assert(sizeof message == 32);
  message.task_id = task;
  wire::AnswerWriter answers(*shared_memory);
  if (!answers.write(std::as_bytes(std::span(&message, 1)))) return false;
  if (answers.agent_sleeps() && !ring_bell()) {
    // "elsewhere"; a socket that is full wakes the agent by itself.
    const std::array<std::uint8_t, 16> word{12, 0, 0, 0,
                                            static_cast<std::uint8_t>(wire::WorkerKind::elsewhere)};
    (void)send(wire::kWorkerSocket, word.data(), word.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  return true;
}

// What the agent has written to the cancel pipe.
void take_words() {
  if (getpid() != worker_process) return;  // a child that a task has forked
  const std::scoped_lock lock(answering);
  std::uint64_t word = 0;
  while (read(wire::kWorkerCancelPipe, &word, sizeof word) == sizeof word) {
    if ((word & wire::kWorkerNoticeBit) != 0) {
      note_preemption(word & ~wire::kWorkerNoticeBit);
      continue;
    }
    const std::uint64_t task = word & ~wire::kWorkerWithdrawBit;
    const bool begun = task == running_task.load() || finished.has(task);
    if ((word & wire::kWorkerWithdrawBit) == 0) {
      cancels.add(task);
      if (task == running_task.load()) pthread_kill(main_thread, SIGINT);  // ends its waits
    } else if (!begun && !returned.has(task)) {
      release(task) ? returned.add(task) : cancels.add(task);
    }
  }
}

// After SIGINT, which comes with a cancellation, the thread that listens may not have read that
// yet.
void take_interrupt() {
  if (interrupted.load() && interrupted.exchange(false)) take_words();
}

// Only async-signal-safe calls. A wait of the running task's has ended by now.
void on_interrupt(int number) {
  const int saved = errno;
  if (getpid() != worker_process) {  // a child that a task has forked
    ::signal(number, SIG_DFL);
    raise(number);
  } else if (pthread_equal(pthread_self(), main_thread) == 0) {
    pthread_kill(main_thread, number);
  } else {
    interrupted.store(true);
  }
  errno = saved;
}

// A signal to all processes of a service is for the driver, which ends the tasks in order. Only
// async-signal-safe calls.
void leave_to_driver(int number) {
  const int saved = errno;
  if (getpid() != worker_process) {  // a child that a task has forked
    ::signal(number, SIG_DFL);
    raise(number);
  }
  errno = saved;
}

// The agent of a local node has SIGTERM and SIGHUP ignored. A handler does the same, but not for
// the programs that tasks start.
void handle_ending_signals() {
  for (const int number : {SIGTERM, SIGHUP}) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) continue;
    action.sa_handler = leave_to_driver;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }
}

// On a thread of its own: whatever is no cancellation must not end the waits of the running task.
void listen_to_agent() {
  pollfd waiting{.fd = wire::kWorkerCancelPipe, .events = POLLIN, .revents = 0};
  while (true) {
    const int ready = poll(&waiting, 1, -1);
    if (ready < 0 && errno == EINTR) continue;  // setgid() of another thread signals this one
    if (ready <= 0 || (waiting.revents & POLLIN) == 0) return;
    take_words();
  }
}

// What is in front of an outcome's value (wire/worker_protocol.h).
struct OutcomeHead {
  std::uint32_t length = 0;
  wire::WorkerKind kind = wire::WorkerKind::outcome;
  wire::WorkerStatus status = wire::WorkerStatus::ok;
  std::uint16_t descriptors = 0;
  std::uint64_t task = 0;
};
static_assert(sizeof(OutcomeHead) == 16);

// A result's large buffer: a memfd of its own, which belongs to the receiver.
wire::Blob make_blob(ByteView bytes) {
  auto memory = io::SharedMemory::create(bytes.size());
  if (!memory) throw_error(memory.error());
  if (const Status filled = (*memory)->fill(bytes); !filled) throw_error(filled.error());
  const int descriptor = (*memory)->descriptor();
  return {.id = {}, .size = bytes.size(), .descriptor = descriptor, .storage = *std::move(memory)};
}

class Worker final : private ItemChannel {
 public:
  Worker() : socket_(wire::kWorkerSocket), answers_(*shared_memory) {
    read_mark();
    answers_.announce();
  }

  [[noreturn]] void run() {
    wire::WorkerMessage hello;
    hello.kind = wire::WorkerKind::hello;
    hello.text = "c++";
    socket_.send(hello);
    while (true) {
      std::optional<wire::WorkerMessage> message = next_message();
      if (!message) leave(EXIT_SUCCESS);
      switch (message->kind) {
        case wire::WorkerKind::run:
          run_task(*std::move(message));
          break;
        case wire::WorkerKind::stop:
          leave(EXIT_SUCCESS);
        case wire::WorkerKind::drop:
          symbols_.erase(message->function);
          break;
        case wire::WorkerKind::instance_info:
          set_instance_info(std::move(message->text));
          break;
        case wire::WorkerKind::credit:  // of a stream that has ended
        case wire::WorkerKind::hello:
        case wire::WorkerKind::result:
        case wire::WorkerKind::item:
        case wire::WorkerKind::elsewhere:
        case wire::WorkerKind::outcome:
          break;
      }
    }
  }

 private:
  // Ends the process without running the program's destructors: main() has not begun.
  [[noreturn]] static void leave(int status) {
    flush_output();
    std::fflush(nullptr);
    _exit(status);
  }

  // Those that came while a stream waited for its reader are first.
  std::optional<wire::WorkerMessage> next_message() {
    if (inbox_.empty()) return socket_.receive();
    std::optional<wire::WorkerMessage> first = std::move(inbox_.front());
    inbox_.pop_front();
    return first;
  }

  // ---- ItemChannel, for the running task

  BlobStore store() override { return {.put = &make_blob}; }

  void send(wire::Payload payload) override {
    throw_if_cancelled();
    flush_output();
    while (!may_send()) await_credit();
    --credits_;
    unread_.push_back(payload.size());
    wire::WorkerMessage item;
    item.kind = wire::WorkerKind::item;
    item.task = TaskId{running_task.load()};
    item.payload = std::move(payload);
    send(item);
  }

  bool may_send() const {
    return credits_ > 0 && std::reduce(unread_.begin(), unread_.end()) < kUnreadBytes;
  }

  // Looks for a cancellation from time to time: its signal may come just before the wait.
  void await_credit() {
    constexpr int kLook_ms = 50;
    throw_if_cancelled();
    pollfd waiting{.fd = wire::kWorkerSocket, .events = POLLIN, .revents = 0};
    if (!socket_.has_message() && poll(&waiting, 1, kLook_ms) <= 0) return;
    std::optional<wire::WorkerMessage> message = socket_.receive();
    if (!message) leave(EXIT_SUCCESS);
    if (message->kind != wire::WorkerKind::credit) {
      const bool stops = message->kind == wire::WorkerKind::stop;
      inbox_.push_back(*std::move(message));
      if (stops) throw CancelledError("the pool closes, and nobody reads the stream");
    } else if (message->task.value == running_task.load()) {
      credits_ += message->count;
      for (auto left = message->count; left > 0 && !unread_.empty(); --left) unread_.pop_front();
    }
  }

  void read_mark() {
    const char* text = std::getenv(kMarkVariable);
    if (text == nullptr || std::strlen(text) != 2 * sizeof mark_) return;
    for (std::size_t i = 0; i < sizeof mark_; ++i) {
      const std::string digits(text + 2 * i, 2);
      mark_[i] = static_cast<std::uint8_t>(std::strtoul(digits.c_str(), nullptr, 16));
    }
    has_mark_ = true;
  }

  // A result or an item. `rings`: the agent looks at once, though it would by itself later.
  void send(const wire::WorkerMessage& message, bool rings = false) {
    if (io::process_generation() != generation_) _exit(EXIT_SUCCESS);  // a child of the function
    const std::scoped_lock lock(answering);
    const Outgoing encoded = wire::encode_worker_message(message);
    const bool small = encoded.size() <= wire::kMaxRingMessageBytes && encoded.descriptors.empty();
    const Bytes whole = small ? joined(encoded) : wire::encode_worker_message(elsewhere()).head;
    while (!answers_.write(whole)) await_room();
    if (!small) send_aside(message);
    if ((rings || answers_.agent_sleeps()) && !ring_bell() && small) socket_.send(elsewhere());
  }

  // Nothing else can fill its place in the ring.
  void send_aside(const wire::WorkerMessage& message) {
    try {
      socket_.send(message);
    } catch (const std::exception& error) {
      write_stderr_line(std::string("skyward: the worker cannot send its answer: ") + error.what());
      leave(EXIT_FAILURE);
    }
  }

  // Answers of a full window fit the ring; the items of a reader that takes very many may not.
  static void await_room() {
    constexpr int kLook_ms = 1;
    pollfd agent{.fd = wire::kWorkerSocket, .events = 0, .revents = 0};
    if (poll(&agent, 1, kLook_ms) > 0 && (agent.revents & POLLHUP) != 0) leave(EXIT_SUCCESS);
  }

  static wire::WorkerMessage elsewhere() {
    wire::WorkerMessage message;
    message.kind = wire::WorkerKind::elsewhere;
    return message;
  }

  static Bytes joined(const Outgoing& encoded) {
    Bytes bytes = encoded.head;
    for (const SharedBytes& piece : encoded.body) {
      bytes.insert(bytes.end(), piece.view.begin(), piece.view.end());
    }
    return bytes;
  }

  void run_task(wire::WorkerMessage message) {
    const std::uint64_t task = message.task.value;
    keep_body(message);
    wire::WorkerMessage result;
    result.kind = wire::WorkerKind::result;
    result.task = message.task;
    take_interrupt();
    bool is_cancelled = false;
    {
      const std::scoped_lock lock(answering);
      if (returned.remove(task)) return;  // answered already; the agent may send it again
      is_cancelled = cancels.remove(task);
      cancel_seen.store(0);
      running_task.store(task);
    }
    if (message.behind) write_mark(task);
    const auto start = io::EventLoop::now();
    const std::uint64_t forks = io::forks_made();
    if (is_cancelled) {
      result.status = wire::WorkerStatus::cancelled;
    } else {
      answers_.begin(message.task);
      if (message.group) {
        call_group(message, result);
      } else {
        credits_ = message.stream_window;
        unread_.clear();
        set_item_channel(credits_ > 0 ? this : nullptr);
        call(message, message.payload, result);
        set_item_channel(nullptr);
      }
      finished.add(task);
    }
    // What a child of the function may still have mapped must not be written to again.
    if (io::forks_made() != forks) result.retained = wire::blobs_of(message.payload);
    result.run_ns = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(io::EventLoop::now() - start).count());
    if (cancel_seen.load() == task) {  // it looked, and ended because of what it saw
      result.status = wire::WorkerStatus::cancelled;
      result.payload = {};
    }
    running_task.store(0);
    forget_preemption_callbacks();
    flush_output();
    const bool rings = message.ring;
    message = {};  // its descriptors go before the agent hears of the end
    send(result, rings);
  }

  // The calls of a group, one after another. The result is that of the call it runs last.
  void call_group(const wire::WorkerMessage& message, wire::WorkerMessage& result) {
    const auto all = wire::group_arguments(message.payload);
    if (!all) throw_error(all.error());
    const std::shared_ptr<const void>& owner = message.payload.buffers[0].bytes.owner;
    wire::Payload one;
    one.buffers.emplace_back();
    answers_.begin_group(message.task);
    for (const ByteView arguments : *all) {
      take_interrupt();
      if (cancels.remove(message.task.value)) {
        result.status = wire::WorkerStatus::cancelled;
        return;
      }
      one.buffers[0] = wire::small_buffer({owner, arguments});
      call(message, one, result);
      const bool goes_on = is_outcome(result) && cancel_seen.load() != message.task.value;
      if (!goes_on || !answers_.claim(message.stream_window)) return;
      forget_preemption_callbacks();
      flush_output();
      send_outcome(message.task, std::exchange(result.payload, {}).buffers[0].bytes.view);
    }
  }

  // Whether a result fits the ring as an outcome.
  static bool is_outcome(const wire::WorkerMessage& result) {
    if (result.status != wire::WorkerStatus::ok || result.payload.buffers.size() != 1) return false;
    const wire::Buffer& value = result.payload.buffers[0];
    return !value.in_blob() && sizeof(OutcomeHead) + value.size <= wire::kMaxRingMessageBytes;
  }

  // A child of the function, which has returned from it: it must claim nothing, and cannot wait for
  // threads that only its parent has.
  void end_child() const {
    if (io::process_generation() != generation_) leave(EXIT_SUCCESS);
  }

  void send_outcome(TaskId task, ByteView value) {
    const OutcomeHead head{
        .length = static_cast<std::uint32_t>(sizeof head - wire::kWorkerPrefixBytes + value.size()),
        .task = task.value};
    const std::scoped_lock lock(answering);
    while (!answers_.write(std::as_bytes(std::span(&head, 1)), value)) await_room();
    if (answers_.agent_sleeps() && !ring_bell()) socket_.send(elsewhere());
  }

  void call(const wire::WorkerMessage& message, const wire::Payload& payload,
            wire::WorkerMessage& result) {
    try {
      ArchiveReader arguments(payload, &map_blob);
      ArchiveWriter archive({.put = &make_blob});
      function_of(message).invoke(arguments, archive);
      result.payload = archive.finish();
    } catch (const RankError& error) {
      result.status = wire::WorkerStatus::raised;
      result.payload = stored(error.thrown());
    } catch (const std::exception& error) {
      result.status = wire::WorkerStatus::raised;
      result.payload = write_exception(thrown_name(), error.what(), &error, {.put = &make_blob});
    } catch (...) {
      result.status = wire::WorkerStatus::raised;
      result.payload = write_exception(thrown_name(), "(not a std::exception, so it has no text)");
    }
    end_child();
  }

  // With its large buffers in shared memory.
  static wire::Payload stored(wire::Payload payload) {
    for (wire::Buffer& buffer : payload.buffers) {
      if (buffer.size < kBlobThresholdBytes) continue;
      buffer = wire::blob_buffer(make_blob(buffer.bytes.view), 0, buffer.size);
    }
    return payload;
  }

  // A body comes with the first call of its function only, which may be one that is never carried
  // out.
  void keep_body(const wire::WorkerMessage& message) {
    if (!message.body.empty()) symbols_[message.function] = std::string(as_text(message.body.view));
  }

  const RegisteredFunction& function_of(const wire::WorkerMessage& message) const {
    const auto symbol = symbols_.find(message.function);
    if (symbol == symbols_.end()) {
      throw SkywardError("the agent named a function whose body it has not sent");
    }
    const RegisteredFunction* function = find_function(symbol->second);
    if (function == nullptr) {
      throw ConfigurationError(
          "the worker's program has no compute function '" + symbol->second +
          "'\nhint: driver and worker must be the same executable; functions of a library that is "
          "loaded at run time do not exist yet when a worker starts");
    }
    return *function;
  }

  // Tells the agent that what follows belongs to this task, though it was handed over while another
  // one ran.
  void write_mark(std::uint64_t task) {
    if (!has_mark_) return;
    std::array<std::uint8_t, wire::kWorkerMarkBytes> text{};
    std::memcpy(text.data(), mark_, sizeof mark_);
    std::memcpy(text.data() + sizeof mark_, &task, sizeof task);
    for (const int output : {STDOUT_FILENO, STDERR_FILENO}) {
      while (write(output, text.data(), text.size()) < 0 && errno == EINTR) {
      }
    }
  }

  WorkerSocket socket_;
  wire::AnswerWriter answers_;
  const std::uint64_t generation_ = io::process_generation();
  std::deque<wire::WorkerMessage> inbox_;
  std::uint32_t credits_ = 0;         // items that the reader of the running task's stream takes
  std::deque<std::uint64_t> unread_;  // sizes of the items that were sent, but not taken
  std::unordered_map<FunctionId, std::string> symbols_;
  std::uint8_t mark_[8] = {};
  bool has_mark_ = false;
};

void map_shared_memory() {
  void* const shared = mmap(nullptr, sizeof *shared_memory, PROT_READ | PROT_WRITE, MAP_SHARED,
                            wire::kWorkerShared, 0);
  if (shared == MAP_FAILED) {
    std::perror("skyward: the worker cannot map the memory it shares with its agent");
    _exit(EXIT_FAILURE);
  }
  shared_memory = static_cast<wire::WorkerMemory*>(shared);
  close(wire::kWorkerShared);
}

bool is_socket(int descriptor) {
  struct stat status{};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode);
}

}  // namespace

void run_if_worker() {
  const char* started_as_worker = std::getenv(wire::kWorkerVariable);
  if (started_as_worker == nullptr || !is_socket(wire::kWorkerSocket)) return;
  // What ps and top call it; else that is the last word of a path in /proc, or of an upload's.
  constexpr std::size_t kMostCharacters = 15;
  const std::string name(started_as_worker);
  pthread_setname_np(pthread_self(), name.substr(0, kMostCharacters).c_str());
  // Programs that tasks start are no workers of this pool.
  unsetenv(wire::kWorkerVariable);
  for (const int descriptor : {wire::kWorkerSocket, wire::kWorkerCancelPipe, wire::kWorkerBell}) {
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  }
  map_shared_memory();
  // Lines must leave as they are printed, though stdout is a pipe. What was printed before main()
  // leaves now: only then does the C library look at the new mode.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::fflush(stdout);
  main_thread = pthread_self();
  worker_process = getpid();
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
  handle_ending_signals();
  try {
    fcntl(wire::kWorkerCancelPipe, F_SETFL, O_NONBLOCK);
    io::start_thread(listen_to_agent).detach();
    Worker().run();
  } catch (const std::exception& error) {
    write_stderr_line(std::string("skyward: the worker process exits: ") + error.what());
    std::fflush(nullptr);
    _exit(EXIT_FAILURE);
  }
}

bool cancelled() {
  take_interrupt();
  const std::uint64_t task = running_task.load();
  if (task == 0 || !cancels.has(task)) return false;
  cancel_seen.store(task);
  return true;
}

void throw_if_cancelled() {
  if (cancelled()) throw CancelledError("the caller cancelled this task");
}

}  // namespace skyward
