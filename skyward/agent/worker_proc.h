#pragma once

// One worker process: its socket, its cancel pipe, its output, its exit. Splits the output into
// lines of tasks, and delivers a result only after the output that was written before it.
// Everything runs on the loop thread.
//
// A process with many tasks in hand is in a *burst*: waking this loop for each of its answers would
// cost more than the tasks. Its socket and pipes are not watched then, but looked into, whenever it
// rings its bell and by a timer (worker_protocol.h, Bursts).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "skyward/agent/effects.h"
#include "skyward/agent/output.h"
#include "skyward/base/error.h"
#include "skyward/io/channel.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/process.h"
#include "skyward/io/shared_memory.h"
#include "skyward/wire/answer_ring.h"
#include "skyward/wire/group.h"
#include "skyward/wire/message.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::agent {

class WorkerProcess {
 public:
  struct Options {
    std::vector<std::string> command;
    wire::KeyValues environment;
    std::string directory;
    std::uint32_t worker = 0;       // for the lines
    bool outlasts_signals = false;  // SIGTERM and SIGHUP do not end it
  };
  // Never called from inside a public method.
  struct Events {
    std::function<void(const std::string& greeting)> on_hello;
    std::function<void(wire::WorkerMessage)> on_message;  // a result or an item
    std::function<void(std::vector<wire::OutputLine>)> on_output;
    // The process broke the protocol, or still runs without its connection: kill it.
    std::function<void(std::string reason)> on_broken;
    // The last call, after all messages and output. `begun`: the last task that the process began.
    std::function<void(const io::ExitStatus&, TaskId begun)> on_exit;
  };
  static Result<std::unique_ptr<WorkerProcess>> start(io::EventLoop& loop, const Options& options,
                                                      Events events);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  // Returns what the process has written before the task, which has not been told. All tasks of one
  // turn of the loop leave together.
  [[nodiscard]] std::vector<wire::OutputLine> run(const WorkerRun& run);
  void credit(TaskId task, std::uint32_t count);
  // See AgentEffects.
  std::optional<std::uint32_t> take_rest(TaskId group);
  void drop(FunctionId function);
  void tell_instance_info(std::string compute_pool);
  void stop();
  // Writes the id to the cancel pipe and sends SIGINT, or SIGURG if the task has not begun.
  void interrupt(TaskId task);
  // Writes the words to the cancel pipe and sends SIGURG, which nobody else uses.
  void notify(std::span<const std::uint64_t> words);
  void kill();
  // While paused, the process blocks when its pipes are full. Items may overtake lines; results
  // never do.
  void pause_output(bool paused);

 private:
  struct Source {
    io::FileDescriptor pipe;
    OutputSplitter splitter;
    bool watched = false;
  };

  WorkerProcess(io::EventLoop& loop, std::uint32_t worker, const OutputMark& mark, Events events);
  Status spawn(const Options& options, const std::string& mark_text);
  void watch(Source& source);
  void unwatch(Source& source);
  // Reads once, at most `limit` bytes; 0 if nothing is there now.
  std::size_t read(Source& source, std::vector<wire::OutputLine>& lines, std::size_t limit);
  // Reads what is in the pipes now.
  void drain(std::vector<wire::OutputLine>& lines);
  void tell(std::vector<wire::OutputLine> lines);
  // Of progress bars that do not move any more.
  void tell_bars_later();
  void receive(io::Incoming incoming);
  // Delivers what is in the ring, and what came through the socket where the ring says so.
  void take_answers();
  void deliver(wire::WorkerMessage message);
  // A result within a group. False if the process has no such group.
  bool collect(TaskId group, ByteView result);
  void withdraw(TaskId group, std::uint32_t calls);
  void deliver_collected();
  void deliver_collected_later();
  void look_again();
  // The ring holds what no sound process writes.
  void give_up(const std::string& reason);
  std::uint64_t received_bytes() const { return channel_->received_bytes() + ring_bytes_; }
  void send_runs();
  void begin_burst();
  void end_burst();
  // Takes what the process has answered and written, during a burst.
  void look();
  void look_later();
  void answer_bell();
  void write_words(std::span<const std::uint64_t> words);
  void notify_again_after(Duration pause);
  void lose_channel(const Error& error);
  void end(const io::ExitStatus& status);

  io::EventLoop& loop_;
  Events events_;
  Source out_;
  Source err_;
  io::FileDescriptor cancel_;
  io::FileDescriptor bell_;
  std::unique_ptr<io::Channel> channel_;
  std::unique_ptr<io::Process> process_;
  io::EventLoop::TimerId lost_timer_ = 0;
  io::EventLoop::TimerId bar_timer_ = 0;
  io::EventLoop::TimerId notify_timer_ = 0;   // set while words may wait in the cancel pipe
  std::shared_ptr<io::SharedMemory> shared_;  // with the process
  std::optional<wire::AnswerReader> ring_;    // in it
  bool uses_ring_ = false;
  bool looks_again_ = false;               // at the ring, in the next turn
  bool broken_ = false;                    // what else is in the ring means nothing
  std::uint64_t ring_bytes_ = 0;           // that were ever in the ring
  SharedBytes answers_;                    // from the ring, not delivered yet
  std::deque<wire::WorkerMessage> aside_;  // from the socket; their places in the ring are ahead
  std::vector<wire::WorkerMessage> runs_;  // of this turn
  std::size_t unanswered_ = 0;             // tasks, those in runs_ included
  std::unordered_set<TaskId> streams_;     // ... those that send items
  struct Group {
    std::uint32_t calls = 0;
    std::uint32_t left = 0;  // neither answered nor withdrawn
  };
  std::unordered_map<TaskId, Group> groups_;  // ... groups
  TaskId collected_for_;                      // the group that `collected_` is of
  wire::GroupItemWriter collected_;
  std::vector<std::pair<TaskId, std::uint32_t>> withdrawn_;  // not in `collected_` yet
  bool delivers_later_ = false;
  io::EventLoop::TimerId look_timer_ = 0;  // set during a burst
  bool bursts_on_ = false;                 // many tasks were in hand since the last timed look
  std::uint64_t drained_at_ = 0;           // received_bytes() when the pipes were read
  bool paused_ = false;
  bool greeted_ = false;
  bool ended_ = false;
  std::shared_ptr<WorkerProcess*> self_ = std::make_shared<WorkerProcess*>(this);  // for post()
};

}  // namespace skyward::agent
