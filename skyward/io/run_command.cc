#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skyward/base/text.h"
#include "skyward/io/polling.h"
#include "skyward/io/process.h"
#include "skyward/io/sigpipe_guard.h"
#include "skyward/io/start_child.h"

namespace skyward::io {

namespace {

using namespace std::chrono_literals;

// The parent's ends of the pipes to the child; each is closed when it is done with.
struct ChildPipes {
  FileDescriptor in;
  FileDescriptor out;
  FileDescriptor err;
};

void write_input(FileDescriptor& in, std::string_view& input) {
  while (in && !input.empty()) {
    const ssize_t written = ::write(in.get(), input.data(), input.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) break;  // the command does not want the rest: its own affair
    input.remove_prefix(static_cast<std::size_t>(written));
  }
  in.reset();
}

// Takes `room` bytes at most.
void read_output(FileDescriptor& from, std::string& text, std::size_t room) {
  char buffer[16384];
  while (from && room > 0) {
    const ssize_t size = ::read(from.get(), buffer, std::min(room, sizeof buffer));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) {
      from.reset();
      return;
    }
    text.append(buffer, static_cast<std::size_t>(size));
    room -= static_cast<std::size_t>(size);
  }
}

// False when the command has written more than is kept.
bool read_outputs(ChildPipes& pipes, CommandResult& result, std::size_t max_output) {
  const auto room = [&] { return max_output + 1 - result.out.size() - result.err.size(); };
  read_output(pipes.out, result.out, room());
  read_output(pipes.err, result.err, room());
  return room() > 0;
}

// How soon a request to stop is seen, and how long what is stopped may clean up.
constexpr Duration kLookForStop = std::chrono::milliseconds(100);
constexpr Duration kStopPatience = std::chrono::seconds(5);

// Waits until a stream or the child has something to tell, or `limit` is over.
void wait_for_any(const ChildPipes& pipes, const StartedChild& child, Duration limit) {
  // poll() skips negative descriptors.
  pollfd watched[] = {{.fd = pipes.in.get(), .events = POLLOUT, .revents = 0},
                      {.fd = pipes.out.get(), .events = POLLIN, .revents = 0},
                      {.fd = pipes.err.get(), .events = POLLIN, .revents = 0},
                      {.fd = child.pidfd.get(), .events = POLLIN, .revents = 0}};
  if (!child.pidfd) limit = std::min(limit, kKernelPollInterval);
  const auto whole =
      std::chrono::ceil<std::chrono::milliseconds>(std::clamp(limit, Duration{0}, Duration{1h}));
  ::poll(watched, 4, static_cast<int>(whole.count()));
}

void signal_all(const StartedChild& child, bool has_group, int number) {
  if (has_group) {
    ::kill(-child.pid, number);
  } else {
    signal_child(child, number);
  }
}

Error took_too_long(const SpawnOptions& options, Duration timeout, const std::string& said) {
  constexpr std::size_t kLastWords = 500;
  return {
      ErrorKind::timeout,
      fmt::format("'{}' did not end within {:.1f} s and was killed{}{}", options.command.front(),
                  seconds(timeout), said.empty() ? "" : "; its last output: ",
                  said.substr(said.size() - std::min(said.size(), kLastWords))),
      "give it more time, or find out what it waits for"};
}

Error wrote_too_much(const SpawnOptions& options) {
  return {ErrorKind::exhausted,
          fmt::format("'{}' wrote more than {} MiB and was stopped", options.command.front(),
                      options.max_output >> 20),
          "run it by hand to see what it writes"};
}

Error lost_exit_code(const std::string& program) {
  return {ErrorKind::unsupported,
          fmt::format("how '{}' ended is unknown: this program ignores SIGCHLD, or another part of "
                      "it waits for all child processes",
                      program),
          "leave SIGCHLD at its default, and wait only for child processes that you started"};
}

}  // namespace

Result<CommandResult> run_command(const SpawnOptions& options, Duration timeout,
                                  std::string_view input) {
  const Time started = EventLoop::now();
  Time deadline = timeout < kNever - started ? started + timeout : kNever;
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  for (const auto* pipe : {&in, &out, &err}) {
    if (!*pipe) return fail(*pipe);
  }
  for (const int theirs : {in->read.get(), out->write.get(), err->write.get()}) {
    if (const Status blocking = set_non_blocking(theirs, false); !blocking) return fail(blocking);
  }
  SpawnOptions with_streams = options;
  auto& descriptors = with_streams.descriptors;
  std::erase_if(descriptors, [](const auto& pair) { return pair.second <= 2; });
  descriptors.insert(descriptors.end(),
                     {{in->read.get(), 0}, {out->write.get(), 1}, {err->write.get(), 2}});
  const auto child = start_child(with_streams);
  if (!child) return fail(child);
  in->read.reset();
  out->write.reset();
  err->write.reset();
  ChildPipes pipes{
      .in = std::move(in->write), .out = std::move(out->read), .err = std::move(err->read)};

  const SigpipeGuard guard;
  CommandResult result;
  std::optional<ExitStatus> status;
  bool timed_out = false;
  bool too_much = false;
  bool stopped = false;
  while (true) {
    write_input(pipes.in, input);
    // Asked before the last reading: what the command wrote is all there once it has ended. Its
    // pipes may never end: a daemon that it left behind may hold them open.
    status = peek_exit(child->pid);
    if (!read_outputs(pipes, result, options.max_output)) {
      if (!status) signal_all(*child, options.new_session, SIGKILL);
      too_much = true;
      break;
    }
    if (status) break;
    if (!stopped && options.stop.stop_requested()) {
      stopped = true;
      signal_all(*child, options.new_session, SIGTERM);
      deadline = std::min(deadline, EventLoop::now() + kStopPatience);
    }
    const Duration left = deadline - EventLoop::now();
    if (left <= Duration{0}) {
      timed_out = true;
      signal_all(*child, options.new_session, SIGKILL);
      break;
    }
    wait_for_any(pipes, *child, options.stop.stop_possible() ? std::min(left, kLookForStop) : left);
  }
  reap_killed(*child, EventLoop::now() + kReapPatience);
  if (too_much) return std::unexpected(wrote_too_much(options));
  if (stopped) {
    return fail(ErrorKind::cancelled, fmt::format("'{}' was stopped", options.command.front()));
  }
  if (timed_out) return std::unexpected(took_too_long(options, timeout, result.err));
  if (status->code < 0) return std::unexpected(lost_exit_code(options.command.front()));
  result.status = *status;
  return result;
}

std::string failure_text(const CommandResult& result) {
  constexpr std::size_t kLines = 2;
  constexpr std::size_t kMostBytes = 300;
  const bool on_stdout = !trimmed(result.out).empty();
  const std::vector<std::string> lines = items_of(on_stdout ? result.out : result.err, '\n');
  if (lines.empty()) return result.status.describe();
  std::string text;
  for (const std::string& line : std::span(lines).last(std::min(lines.size(), kLines))) {
    text += (text.empty() ? "" : "; ") + line;
  }
  return text.substr(text.size() - std::min(text.size(), kMostBytes));
}

}  // namespace skyward::io
