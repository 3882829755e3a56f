#include "skyward/agent/worker_proc.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <utility>

#include "skyward/agent/read_now.h"
#include "skyward/io/machine.h"
#include "skyward/io/readable.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/blob_memory.h"
#include "skyward/wire/little_endian.h"

namespace skyward::agent {
namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;  // what a pipe holds
// Between the end of the connection and the end of the process, before that counts as broken.
constexpr Duration kExitGrace = std::chrono::seconds(1);

// When a process that has not read its cancel pipe is signalled again: after the first pause, then
// after four times as long each time, up to the last one.
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLastPause = std::chrono::seconds(10);

// A process that has so many tasks in hand is looked at, and no longer waited for.
constexpr std::size_t kBurstTasks = 4;
// At the ring, before others get their turn.
constexpr int kMaxLooks = 4;
// How often: what a slow task may add to the way of the answers before it.
constexpr Duration kLookInterval = std::chrono::microseconds(500);

// Random, so that no output holds it. 0xFF is never in UTF-8: text costs no second look.
std::string make_mark() { return "ff" + io::random_hex(14); }

OutputMark from_hex(const std::string& text) {
  OutputMark mark{};
  for (std::size_t i = 0; i < mark.size(); ++i)
    mark[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return mark;
}

// A message's length, kind, status and number of descriptors tell where it ends.
constexpr std::size_t kCutBytes = wire::kWorkerPrefixBytes + 4;

Result<Cut> cut_message(ByteView prefix) {
  const auto length = wire::load<std::uint32_t>(prefix.data());
  if (length < 4 || length > kMaxFrameBodyBytes + kMaxFrameHeaderBytes)
    return fail(ErrorKind::invalid, fmt::format("it sent a message of {} bytes", length));
  const auto descriptors = wire::worker_descriptor_count(prefix.subspan(wire::kWorkerPrefixBytes));
  if (!descriptors) return fail(descriptors);
  return Cut{.head_bytes = length - 4, .body_bytes = 0, .descriptors = *descriptors};
}

}  // namespace

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::start(io::EventLoop& loop,
                                                            const Options& options, Events events) {
  const std::string mark = make_mark();
  std::unique_ptr<WorkerProcess> worker(
      new WorkerProcess(loop, options.worker, from_hex(mark), std::move(events)));
  const Status spawned = worker->spawn(options, mark);
  if (!spawned) return fail(spawned);
  return worker;
}

WorkerProcess::WorkerProcess(io::EventLoop& loop, std::uint32_t worker, const OutputMark& mark,
                             Events events)
    : loop_(loop),
      events_(std::move(events)),
      out_{.pipe = {}, .splitter = {wire::OutputStream::out, worker, mark}},
      err_{.pipe = {}, .splitter = {wire::OutputStream::err, worker, mark}} {}

WorkerProcess::~WorkerProcess() {
  loop_.cancel_timer(lost_timer_);
  loop_.cancel_timer(look_timer_);
  loop_.cancel_timer(notify_timer_);
  loop_.cancel_timer(bar_timer_);
  if (bell_) loop_.unwatch(bell_.get());
  unwatch(out_);
  unwatch(err_);
}

Status WorkerProcess::spawn(const Options& options, const std::string& mark_text) {
  auto sockets = io::make_socket_pair();
  if (!sockets) return fail(sockets);
  auto cancel = io::make_pipe();
  if (!cancel) return fail(cancel);
  auto bell = io::make_pipe();
  if (!bell) return fail(bell);
  auto shared = io::SharedMemory::create(sizeof(wire::WorkerMemory));
  if (!shared) return fail(shared);
  auto out = io::make_pipe();
  if (!out) return fail(out);
  auto err = io::make_pipe();
  if (!err) return fail(err);
  // Only our ends may be non-blocking: programs expect to wait when they write.
  for (const int descriptor : {out->write.get(), err->write.get(), sockets->theirs.get()}) {
    const Status blocking = io::set_non_blocking(descriptor, false);
    if (!blocking) return blocking;
  }
  ring_.emplace(*new ((*shared)->data()) wire::WorkerMemory);
  ring_->set_sleeps(true);
  io::SpawnOptions spawn;
  spawn.command = options.command;
  spawn.environment = options.environment;
  spawn.environment.emplace_back("SKYWARD_MARK", mark_text);
  spawn.directory = options.directory;
  spawn.descriptors = {{out->write.get(), 1},
                       {err->write.get(), 2},
                       {sockets->theirs.get(), wire::kWorkerSocket},
                       {cancel->read.get(), wire::kWorkerCancelPipe},
                       {(*shared)->descriptor(), wire::kWorkerShared},
                       {bell->write.get(), wire::kWorkerBell}};
  spawn.new_session = true;
  spawn.die_with_parent = true;
  spawn.ignore_ending_signals = options.outlasts_signals;
  auto process =
      io::Process::spawn(loop_, spawn, [this](const io::ExitStatus& status) { end(status); });
  if (!process) return fail(process);
  process_ = std::move(*process);
  shared_ = *std::move(shared);
  shared_->close_descriptor();
  cancel_ = std::move(cancel->write);
  bell_ = std::move(bell->read);
  out_.pipe = std::move(out->read);
  err_.pipe = std::move(err->read);
  watch(out_);
  watch(err_);
  loop_.watch(bell_.get(), [this] { answer_bell(); });
  channel_ = std::make_unique<io::Channel>(
      loop_, std::move(sockets->ours), io::FileDescriptor(), kCutBytes, cut_message,
      io::Channel::Handlers{
          .on_message = [this](io::Incoming incoming) { receive(std::move(incoming)); },
          .on_closed = [this](const Error& error) { lose_channel(error); }});
  return {};
}

std::vector<wire::OutputLine> WorkerProcess::run(const WorkerRun& run) {
  std::vector<wire::OutputLine> lines;
  if (!run.behind) {
    drain(lines);
    out_.splitter.begin(run.task.task);
    err_.splitter.begin(run.task.task);
  }
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::run;
  message.behind = run.behind;
  message.task = run.task.task;
  message.function = run.task.function;
  message.body = run.body;
  message.stream_window = run.task.stream_window;
  message.payload = run.task.arguments;
  message.group = run.task.group;
  ++unanswered_;
  if (message.group) {
    groups_[message.task] = {.calls = message.stream_window, .left = message.stream_window};
  } else if (message.stream_window > 0) {
    streams_.insert(message.task);
  }
  runs_.push_back(std::move(message));
  if (runs_.size() == 1) {
    loop_.post([weak = std::weak_ptr(self_)] {
      if (const auto self = weak.lock()) (*self)->send_runs();
    });
  }
  return lines;
}

// Of a burst, the process rings when half of it is done, so that more can come in time, and at its
// end.
void WorkerProcess::send_runs() {
  if (runs_.empty()) return;
  const bool are_many = unanswered_ >= kBurstTasks || !groups_.empty();
  if (are_many && streams_.empty()) begin_burst();
  if (look_timer_ != 0) {
    const std::size_t before_half = unanswered_ / 2;
    if (runs_.size() > before_half) runs_[runs_.size() - 1 - before_half].ring = true;
    runs_.back().ring = true;
  }
  for (const wire::WorkerMessage& message : runs_)
    channel_->send(wire::encode_worker_message(message));
  runs_.clear();
}

void WorkerProcess::begin_burst() {
  bursts_on_ = true;
  if (look_timer_ != 0) return;
  ring_->set_sleeps(false);
  channel_->pause_reading(true);
  unwatch(out_);
  unwatch(err_);
  look_later();
}

void WorkerProcess::end_burst() {
  loop_.cancel_timer(std::exchange(look_timer_, 0));
  if (ended_) return;
  channel_->pause_reading(false);
  watch(out_);
  watch(err_);
  ring_->set_sleeps(true);
  take_answers();  // what came just before that
}

void WorkerProcess::look_later() {
  look_timer_ = loop_.start_timer(io::EventLoop::now() + kLookInterval, [this] {
    const std::uint64_t before = received_bytes();
    look();
    // A process that has answered nothing meanwhile is slow, and one with a single task in hand is
    // quickest when it wakes us itself.
    const bool answers = received_bytes() != before && (unanswered_ > 1 || !groups_.empty());
    const bool goes_on = std::exchange(bursts_on_, false) || answers;
    if (goes_on && streams_.empty()) return look_later();
    end_burst();
  });
}

// What a silent task writes has no answer behind it yet.
void WorkerProcess::look() {
  channel_->read_now();
  take_answers();
  if (paused_ || ended_) return;
  std::vector<wire::OutputLine> lines;
  drain(lines);
  tell(std::move(lines));
}

void WorkerProcess::answer_bell() {
  std::array<std::byte, 64> rings;
  const auto count = io::read_some(bell_.get(), rings);
  if (count && *count == 0) {  // closed by the process and all its children
    loop_.unwatch(bell_.get());
    bell_.reset();
  }
  if (look_timer_ != 0) return look();
  take_answers();
  // Many tasks still wait behind a slow one: they may be quick again.
  if (unanswered_ >= kBurstTasks && streams_.empty() && !ended_) begin_burst();
}

void WorkerProcess::credit(TaskId task, std::uint32_t count) {
  send_runs();
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::credit;
  message.task = task;
  message.count = count;
  channel_->send(wire::encode_worker_message(message));
}

std::optional<std::uint32_t> WorkerProcess::take_rest(TaskId group) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || !uses_ring_) return 0;
  const auto taken = ring_->claim_rest(group, found->second.calls);
  if (taken.value_or(0) == 0) return taken;
  // Later, with what is in the ring: none of it may be delivered from within this call.
  withdrawn_.emplace_back(group, *taken);
  deliver_collected_later();
  return taken;
}

