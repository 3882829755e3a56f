#include "skyward/engine/link_attempt.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/base/guarded.h"
#include "skyward/base/text.h"
#include "skyward/engine/link_policy.h"
#include "skyward/engine/link_uploads.h"
#include "skyward/io/forks.h"
#include "skyward/io/wide_pipe.h"
#include "skyward/provider/ssh/command.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::engine {
namespace {

constexpr std::size_t kStderrTailBytes = 4096;
// Between the end of the stream and the end of the command, so that the loss can be told with its
// reason.
constexpr Duration kExitGrace = 500ms;
constexpr std::size_t kUploadPieceBytes = std::size_t{64} << 10;
constexpr std::string_view kRefused = "onnection refused";
// What ssh, kubectl and Amazon's session plugin say where there is no network, both parts: a host
// or a server on the way may say the second of its own.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kOffline = {
    {{"connect to host", "Network is unreachable"},
     {"connect to host", "Network is down"},
     {"connect to host", "Cannot assign requested address"},
     {"Could not resolve hostname", "Temporary failure in name resolution"},
     {"Unable to connect to the server", "network is unreachable"},
     {"Unable to connect to the server", "Temporary failure in name resolution"},
     {"Unable to connect to the server", "server misbehaving"},
     {"Could not connect to", "the endpoint URL"}}};

// The attempts of this program that upload now, over one line as likely as not.
struct Uploads {
  std::atomic<int> count = 0;
};
std::atomic<int>& uploads_now() { return io::of_this_process<Uploads>().count; }

}  // namespace

LinkAttempt::LinkAttempt(io::EventLoop& loop, const provider::Connection& connection, bool socket,
                         Entry entry, Events events)
    : loop_(loop),
      events_(std::move(events)),
      connection_(connection),
      entry_(std::move(entry)),
      alive_(std::make_shared<bool>(true)) {
  const Status started = start(socket);
  loop_.post([this, alive = alive_, started] {
    if (!*alive) return;
    if (!started) {
      exited_ = true;
      // What is short now (processes, open files, memory) may be free later.
      const bool passing = started.error().kind == ErrorKind::exhausted;
      finish({.error = started.error(), .means = {.permanent = !passing}});
    } else if (!over_ && entry_.line.empty()) {
      events_.on_open();
    }
  });
}

LinkAttempt::~LinkAttempt() {
  *alive_ = false;
  count_upload(false);
  loop_.cancel_timer(timer_);
  if (stderr_) loop_.unwatch(stderr_.get());
  if (read_) loop_.unwatch(read_.get());
  if (write_) loop_.unwatch(write_.get());
}

Status LinkAttempt::start(bool socket) {
  auto errors = io::make_pipe();
  if (!errors) return fail(errors);
  io::SpawnOptions options{.command = connection_.command,
                           .environment = connection_.environment,
                           .unset = {},
                           .directory = connection_.directory,
                           .descriptors = {{errors->write.get(), 2}},
                           .new_session = true,
                           .die_with_parent = false};
  if (!entry_.line.empty()) options.command.push_back(entry_.line);
  io::FileDescriptor theirs_in;
  io::FileDescriptor theirs_out;
  if (socket) {
    auto pair = io::make_socket_pair();
    if (!pair) return fail(pair);
    read_ = std::move(pair->ours);
    theirs_in = std::move(pair->theirs);
    options.descriptors.emplace_back(theirs_in.get(), 0);
    options.descriptors.emplace_back(theirs_in.get(), 1);
  } else {
    // A socket says that it takes more when it is nearly empty, a pipe after each read: ssh reads
    // 32 KiB at a time.
    auto in = io::make_socket_pair();
    if (!in) return fail(in);
    auto out = io::make_pipe();
    if (!out) return fail(out);
    write_ = std::move(in->ours);
    theirs_in = std::move(in->theirs);
    read_ = std::move(out->read);
    theirs_out = std::move(out->write);
    // A command such as ssh expects blocking descriptors.
    for (const int descriptor : {theirs_in.get(), theirs_out.get(), errors->write.get()}) {
      const Status blocking = io::set_non_blocking(descriptor, false);
      if (!blocking) return blocking;
    }
    options.descriptors.emplace_back(theirs_in.get(), 0);
    options.descriptors.emplace_back(theirs_out.get(), 1);
  }
  auto process =
      io::Process::spawn(loop_, options, [this](io::ExitStatus status) { exited(status); });
  if (!process) {
    read_.reset();
    write_.reset();
    return fail(process);
  }
  process_ = *std::move(process);
  stderr_ = std::move(errors->read);
  loop_.watch(stderr_.get(), [this] { read_stderr(); });
  if (entry_.line.empty()) {
    open_channel();
  } else {
    loop_.watch(read_.get(), [this] { read_entry(); });
    loop_.watch(write_.get(), {}, [this] { write_upload(); });
  }
  return {};
}

