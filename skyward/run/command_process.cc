#include "skyward/run/command_process.h"

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>

#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::run {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr Duration kCommandPollInterval = 100ms;
// For bytes that are on their way when the command and its children are dead.
constexpr Duration kDrainTimeout = 1s;

class RunningCommand {
 public:
  explicit RunningCommand(const CommandEvents& events) : events_(events) {}

  Result<io::ExitStatus> run(io::SpawnOptions options) {
    for (Source& source : sources_) {
      auto pipe = io::make_pipe();
      if (!pipe) return fail(pipe);
      // Programs expect to wait when they write.
      if (Status set = io::set_non_blocking(pipe->write.get(), false); !set) return fail(set);
      options.descriptors.emplace_back(pipe->write.get(), source.stream);
      source.read = std::move(pipe->read);
      source.write = std::move(pipe->write);
    }
    options.new_session = true;
    options.die_with_parent = true;
    auto process = io::Process::spawn(
        loop_, options, [this](io::ExitStatus status) { guarded([&] { end(status); }); });
    if (!process) return fail(process);
    process_ = *std::move(process);
    for (Source& source : sources_) source.write.reset();
    loop_.post([this] {
      guarded([&] { events_.on_start(process_->pid()); });  // before any output
      for (Source& source : sources_) {
        loop_.watch(source.read.get(), [this, &source] { guarded([&] { take(source); }); });
      }
    });
    poll_later();
    loop_.run();
    for (Source& source : sources_) close(source);
    if (thrown_) {
      process_->kill_group();
      process_.reset();  // waits for it
      std::rethrow_exception(thrown_);
    }
    return status_.value_or(io::ExitStatus{});
  }

 private:
  struct Source {
    int stream = 0;
    io::FileDescriptor read{};
    io::FileDescriptor write{};
  };

  template <typename Work>
  void guarded(Work work) {
    if (thrown_) return;
    try {
      work();
    } catch (...) {
      thrown_ = std::current_exception();
      loop_.stop();
    }
  }

  void poll_later() {
    loop_.start_timer(io::EventLoop::now() + kCommandPollInterval, [this] {
      guarded([&] { events_.poll(); });
      poll_later();
    });
  }

  void take(Source& source) {
    const auto count = io::read_some(source.read.get(), buffer_);
    if (!count) return;
    if (*count == 0) {
      close(source);
      return stop_if_done();
    }
    events_.on_output(source.stream, {reinterpret_cast<const char*>(buffer_.data()), *count});
  }

  void close(Source& source) {
    if (!source.read) return;
    loop_.unwatch(source.read.get());
    source.read.reset();
  }

  void end(io::ExitStatus status) {
    process_->kill_group();  // what it left behind
    status_ = status;
    stop_if_done();
    loop_.start_timer(io::EventLoop::now() + kDrainTimeout, [this] { loop_.stop(); });
  }

  void stop_if_done() {
    if (status_ && !sources_[0].read && !sources_[1].read) loop_.stop();
  }

  const CommandEvents& events_;
  io::EventLoop loop_;
  std::array<Source, 2> sources_{Source{.stream = 1}, Source{.stream = 2}};
  std::array<std::byte, kReadBytes> buffer_{};
  std::unique_ptr<io::Process> process_;
  std::optional<io::ExitStatus> status_;
  std::exception_ptr thrown_;
};

}  // namespace

Result<io::ExitStatus> run_to_end(const io::SpawnOptions& options, const CommandEvents& events) {
  return std::make_unique<RunningCommand>(events)->run(options);
}

}  // namespace skyward::run