void WorkerProcess::drop(FunctionId function) {
  send_runs();
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::drop;
  message.function = function;
  channel_->send(wire::encode_worker_message(message));
}

void WorkerProcess::tell_instance_info(std::string compute_pool) {
  send_runs();
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::instance_info;
  message.text = std::move(compute_pool);
  channel_->send(wire::encode_worker_message(message));
}

void WorkerProcess::stop() {
  send_runs();
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::stop;
  channel_->send(wire::encode_worker_message(message));
}

void WorkerProcess::interrupt(TaskId task) {
  write_words(std::array{task.value});
  // A call that runs is not interrupted when one behind it is cancelled.
  ring_->begun() == task ? process_->interrupt() : process_->notify();
}

void WorkerProcess::notify(std::span<const std::uint64_t> words) {
  write_words(words);
  process_->notify();
}

void WorkerProcess::write_words(std::span<const std::uint64_t> words) {
  // A full pipe means that the process has not looked at 8192 words: the grace ends that.
  io::write_some(cancel_.get(), std::as_bytes(words));
  send_runs();
  channel_->flush();  // the process should know what the words name
  notify_again_after(kFirstPause);
}

// Python runs a signal's handler between two instructions. A signal that comes after it has looked
// for one, and before it waits in a system call, would be seen when that wait ends by itself. And
// system() ignores SIGINT.
void WorkerProcess::notify_again_after(Duration pause) {
  loop_.cancel_timer(notify_timer_);
  notify_timer_ = loop_.start_timer(io::EventLoop::now() + pause, [this, pause] {
    notify_timer_ = 0;
    if (io::readable_bytes(cancel_.get()) == 0) return;
    process_->notify();
    notify_again_after(std::min(4 * pause, kLastPause));
  });
}

