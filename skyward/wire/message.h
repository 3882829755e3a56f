#pragma once

// Everything engine and agent say to each other: to_agent.h, to_engine.h, and here what both say.
// Plain values: the cores make and read
// these; wire/codec.h turns them into frames (a FlatBuffers header from message.fbs, then raw
// buffers) and back.
//
// Every message is delivered exactly once and in order for as long as the agent lives, whatever
// happens to the connection: wire/session.h numbers, acknowledges and re-sends.

#include <cstdint>
#include <variant>

#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"
#include "skyward/wire/to_agent.h"
#include "skyward/wire/to_engine.h"

namespace skyward::wire {

// A part of a blob, on a connection that carries no descriptors. The parts of one blob come in
// order, those of others and all other messages may come between; `size` is that of the whole. The
// message that uses the blob follows its last part. Both ways: arguments, results.
struct BlobChunk {
  BlobId blob;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  SharedBytes bytes;
  ContentId content{};  // of the whole; zeros: not known
  bool operator==(const BlobChunk&) const = default;
};

// Proof of life; also carries the acknowledgement when nothing else does.
struct Heartbeat {
  bool operator==(const Heartbeat&) const = default;
};

using Message =
    std::variant<Hello, Configure, RunTask, CancelTask, RecallTasks, StreamCredit, DropBlobs,
                 Shutdown,  //
                 Welcome, BootstrapStep, Ready, Failed, TaskResult, StreamItem, Output, Recalled,
                 MetricsSample, Farewell,  //
                 BlobChunk, Heartbeat, Preempted, FetchBlob, BlobFetched, DropFunctions>;

}  // namespace skyward::wire