void LinkAttempt::open_channel() {
  count_upload(false);
  if (write_) io::widen_socket(write_.get());  // no sooner: an upload must be seen to move
  channel_ = std::make_unique<io::Channel>(
      loop_, std::move(read_), std::move(write_), wire::kFramePrefixBytes, wire::decode_prefix,
      io::Channel::Handlers{.on_message =
                                [this](io::Incoming incoming) {
                                  if (!over_) events_.on_frame(std::move(incoming));
                                },
                            .on_closed = [this](const Error& error) { channel_closed(error); },
                            .on_idle =
                                [this] {
                                  if (!over_ && events_.on_idle) events_.on_idle();
                                }});
}

// ---- before the first frame

void LinkAttempt::read_entry() {
  std::array<std::byte, 4096> chunk;
  const auto count = io::read_some(read_.get(), chunk);
  if (!count) return;
  if (*count == 0) {
    loop_.unwatch(read_.get());
    read_.reset();
    return channel_closed({ErrorKind::lost, {}, {}});
  }
  moved_ += *count;
  reader_.feed(ByteView(chunk).first(*count));
  while (!over_ && !channel_) {
    auto word = reader_.next();
    if (!word) return finish({.error = word.error(), .means = {.permanent = true}});
    if (!*word) return;
    handle_word(**word);
  }
}

void LinkAttempt::handle_word(const EntryReader::Word& word) {
  using Kind = EntryReader::Word::Kind;
  switch (word.kind) {
    case Kind::machine:
      reached_ = true;
      events_.on_reached();
      if (std::ranges::find(entry_.agents, word.text, &EntryFile::machine) == entry_.agents.end()) {
        refuse_machine(word.text);
      }
      return;
    case Kind::need:
      return load(word);
    case Kind::gone:
      return finish(
          {.error = {ErrorKind::lost, "its agent has exited", {}}, .means = {.gone = true}});
    case Kind::busy:
      return finish({.error = {ErrorKind::unavailable, word.text, {}}});
    case Kind::error:
      return finish(
          {.error = {ErrorKind::unavailable, word.text, {}}, .means = {.permanent = true}});
    case Kind::connected:
      break;
  }
  if (reader_.left() > 0 || !upload_.empty()) {
    return finish({.error = {ErrorKind::lost, "unexpected output in the handshake", {}}});
  }
  loop_.unwatch(read_.get());
  loop_.unwatch(write_.get());
  open_channel();
  events_.on_open();
}

void LinkAttempt::refuse_machine(const std::string& machine) {
  std::vector<std::string> known;
  for (const EntryFile& agent : entry_.agents) known.push_back(agent.machine);
  finish({.error = {ErrorKind::unsupported,
                    fmt::format("it is a {} machine, but this installation has agents only for "
                                "{}",
                                machine, fmt::join(known, " and ")),
                    fmt::format("use {} machines, or install skyward from a wheel that has an "
                                "agent for {}; in a clone of the repository, './dev cross' "
                                "builds it",
                                fmt::join(known, " or "), machine)},
          .means = {.permanent = true}});
}

void LinkAttempt::load(const EntryReader::Word& need) {
  const EntryFile* file = nullptr;
  for (const auto* offered : {&entry_.agents, &entry_.files}) {
    const auto found = std::ranges::find(*offered, need.text, &EntryFile::hash);
    if (found != offered->end()) file = &*found;
  }
  if (file == nullptr) {
    return finish({.error = {ErrorKind::lost, "it requests a file that was not offered", {}}});
  }
  auto bytes = std::make_shared<Result<SharedBytes>>();
  loop_.run_blocking(
      [bytes, file = *file, packed = need.packed] {
        *bytes = guarded([&] { return load_upload(file, packed); });
      },
      [this, alive = alive_, bytes] {
        if (!*alive || over_) return;
        if (!*bytes) return finish({.error = bytes->error(), .means = {.permanent = true}});
        upload_ = {SharedBytes(fmt::format("{}\n", (*bytes)->size())), **bytes};
        upload_bytes_ = upload_.front().size() + (*bytes)->size();
        handed_over_at_ = io::EventLoop::now();
        count_upload(true);
        write_upload();
      });
}

// As much as the command takes now; the rest when it takes more.
void LinkAttempt::write_upload() {
  while (!upload_.empty()) {
    ByteView& left = upload_.front().view;
    if (left.empty()) {
      upload_.pop_front();
      continue;
    }
    const auto taken =
        io::write_part(write_.get(), left.first(std::min(left.size(), kUploadPieceBytes)));
    if (!taken) {  // it has closed: its words or its end say why
      upload_.clear();
      break;
    }
    if (*taken == 0) {
      loop_.want_write(write_.get(), true);
      return;
    }
    moved_ += *taken;
    handed_over_at_ = io::EventLoop::now();
    left = left.subspan(*taken);
  }
  loop_.want_write(write_.get(), false);
}

void LinkAttempt::count_upload(bool uploading) {
  if (std::exchange(uploading_, uploading) != uploading) uploads_now() += uploading ? 1 : -1;
}

// ---- while it runs

void LinkAttempt::send(Outgoing message) {
  if (is_open()) channel_->send(std::move(message));
}

void LinkAttempt::flush() {
  if (is_open()) channel_->flush();
}