void WorkerProcess::kill() { process_->kill_group(); }

void WorkerProcess::pause_output(bool paused) {
  if (paused == paused_) return;
  paused_ = paused;
  for (Source* source : {&out_, &err_}) {
    if (paused) {
      unwatch(*source);
    } else {
      watch(*source);
    }
  }
}

void WorkerProcess::watch(Source& source) {
  if (source.watched || !source.pipe || paused_ || look_timer_ != 0) return;
  source.watched = true;
  loop_.watch(source.pipe.get(), [this, &source] {
    std::vector<wire::OutputLine> lines;
    read(source, lines, kReadBytes);
    tell(std::move(lines));
  });
}

void WorkerProcess::unwatch(Source& source) {
  if (!std::exchange(source.watched, false)) return;
  loop_.unwatch(source.pipe.get());
}

std::size_t WorkerProcess::read(Source& source, std::vector<wire::OutputLine>& lines,
                                std::size_t limit) {
  if (!source.pipe) return 0;
  std::array<std::byte, kReadBytes> bytes;
  const auto room = std::span(bytes).first(std::min(limit, bytes.size()));
  const auto count = io::read_some(source.pipe.get(), room);
  if (count.value_or(0) > 0) {
    source.splitter.feed(ByteView(bytes).first(*count), read_now(), lines);
    tell_bars_later();
    return *count;
  }
  if (count) {  // closed by the process and all its children
    unwatch(source);
    source.pipe.reset();
  }
  return 0;
}

