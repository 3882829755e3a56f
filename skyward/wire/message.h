#pragma once

// All messages between engine and agent: to_agent.h, to_engine.h, and here those of both. Plain
// values: the cores make and read them; wire/codec.h turns them into frames (a FlatBuffers header
// from message.fbs, then raw buffers) and back.
//
// Every message is delivered exactly once and in order for as long as the agent lives, whatever
// happens to the connection: wire/session.h numbers, acknowledges and resends.

#include <cstdint>
#include <variant>

#include "skyward/spec/id.h"
#include "skyward/wire/batch.h"
#include "skyward/wire/payload.h"
#include "skyward/wire/to_agent.h"
#include "skyward/wire/to_engine.h"

namespace skyward::wire {

// A part of a blob, on a connection that carries no descriptors. The parts of one blob arrive in
// order; other messages may arrive in between. `size` is that of the whole blob. The message that
// uses the blob follows its last part. In both directions: arguments, results.
struct BlobChunk {
  BlobId blob;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  SharedBytes bytes;
  ContentId content{};  // of the whole; zeros: not known
  bool operator==(const BlobChunk&) const = default;
};

// Shows that the sender is alive; carries the acknowledgement if nothing else does.
struct Heartbeat {
  bool operator==(const Heartbeat&) const = default;
};

using Message =
    std::variant<Hello, Configure, RunTask, CancelTask, RecallTasks, StreamCredit, DropBlobs,
                 Shutdown,  //
                 Welcome, BootstrapStep, Ready, Failed, TaskResult, StreamItem, Output, Recalled,
                 MetricsSample, Farewell,  //
                 BlobChunk, Heartbeat, Preempted, FetchBlob, BlobFetched, DropFunctions, RunTasks,
                 TaskResults, PeerMoved, EndAhead>;

// Calls `visit` with each buffer of the message that is in a blob.
template <typename AnyMessage, typename Visit>
void for_each_blob_buffer(AnyMessage& message, Visit visit) {
  const auto each = [&](auto& payload) {
    for (auto& buffer : payload.buffers) {
      if (buffer.in_blob()) visit(buffer);
    }
  };
  if (auto* run = std::get_if<RunTask>(&message)) {
    if (run->body.in_blob()) visit(run->body);
    each(run->arguments);
  } else if (auto* result = std::get_if<TaskResult>(&message)) {
    each(result->payload);
  } else if (auto* item = std::get_if<StreamItem>(&message)) {
    each(item->payload);
  }
}

}  // namespace skyward::wire
