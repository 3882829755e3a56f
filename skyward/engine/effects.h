#pragma once

// Everything that the engine's core may ask for. The loop does it with providers, connections and
// callers, the simulator does it in virtual time, tests record it. No call answers at once: answers
// arrive as on_* events of core.h.

#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/event.h"
#include "skyward/spec/id.h"
#include "skyward/spec/offer.h"
#include "skyward/wire/call.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineEffects {
 public:
  virtual ~EngineEffects() = default;

  // The provider's verbs, answered by on_offers, on_prepared, on_provisioned, on_terminated,
  // on_torn_down. The loop runs them one after another, each with a deadline of its own, and always
  // answers.
  virtual void list_offers() = 0;
  virtual void prepare(const Offer& offer) = 0;
  virtual void provision(int count, NodeId first_node) = 0;
  virtual void terminate(std::vector<InstanceId> instances) = 0;
  virtual void teardown() = 0;
  // No more machines are wanted: a launch in progress ends soon. No answer.
  virtual void stop_launching() = 0;
  // Asks the cloud what it charges for them: answered by on_charges, in its turn.
  virtual void ask_charges(std::vector<InstanceId> instances) = 0;

  // Connects to a node's agent and greets it: answered by on_joined or on_node_lost.
  virtual void connect(NodeId node, const Instance& instance) = 0;
  // Ends the connection, and the agent behind it if it is our child. No answer.
  virtual void disconnect(NodeId node) = 0;
  virtual void send(NodeId node, wire::Message message) = 0;

  // To the caller of a task: complete() once, at its end; deliver_item() before that for each item
  // of a stream.
  virtual void complete(TaskId task, wire::Outcome outcome) = 0;
  virtual void deliver_item(TaskId task, wire::Payload item) = 0;
  // A receiver may still have this blob mapped: its memory must never be written again.
  virtual void retain_blob(const wire::Blob& blob) = 0;

  virtual void emit(Event event) = 0;
  // Answers on_open: ready, or what went wrong, after everything was released.
  virtual void opened(Status status) = 0;
  // Answers on_close: nothing of the pool is left, or which machines may be left. Follows opened()
  // if opening failed.
  virtual void closed(Status left) = 0;
};

}  // namespace skyward::engine