// A process that writes a message waits until the pipes have taken what it wrote before. What comes
// while we read belongs to nobody's end, and may be a flood.
void WorkerProcess::drain(std::vector<wire::OutputLine>& lines) {
  drained_at_ = received_bytes();
  if (!io::is_any_readable(out_.pipe.get(), err_.pipe.get())) return;
  for (Source* source : {&out_, &err_}) {
    std::size_t left = io::readable_bytes(source->pipe.get());
    while (left > 0) {
      const std::size_t count = read(*source, lines, left);
      if (count == 0) break;
      left -= count;
    }
  }
}

void WorkerProcess::tell(std::vector<wire::OutputLine> lines) {
  if (!lines.empty()) events_.on_output(std::move(lines));
}

void WorkerProcess::tell_bars_later() {
  const Time due = std::min(out_.splitter.due(), err_.splitter.due());
  if (due == kNever || bar_timer_ != 0 || ended_) return;
  bar_timer_ = loop_.start_timer(due, [this] {
    bar_timer_ = 0;
    std::vector<wire::OutputLine> lines;
    for (Source* source : {&out_, &err_}) source->splitter.tick(read_now(), lines);
    tell_bars_later();
    tell(std::move(lines));
  });
}

void WorkerProcess::receive(io::Incoming incoming) {
  const SharedBytes whole(std::move(incoming.head));
  auto message =
      wire::decode_worker_message({whole.owner, whole.view.subspan(wire::kWorkerPrefixBytes)},
                                  wire::received_blobs(std::move(incoming.descriptors)));
  if (!message) return events_.on_broken(message.error().message);
  if (message->kind == wire::WorkerKind::hello) {
    if (std::exchange(greeted_, true)) return events_.on_broken("it greeted twice");
    uses_ring_ = ring_->is_announced();
    return events_.on_hello(message->text);
  }
  const bool is_answer = message->kind == wire::WorkerKind::result ||
                         message->kind == wire::WorkerKind::item ||
                         message->kind == wire::WorkerKind::outcome;
  if (!greeted_ || (!is_answer && message->kind != wire::WorkerKind::elsewhere))
    return events_.on_broken("it sent a message out of order");
  if (message->kind == wire::WorkerKind::item && groups_.contains(message->task))
    return give_up("it sent an item of a group");
  if (!uses_ring_ && is_answer) return deliver(*std::move(message));
  if (is_answer) aside_.push_back(*std::move(message));
  take_answers();
  // The place is written before the message is sent.
  if (!broken_ && !looks_again_ && !aside_.empty())
    give_up("it sent an answer that has no place in its ring");
}

// A sound process cannot fill the ring again while it is emptied: it has no more tasks.
void WorkerProcess::take_answers() {
  for (int looks = 0; uses_ring_ && !broken_;) {
    if (answers_.empty()) {
      if (looks++ == kMaxLooks) return look_again();
      auto taken = ring_->take();
      if (!taken) return give_up(taken.error().message);
      answers_ = *std::move(taken);
      ring_bytes_ += answers_.size();
      if (answers_.empty()) return deliver_collected();
    }
    const bool has_length = answers_.size() >= wire::kWorkerPrefixBytes;
    const auto length = has_length ? wire::load<std::uint32_t>(answers_.view.data()) : 0;
    if (!has_length || length > answers_.size() - wire::kWorkerPrefixBytes)
      return give_up("its ring holds a message that is cut off");
    if (const auto outcome =
            wire::ring_outcome(answers_.view.first(wire::kWorkerPrefixBytes + length))) {
      if (!collect(outcome->task, outcome->value))
        return give_up("it sent an outcome of a group that it did not receive");
      answers_.view = answers_.view.subspan(wire::kWorkerPrefixBytes + length);
      continue;
    }
    auto message = wire::decode_worker_message(
        {answers_.owner, answers_.view.subspan(wire::kWorkerPrefixBytes, length)}, {});
    if (!message) return give_up(message.error().message);
    if (message->kind == wire::WorkerKind::elsewhere) {
      if (aside_.empty()) return deliver_collected();  // it is on its way
      *message = std::move(aside_.front());
      aside_.pop_front();
    }
    answers_.view = answers_.view.subspan(wire::kWorkerPrefixBytes + length);
    if (message->kind == wire::WorkerKind::item && groups_.contains(message->task))
      return give_up("it sent an item of a group");
    if (message->kind != wire::WorkerKind::result && message->kind != wire::WorkerKind::item)
      return give_up("its ring holds a message that is not an answer");
    deliver(*std::move(message));
  }
}

