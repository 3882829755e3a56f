#pragma once

// The limits and timeouts of the product, each with its reason; link_limits.h has those of
// connections. Nothing waits without a deadline and nothing grows without a limit. The numbers are
// here so that they can be read, and related, in one place. A room keeps what only it can judge:
// the sizes of its buffers, the facts of one cloud.

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "skyward/base/time.h"

namespace skyward {

using namespace std::chrono_literals;

// ---- Wire

inline constexpr std::uint32_t kProtocolVersion = 6;
// A RunTask header is < 1 KiB; this is room for long tables of buffers.
inline constexpr std::size_t kMaxFrameHeaderBytes = std::size_t{16} << 20;
// Larger goes by blob.
inline constexpr std::size_t kMaxFrameBodyBytes = std::size_t{64} << 20;
// The kernel's limit is 253 a message.
inline constexpr std::size_t kMaxFrameDescriptors = 64;
// Buffers of one payload.
inline constexpr std::uint32_t kMaxBuffers = 65536;
// Frames kept for a peer that does not acknowledge; with more it counts as lost.
inline constexpr std::size_t kMaxUnacknowledgedFrames = 65536;
// Frames after which an acknowledgement is sent even when nothing else is.
inline constexpr std::uint32_t kAcknowledgeEvery = 64;

// ---- Payloads

// Below this, bytes travel inside the frame; from here on they are stored once and shared.
inline constexpr std::size_t kBlobThresholdBytes = std::size_t{64} << 10;
// Parts in which they go where memory cannot be passed on: what a heartbeat may have to wait for.
inline constexpr std::size_t kBlobChunkBytes = std::size_t{256} << 10;
// Blobs without a task that a node keeps for the next one: at most this, and a quarter of its
// memory.
inline constexpr std::uint64_t kMaxKeptBlobBytes = std::uint64_t{16} << 30;
// ... and so many: each is a descriptor there, and some systems allow a process 1024.
inline constexpr std::size_t kMaxKeptBlobs = 512;
// Bodies of functions that a node keeps, beside those that its tasks need.
inline constexpr std::uint64_t kMaxKeptFunctionBytes = std::uint64_t{256} << 20;
// A function's body is written to each worker process in one piece.
inline constexpr std::uint64_t kMaxFunctionBytes = std::uint64_t{2} << 30;

// ---- Tasks

// A task survives three lost nodes.
inline constexpr std::uint32_t kMaxAttempts = 4;
// Tasks may wait at a node beyond its slots: at most so many, and no more than so much work.
inline constexpr std::uint32_t kMaxPrefetchPerSlot = 256;
inline constexpr Duration kPrefetchWork = 4ms;
// In all, with those that are bound to it: more frames than for these never wait for their
// acknowledgement at once.
inline constexpr std::uint32_t kMaxTasksGiven = 8192;
// The same inside one worker process.
inline constexpr std::uint32_t kMaxWorkerWindow = 64;
inline constexpr Duration kWorkerWindowWork = 1ms;
// When others have waited this long in the window behind a running task, they are withdrawn and go
// to other slots.
inline constexpr Duration kWindowPatience = 20ms;
// The same within a group of calls (wire/group.h).
inline constexpr Duration kGroupPatience = 1ms;
// A task goes to another worker process when one has exited without reading it. After this many, it
// fails.
inline constexpr std::uint32_t kMaxUnreadTries = 5;
// SIGINT, then this long, then SIGKILL.
inline constexpr Duration kCancelGrace = 2s;
// The engine gives up waiting for the agent's word.
inline constexpr Duration kCancelBackstop = 10s;

// Callers of functions that take less time than this spin.
inline constexpr Duration kQuick = 300us;
// How long a caller spins before it sleeps. If the agent or the worker is waiting for the core that
// the caller occupies, the kernel moves one of them within a few milliseconds of spinning, but
// never if the caller sleeps instead.
inline constexpr Duration kLongestSpin = 2ms;
// After its last answer the engine spins this long for the next call: longer than a program takes
// between two calls of a loop.
inline constexpr Duration kAwakeForNext = 50us;

// ---- Nodes

// One pool's table of nodes stays small; each slot is a process.
inline constexpr int kMaxNodes = 10000;
inline constexpr int kMaxConcurrency = 1024;
// Nodes of a larger pool are not told of each other one by one: the list goes into an environment
// variable, which Linux keeps below 128 KiB, and is as long for each node as there are nodes.
inline constexpr std::size_t kMaxPeersTold = 1024;
inline constexpr Duration kMetricsInterval = 2s;
inline constexpr Duration kProvisionTimeout = 300s;
// Regions in which a pool's machines are looked for when the first ones have none: each takes as
// long as the pool's Spot says.
inline constexpr std::size_t kMaxPlacesTried = 4;
// When several providers are compared, all are asked for their offers at the same time. One that
// does not answer within this time is left out.
inline constexpr Duration kCompareTimeout = 60s;
inline constexpr Duration kBootstrapTimeout = 600s;
// From the start of a worker process to its greeting: cold disks are slow.
inline constexpr Duration kWorkerStartTimeout = 60s;
// Worker processes that start at the same time on a small machine. A larger one starts more.
inline constexpr std::uint32_t kMinConcurrentStarts = 8;
// A process that takes longer than this to start waits for a disk or a network, not for the CPU:
// the next one may start beside it.
inline constexpr Duration kStartPermitTimeout = 2s;
// Worker processes of a slot that end in a row before they have begun a task. Then the node fails,
// if it is starting, else the tasks that wait for the slot.
inline constexpr std::uint32_t kMaxWorkerStartFailures = 3;
// Before the next one starts; twice that before the third. A full disk or memory needs time.
inline constexpr Duration kWorkerStartPause = 250ms;
// For one node, in a row.
inline constexpr std::uint32_t kMaxNodeReplacements = 3;
// When a machine is lost that was ready for at least this long, the count starts again from zero.
inline constexpr Duration kSteadyTime = 600s;
// The pause before a replacement is requested again from a cloud that had no machine; it doubles
// each time. The last request is a quarter of an hour after the first.
inline constexpr Duration kRefusalPause = 15s;
inline constexpr int kMaxRefusals = 6;
// The same while the pool opens: its ready nodes cost money and do nothing.
inline constexpr int kMaxRefusalsAtOpening = 3;
// How long a pool may go on opening after its first loss.
inline constexpr Duration kOpeningWithLosses = 20min;
// After a replacement that failed, before the next one; twice that before the third. By then an
// sshd has restarted.
inline constexpr Duration kReplacementPause = 5s;
// After the end of the pool's lifetime, before agents end by themselves.
inline constexpr Duration kLifetimeGrace = 30s;
// Tasks are warned this long before the end of the lifetime.
inline constexpr Duration kEndWarning = 60s;
// One run of the command that terminates a machine from inside.
inline constexpr Duration kEndCommandTimeout = 60s;
// Give up waiting for an unkillable process after this time: it may hang on a silent file server.
inline constexpr Duration kKillTimeout = 2s;
// Volumes are let go at an agent's end. What was written goes to their stores first.
inline constexpr Duration kUnmountTimeout = 30s;
// Shutdown to the end of the agent, then SIGKILL. With volumes, kUnmountTimeout more.
inline constexpr Duration kCloseTimeout = 10s;

// A close that takes this long says what it waits for, and repeats it at the second interval.
inline constexpr Duration kTellWaitAfter = 1500ms;
inline constexpr Duration kTellWaitAgain = 10s;
// When the program ends, its pools close within this time, unless their clouds do not answer.
inline constexpr Duration kProgramEndTimeout = 60s;

// ---- Preemption

// Clouds end a machine at the announced time or a little later.
inline constexpr Duration kPreemptionGrace = 30s;
// No cloud announces it longer than some minutes before; a wrong clock may seem to.
inline constexpr std::uint64_t kMaxNoticeMs = 3'600'000;

// ---- Money

// A pool whose money runs out lets its tasks finish for so long at least, and for as long as they
// take on average.
inline constexpr Duration kBudgetDrain = 30s;
// From the decision to release the machines to the end of what they cost: agents end in order,
// then the cloud is asked, three times if it must be.
inline constexpr Duration kBudgetStop = kCloseTimeout + 30s;
// A verb of the provider that is under way delays that.
inline constexpr Duration kBudgetVerb = 10s;
// How often the rest is computed again: tasks become longer, prices change.
inline constexpr Duration kBudgetLook = 10s;
// A cloud that does not tell its bills in this time is asked later.
inline constexpr Duration kChargesTimeout = 20s;
// Costs are reported no more often than this.
inline constexpr Duration kCostUpdateInterval = 1s;

// ---- Memory of the driver

// Idle segments kept for the next big argument.
inline constexpr std::size_t kArenaKeepBytes = std::size_t{4} << 30;
// How often those go that no argument has used since.
inline constexpr Duration kIdleMemory = 10s;
// Unread events before output lines, metrics and events of tasks are dropped.
inline constexpr std::size_t kMaxPendingEventBytes = std::size_t{64} << 20;

// ---- Output

// A longer line is cut into pieces.
inline constexpr std::size_t kMaxLineBytes = std::size_t{64} << 10;
// Last lines that go with an error: what a crashed interpreter says of its threads is long, and
// what matters comes first.
inline constexpr std::size_t kTailLines = 100;
// A '\r' progress bar speaks this often.
inline constexpr Duration kProgressInterval = 500ms;

static_assert(kCloseTimeout >= kCancelGrace + 3 * kKillTimeout,
              "an agent stops its workers, kills them, and what they started");
static_assert(kBlobThresholdBytes < kMaxFrameBodyBytes);
static_assert(4ULL * kMaxTasksGiven < kMaxUnacknowledgedFrames,
              "a task's start, its cancellation and what is dropped behind it are a frame each");
static_assert(7 * kMaxConcurrency <= kMaxTasksGiven, "all slots of a divided device have a task");
static_assert(kCancelBackstop > 2 * kCancelGrace, "the agent must have its chance to answer");

}  // namespace skyward
