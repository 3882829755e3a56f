#include "skyward/pool/program_end.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "skyward/base/stderr_line.h"
#include "skyward/call/error.h"
#include "skyward/io/forks.h"
#include "skyward/io/start_thread.h"
#include "skyward/pool/callbacks.h"
#include "skyward/spec/limits.h"

namespace skyward {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
// A callback may wait for the very thread that ends the program.
constexpr Duration kLastCallbacks = std::chrono::seconds(2);

// What the signals' function needs. It wakes a thread and does nothing else.
std::atomic<int> wake_pipe{-1};
std::atomic<pid_t> watched_process{0};

void on_signal(int number) {
  const int saved = errno;
  if (getpid() == watched_process.load()) {
    const auto byte = static_cast<unsigned char>(number);
    static_cast<void>(!write(wake_pipe.load(), &byte, 1));
  } else {  // a forked child has nothing to end
    std::signal(number, SIG_DFL);
    std::raise(number);  // comes when this function returns
  }
  errno = saved;
}

bool is_handled_by(int number, void (*handler)(int)) {
  struct sigaction now{};
  return sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == handler;
}

// Returns what handled it before.
struct sigaction handle(int number, void (*handler)(int)) {
  struct sigaction action{};
  struct sigaction former{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, &former);
  return former;
}

// False when the system has no more threads.
template <typename Work>
bool runs_on_thread(Work work) {
  try {
    std::thread(std::move(work)).detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

std::terminate_handler earlier_terminate_handler = nullptr;

}  // namespace

void die_of(int number) {
  handle(number, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  std::raise(number);
  _exit(128 + number);  // the kernel kills no process with the number 1 (of a container) by that
}

// What is open in this process. It is never destroyed: programs end at any time.
class ProgramEnd {
 public:
  // A forked child has one of its own: what its parent has open is not its business.
  static ProgramEnd& get() { return io::of_this_process<ProgramEnd>(); }

  void add(EndsWithProgram& one) {
    std::call_once(watching_, [this] {
      watch_signals();
      end_at_exit();  // another thread may call exit() while this one opens
    });
    const std::scoped_lock lock(mutex_);
    one.place_ = open_.insert(open_.end(), &one);
    take_signals();
  }

  void watch_again() {
    const std::scoped_lock lock(mutex_);
    if (!open_.empty() && !ender_) take_signals();
  }

  void remove(EndsWithProgram& one) {
    if (!is_ours()) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&one] { return !one.called_ || one.returned_; });
    open_.erase(one.place_);
    changed_.notify_all();
    if (!open_.empty() || ender_) return;
    for (const int number : kSignals) {
      if (is_handled_by(number, on_signal)) handle(number, SIG_DFL);
    }
  }

  void note_open() { std::call_once(opened_, end_at_exit); }

  // Ends all that is open, or gives up when the time is over. A thread that comes second waits for
  // the end of the program.
  void end_all() {
    std::unique_lock lock(mutex_);
    if (ender_ == std::this_thread::get_id()) return;
    changed_.wait(lock, [this] { return !ender_; });
    ender_ = std::this_thread::get_id();
    std::vector<EndsWithProgram*> here;  // the system has no thread for them
    for (EndsWithProgram* one : open_) {
      one->called_ = true;
      if (!runs_on_thread([this, one] { call(*one); })) here.push_back(one);
    }
    lock.unlock();
    for (EndsWithProgram* one : here) call(*one);
    lock.lock();
    const bool ended = changed_.wait_for(lock, timeout_, [this] {
      return std::ranges::all_of(open_, [](const auto* one) { return one->returned_; });
    });
    lock.unlock();
    if (ended) {
      static_cast<void>(wait_for_all_callbacks(kLastCallbacks));
      return;
    }
    write_stderr_line(
        "skyward: the program ends before its pools have closed; 'skyward gc' terminates what "
        "they leave behind");
  }

  void set_timeout(Duration timeout) {
    const std::scoped_lock lock(mutex_);
    timeout_ = timeout;
  }

  bool is_ending() {
    const std::scoped_lock lock(mutex_);
    return ender_.has_value();
  }

 private:
  bool is_ours() const { return io::process_generation() == generation_; }

  static void end_at_exit() {
    std::atexit([] { get().end_all(); });
  }

  static void take_signals() {
    for (const int number : kSignals) {
      if (!is_handled_by(number, SIG_DFL)) continue;
      const struct sigaction former = handle(number, on_signal);
      // Another thread has set a handler of its own in this very moment.
      if (former.sa_handler != SIG_DFL) sigaction(number, &former, nullptr);
    }
  }

  void hurry_all() {
    const std::scoped_lock lock(mutex_);
    for (const EndsWithProgram* one : open_) one->hurry_();
  }

  void call(EndsWithProgram& one) {
    one.end_();
    const std::scoped_lock lock(mutex_);
    one.returned_ = true;
    changed_.notify_all();
  }

  // Starts the thread that signals wake; it waits for them until the program ends.
  void watch_signals() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw ConfigurationError(std::string("cannot watch for signals: pipe: ") +
                               std::strerror(errno) + "\nhint: raise the limit of open files");
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    const io::SignalsBlocked blocked;  // the program's handlers run on its own threads
    std::thread([this, from = ends[0]] {
      for (bool is_first = true;;) {
        unsigned char number = 0;
        if (read(from, &number, 1) != 1) continue;
        hurry_all();
        if (!std::exchange(is_first, false)) continue;
        const auto end = [this, number] {
          end_all();
          die_of(number);
        };
        if (!runs_on_thread(end)) end();  // further signals hurry nothing
      }
    }).detach();
    wake_pipe = ends[1];
    watched_process = getpid();
  }

  const std::uint64_t generation_ = io::process_generation();
  std::once_flag watching_;
  std::once_flag opened_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<EndsWithProgram*> open_;
  std::optional<std::thread::id> ender_;
  Duration timeout_ = kProgramEndTimeout;
};

void watch_program_end() {
  static std::once_flag once;
  std::call_once(once, [] {
    earlier_terminate_handler = std::set_terminate([] {
      ProgramEnd::get().end_all();
      if (earlier_terminate_handler != nullptr) earlier_terminate_handler();
      std::abort();
    });
  });
}

void set_program_end_timeout(Duration timeout) { ProgramEnd::get().set_timeout(timeout); }

EndsWithProgram::EndsWithProgram(End end, End hurry)
    : end_(std::move(end)), hurry_(std::move(hurry)), program_(ProgramEnd::get()) {
  program_.add(*this);
}

EndsWithProgram::~EndsWithProgram() { program_.remove(*this); }

void EndsWithProgram::note_open() { program_.note_open(); }

void watch_signals_again() { ProgramEnd::get().watch_again(); }

void throw_if_program_ends() {
  if (ProgramEnd::get().is_ending()) throw CancelledError("the program ends");
}

}  // namespace skyward