void WorkerProcess::look_again() {
  if (std::exchange(looks_again_, true)) return;
  loop_.post([weak = std::weak_ptr(self_)] {
    const auto self = weak.lock();
    if (!self) return;
    (*self)->looks_again_ = false;
    (*self)->take_answers();
  });
}

void WorkerProcess::give_up(const std::string& reason) {
  broken_ = true;
  deliver_collected();
  events_.on_broken(reason);
}

bool WorkerProcess::collect(TaskId group, ByteView result) {
  const auto found = groups_.find(group);
  if (found == groups_.end() || found->second.left < 2) return false;  // the last one is no outcome
  --found->second.left;
  if (collected_for_ != group || collected_.size() > kReadBytes) deliver_collected();
  collected_for_ = group;
  collected_.add(result);
  return true;
}

void WorkerProcess::withdraw(TaskId group, std::uint32_t calls) {
  const auto found = groups_.find(group);
  if (found == groups_.end()) return;
  // A task may write to the memory that says how many.
  calls = std::min(calls, found->second.left - 1);
  if (calls == 0) return;
  found->second.left -= calls;
  if (collected_for_ != group) deliver_collected();
  collected_for_ = group;
  collected_.withdraw(calls);
}

void WorkerProcess::deliver_collected() {
  for (const auto& [group, calls] : std::exchange(withdrawn_, {})) withdraw(group, calls);
  if (collected_.empty()) return;
  wire::WorkerMessage message;
  message.kind = wire::WorkerKind::item;
  message.task = collected_for_;
  message.payload = collected_.take();
  deliver(std::move(message));
}

void WorkerProcess::deliver_collected_later() {
  if (std::exchange(delivers_later_, true)) return;
  loop_.post([weak = std::weak_ptr(self_)] {
    const auto self = weak.lock();
    if (!self) return;
    (*self)->delivers_later_ = false;
    if (!(*self)->ended_) (*self)->deliver_collected();
  });
}

void WorkerProcess::deliver(wire::WorkerMessage message) {
  if (message.kind == wire::WorkerKind::outcome) {  // of a worker that has no ring
    if (!collect(message.task, message.value.view))
      return give_up("it sent an outcome of a group that it did not receive");
    return deliver_collected_later();
  }
  std::vector<wire::OutputLine> lines;
  // The engine, which lags behind, gives only so many tasks without a result: what their ends take
  // out of the pipes is bounded. Items are not.
  const bool is_result = message.kind == wire::WorkerKind::result;
  // Once for all messages that one read has brought.
  if ((is_result || !paused_) && drained_at_ != received_bytes()) drain(lines);
  if (is_result) {
    // None of the calls behind the one that has ended a group will run. A group that is returned as
    // a whole has not begun.
    const auto group = groups_.find(message.task);
    if (group != groups_.end() && message.status != wire::WorkerStatus::cancelled)
      withdraw(message.task, group->second.left - 1);
    deliver_collected();
    if (unanswered_ > 0) --unanswered_;
    streams_.erase(message.task);
    groups_.erase(message.task);
    out_.splitter.end(message.task, read_now(), lines);
    err_.splitter.end(message.task, read_now(), lines);
  }
  tell(std::move(lines));
  events_.on_message(std::move(message));
}

void WorkerProcess::lose_channel(const Error& error) {
  if (ended_) return;
  if (error.kind == ErrorKind::invalid) return events_.on_broken(error.message);
  // Mostly the process has just ended, and that says more.
  lost_timer_ = loop_.start_timer(io::EventLoop::now() + kExitGrace, [this] {
    lost_timer_ = 0;
    events_.on_broken("it closed its connection to the agent");
  });
}

void WorkerProcess::end(const io::ExitStatus& status) {
  channel_->read_now();  // results that it sent before its end
  take_answers();
  deliver_collected();
  loop_.cancel_timer(std::exchange(look_timer_, 0));
  loop_.cancel_timer(std::exchange(notify_timer_, 0));
  loop_.cancel_timer(std::exchange(bar_timer_, 0));
  ended_ = true;
  channel_->close();
  process_->kill_group();  // what it started must not outlive it
  std::vector<wire::OutputLine> lines;
  drain(lines);
  out_.splitter.finish(read_now(), lines);
  err_.splitter.finish(read_now(), lines);
  tell(std::move(lines));
  unwatch(out_);
  unwatch(err_);
  events_.on_exit(status, ring_->begun());
}

}  // namespace skyward::agent
