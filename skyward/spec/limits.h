#pragma once

// Every bound of the system, each with its reason. Nothing waits without a deadline and nothing
// grows without a limit; the numbers live here so that they can be read, and related, in one place.

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "skyward/base/time.h"

namespace skyward {

using namespace std::chrono_literals;

// Wire.
inline constexpr std::uint32_t kProtocolVersion = 1;
inline constexpr std::size_t kMaxFrameHeaderBytes = std::size_t{16}
                                                    << 20;  // a RunTask header is < 1 KiB
inline constexpr std::size_t kMaxFrameBodyBytes = std::size_t{64} << 20;  // larger goes by blob
inline constexpr std::size_t kMaxFrameDescriptors = 64;  // kernel limit: 253 a message
inline constexpr std::uint32_t kMaxBuffers = 65536;      // buffers of one payload
// Bytes that one side keeps for re-sending to a peer that does not acknowledge.
inline constexpr std::size_t kMaxUnacknowledgedFrames = 65536;
inline constexpr std::uint32_t kAcknowledgeEvery =
    64;  // frames; an acknowledgement of its own after that

// Payloads. Below this, bytes travel inside the frame; from here on they are stored once and
// shared.
inline constexpr std::size_t kBlobThresholdBytes = std::size_t{64} << 10;

// Tasks.
inline constexpr std::uint32_t kMaxAttempts = 4;  // a task survives three lost nodes
inline constexpr std::uint32_t kMaxPrefetchPerSlot =
    64;                                                // tasks waiting at a node beyond its slots
inline constexpr Duration kPrefetchWork = 4ms;         // ... as much as this time's worth of work
inline constexpr std::uint32_t kMaxWorkerWindow = 16;  // tasks inside one worker process at a time
inline constexpr Duration kWorkerWindowWork = 1ms;     // ... as much as this time's worth of work
inline constexpr std::uint32_t kStreamWindow = 16;  // items a generator may be ahead of its reader
inline constexpr Duration kCancelGrace = 2s;        // SIGINT, then this long, then SIGKILL
inline constexpr Duration kCancelBackstop = 10s;    // engine gives up waiting for the agent's word

// Nodes.
inline constexpr int kMaxNodes = 10000;       // one pool's table of nodes stays small
inline constexpr int kMaxConcurrency = 1024;  // slots per worker, each a process
inline constexpr Duration kHeartbeatInterval = 1s;
inline constexpr Duration kHeartbeatTimeout = 10s;  // silence after which a node counts as lost
inline constexpr Duration kMetricsInterval = 2s;
inline constexpr Duration kProvisionTimeout = 300s;
inline constexpr Duration kGreetTimeout = 30s;  // connect to Welcome
inline constexpr Duration kBootstrapTimeout = 600s;
inline constexpr Duration kWorkerStartTimeout = 60s;  // spawn to its greeting; cold disks are slow
inline constexpr std::uint32_t kMaxWorkerStartFailures =
    3;                                                    // in a row, before the node is given up
inline constexpr std::uint32_t kMaxNodeReplacements = 3;  // per rank
inline constexpr Duration kReconnectTimeout =
    30s;                                        // an agent whose link dropped is awaited this long
inline constexpr Duration kCloseTimeout = 10s;  // Shutdown to the end of the agent, then SIGKILL

// Memory of the driver.
inline constexpr std::size_t kArenaKeepBytes = std::size_t{4} << 30;   // idle segments kept for the next big argument
inline constexpr std::size_t kMaxPendingEvents = std::size_t{1} << 20; // events that nobody has taken yet

// Output.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64}
                                             << 10;   // a longer line is cut into pieces
inline constexpr std::size_t kTailLines = 20;         // last lines shown with an error
inline constexpr Duration kProgressInterval = 500ms;  // a '\r' progress bar speaks this often

static_assert(kHeartbeatTimeout >= 3 * kHeartbeatInterval, "one lost heartbeat is not a lost node");
static_assert(kBlobThresholdBytes < kMaxFrameBodyBytes);
static_assert(kCancelBackstop > 2 * kCancelGrace, "the agent must have its chance to answer");

}  // namespace skyward
