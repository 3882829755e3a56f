#pragma once

// Does what the core decides: one thread with an event loop, the links to the agents, the
// provider's verbs on threads of their own. Calls from the face arrive in one inbox; answers leave
// through Caller.

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "skyward/base/turn.h"
#include "skyward/engine/core.h"
#include "skyward/engine/effects.h"
#include "skyward/engine/link.h"
#include "skyward/engine/loop_verbs.h"
#include "skyward/engine/lost_agents.h"
#include "skyward/io/deadline_timer.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/provider.h"
#include "skyward/spec/node_shell.h"

namespace skyward::engine {

// The face's side. All calls come on the loop thread and must not block.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void complete(TaskId task, wire::Outcome outcome) = 0;
  // Whether the next task is likely to come at once, if the engine's thread stays awake for it.
  virtual bool may_linger() const { return false; }
  virtual void deliver_item(TaskId task, wire::Payload item) = 0;
  virtual void retain_blob(const wire::Blob& blob) = 0;
  // Whether there is memory that is kept for the next large call.
  virtual bool keeps_memory() const { return false; }
  // Drops what no call has used since the last time. On another thread; may take a while.
  virtual void drop_unused_memory() {}
  virtual void emit(Event event) = 0;
  // The lines of one message of an agent. There may be millions of them, and thousands at once.
  virtual void emit_lines(std::vector<Event> lines) {
    for (Event& line : lines) emit(std::move(line));
  }
  virtual void opened(Status status) = 0;
  virtual void closed(Status left) = 0;
};

class EngineLoop final : private EngineEffects {
 public:
  // `caller` must outlive the loop.
  EngineLoop(PoolSpec spec, Options options, std::unique_ptr<provider::Provider> provider,
             Caller& caller);
  // The pool must be closed or never opened. Joins the thread.
  ~EngineLoop() override;
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // The pool's clock.
  static Time now() { return io::EventLoop::now(); }
  static std::int64_t wall_us() { return io::EventLoop::wall_us(); }
  // 8 hex digits.
  static std::string new_job_id();
  // 64 hex digits.
  static std::string new_secret();
  // CPUs that this process may keep busy: those that it may run on, or what a quota leaves of them.
  static int usable_cpus();
  static int current_core();
  // Memory that this process may use, in bytes.
  static std::uint64_t usable_memory();
  // Makes sure that this process may open the files that the links to so many nodes need.
  static Status allow_links(int nodes);

  // Whether the calling thread is this loop's.
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

  // Whether the pool's timeout has ended it. On this loop's thread.
  bool has_expired() const { return state_.expired; }

  // These may be called from any thread.
  void open();
  void close();
  // Shortens the close in progress to what is safe. Does nothing if none is in progress, or it has
  // only just begun.
  void hurry();
  // Tasks from `first` on, one for each call.
  void submit(TaskId first, std::vector<wire::Call> calls);
  void cancel(TaskId task);
  void item_taken(TaskId task, std::uint32_t count);
  void keep_blob(BlobId blob, bool keep);
  // The loop answers at once, even when it is about to end.
  std::future<PoolCost> cost();
  // How the node's present machine is reached. The loop answers at once, as above.
  std::future<NodeShell> shell_of(NodeId node);
  // Of the nodes that are ready, what the smallest may use, in bytes; 0 if none is. As above.
  std::future<std::uint64_t> least_memory();

 private:
  // EngineEffects.
  void list_offers() override;
  void prepare(const Offer& offer) override;
  void provision(int count, NodeId first_node) override;
  void terminate(std::vector<InstanceId> instances) override;
  void teardown() override;
  void stop_launching() override;
  void ask_charges(std::vector<InstanceId> instances) override;
  void connect(NodeId node, const Instance& instance) override;
  void disconnect(NodeId node) override;
  void send(NodeId node, wire::Message message) override;
  void complete(TaskId task, wire::Outcome outcome) override;
  void deliver_item(TaskId task, wire::Payload item) override;
  void retain_blob(const wire::Blob& blob) override;
  void emit(Event event) override;
  void opened(Status status) override;
  void closed(Status left) override;

  // What `find` finds on the loop thread.
  template <typename Find>
  auto ask_loop(Find find) -> std::future<decltype(find())>;
  // Runs `step` on the core with the present time, then updates the timer.
  template <typename Step>
  void turn(Step step);
  void emit_lines();
  // Of many tasks, when the last one is done.
  void return_memory_later();
  void drop_unused_memory_later();
  // Provider::tend(), again and again until the teardown ...
  void tend_later();
  void tend();
  // ... and when a node is out of reach, unless it did so within `pause`.
  void tend_connections(Duration pause);
  // For the next task, if that comes at once.
  void stay_awake();
  void tell_closed_when_quiet();

  // `verb` on a thread of its own, `answer` on the loop.
  using Queue = void (Verbs::*)(Verbs::Step call, Verbs::Step answer);
  template <typename Verb, typename Answer>
  void ask_provider(Verb verb, Answer answer, Queue add = &Verbs::add);

  void tell_unreached(NodeId node, const Instance& instance, bool stands, Error why);
  void tell_trouble(NodeId node, const Instance& instance, const std::string& why);
  void drop_link(NodeId node, Duration grace);
  void link_gone(EngineLink* link);

  io::EventLoop loop_;
  Caller& caller_;
  std::unique_ptr<provider::Provider> provider_;
  EngineState state_;
  Turns turn_;                // of state_
  std::vector<Event> lines_;  // of the turn
  bool had_many_tasks_ = false;
  bool drops_memory_ = false;  // before long
  bool completed_ = false;     // some task of the turn
  bool tends_later_ = false;   // a timer runs
  bool tends_ = false;         // a verb waits or runs
  bool tend_failed_ = false;   // the last time
  Time connections_tended_at_{};
  std::shared_ptr<const Cluster> cluster_;  // shared with the running verb
  const std::string token_;                 // proves to the agents that this engine is theirs
  std::unordered_map<NodeId, std::uint32_t> lives_;  // machines that each node has had
  LostAgents lost_agents_;
  std::unordered_map<NodeId, std::unique_ptr<EngineLink>> links_;
  std::vector<std::unique_ptr<EngineLink>> ending_;
  Verbs verbs_{loop_, [this] { tell_closed_when_quiet(); }};
  std::optional<Status> closed_;  // decided, but not reported yet
  bool hurried_ = false;
  io::DeadlineTimer timer_;
  std::thread thread_;
};

}  // namespace skyward::engine
