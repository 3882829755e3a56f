#pragma once

// Everything the engine's core may ask of the world. The loop does it (with providers, connections,
// callers), the simulator does it on virtual time, tests write it down. No call answers at once:
// answers come back as on_* events of core.h.

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
  // No machine is wanted any more: what is under way to get some ends soon. No answer.
  virtual void stop_buying() = 0;
  // What the cloud says of their bills: answered by on_charges, in its turn.
  virtual void ask_charges(std::vector<InstanceId> instances) = 0;

  // Makes the connection to a node's agent and greets it: answered by on_joined or on_node_lost.
  virtual void connect(NodeId node, const Instance& instance) = 0;
  // Ends the connection, and the agent behind it where it is our child. No answer.
  virtual void disconnect(NodeId node) = 0;
  virtual void send(NodeId node, wire::Message message) = 0;

  // To the caller of a task: once, at its end; and for each item of a stream before that.
  virtual void complete(TaskId task, wire::Outcome outcome) = 0;
  virtual void deliver_item(TaskId task, wire::Payload item) = 0;
  // Some receiver may still have this blob mapped: its memory must never be written again.
  virtual void retain_blob(const wire::Blob& blob) = 0;

  virtual void emit(Event event) = 0;
  // Answers on_open: ready, or what went wrong after everything was given back.
  virtual void opened(Status status) = 0;
  // Answers on_close: nothing of the pool is left, or which machines may be. Comes after opened()
  // when opening failed.
  virtual void closed(Status left) = 0;
};

}  // namespace skyward::engine