std::size_t LinkAttempt::queued_bytes() const { return channel_ ? channel_->queued_bytes() : 0; }

std::uint64_t LinkAttempt::moved_bytes() const {
  if (channel_) return moved_ + upload_bytes_ + channel_->received_bytes();
  return moved_ +
         LinkPolicy::crossed(upload_bytes_, io::EventLoop::now() - handed_over_at_, uploads_now());
}

void LinkAttempt::read_stderr() {
  std::array<std::byte, 4096> chunk;
  while (const auto count = io::read_some(stderr_.get(), chunk)) {
    if (*count == 0) {
      loop_.unwatch(stderr_.get());
      stderr_.reset();
      return;
    }
    stderr_tail_ += as_text(ByteView(chunk).first(*count));
    if (stderr_tail_.size() > kStderrTailBytes) {
      stderr_tail_.erase(0, stderr_tail_.size() - kStderrTailBytes);
    }
  }
}

// ---- the end

void LinkAttempt::channel_closed(const Error& why) {
  channel_error_ = why.message.empty() ? "the connection to its agent was closed" : why.message;
  if (over_ || exited_ || timer_ != 0) return;
  timer_ = loop_.start_timer(io::EventLoop::now() + kExitGrace, [this] {
    timer_ = 0;
    finish({.error = {ErrorKind::lost, channel_error_, {}}});
  });
}

void LinkAttempt::exited(io::ExitStatus status) {
  if (stderr_) read_stderr();
  exited_ = true;
  if (over_) {
    loop_.cancel_timer(std::exchange(timer_, 0));
    schedule_gone();
    return;
  }
  // What was written last may still be in the pipe: its end is told by the channel, or by this
  // timer.
  loop_.cancel_timer(timer_);
  std::string why =
      fmt::format("{} ended ({})",
                  entry_.line.empty() ? "its agent, " + connection_.command.front() + ","
                                      : "the command that reaches it",
                  status.describe());
  const bool more = is_open() || read_;
  timer_ =
      loop_.start_timer(io::EventLoop::now() + (more ? 20ms : 0ms), [this, why = std::move(why)] {
        timer_ = 0;
        if (read_) read_entry();
        finish({.error = {ErrorKind::lost, why, {}}});
      });
}

void LinkAttempt::finish(End end) {
  if (std::exchange(over_, true)) return;
  loop_.cancel_timer(std::exchange(timer_, 0));
  if (!end.means.gone) end.error = with_its_words(std::move(end.error));
  const std::string err = provider::without_stale_master(stderr_tail_);
  const std::string said = reader_.noise() + err;
  // The command's own words. Where a shell has answered, they are the machine's.
  const auto says = [&](const std::string& sign) { return !reached_ && said.contains(sign); };
  if (std::ranges::any_of(connection_.permanent_errors, says)) {
    end.means.permanent = true;
    end.error.kind = ErrorKind::denied;
  }
  end.means.hopeless = std::ranges::any_of(connection_.hopeless_errors, says);
  end.means.refused = err.contains(kRefused);
  end.means.offline = !reached_ && std::ranges::any_of(kOffline, [&](const auto& signs) {
    return err.contains(signs.first) && err.contains(signs.second);
  });
  let_go(kExitGrace);
  events_.on_end(std::move(end));
}

Error LinkAttempt::with_its_words(Error why) const {
  std::string words =
      to_utf8(trimmed(reader_.noise() + provider::without_stale_master(stderr_tail_), "\r\n"));
  // A command that does not run its last word as a shell would often quotes it, and nobody wants to
  // read our script.
  if (const std::size_t at = words.find(entry_.line); !entry_.line.empty() && at != words.npos) {
    words.replace(at, entry_.line.size(), "…");
  }
  if (!words.empty()) why.message += "; it wrote: " + words;
  if (!reached_ && connection_.stands && why.hint.empty()) {
    why.hint = fmt::format("run it yourself; it must print \"hi\": {} 'echo hi'",
                           fmt::join(connection_.command, " "));
  }
  return why;
}

void LinkAttempt::stop(Duration grace) {
  if (!std::exchange(over_, true)) let_go(grace);
}

void LinkAttempt::let_go(Duration grace) {
  loop_.cancel_timer(std::exchange(timer_, 0));
  count_upload(false);
  if (channel_) channel_->close();
  for (io::FileDescriptor* end : {&read_, &write_}) {
    if (!*end) continue;
    loop_.unwatch(end->get());
    end->reset();
  }
  upload_.clear();
  if (!process_ || exited_) {
    schedule_gone();
    return;
  }
  timer_ = loop_.start_timer(io::EventLoop::now() + grace, [this] {
    process_->kill_group();
    // One that the kernel does not let end (a silent file server, a debugger) holds nobody up.
    timer_ = loop_.start_timer(io::EventLoop::now() + kKillTimeout, [this] {
      timer_ = 0;
      schedule_gone();
    });
  });
}

// Later, so that the owner may destroy the attempt in the callback.
void LinkAttempt::schedule_gone() {
  loop_.post([this, alive = alive_] {
    if (*alive) events_.on_gone();
  });
}

}  // namespace skyward::engine
