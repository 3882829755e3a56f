#pragma once

// The protocol between an agent and one worker process, over a Unix stream socket at the worker's
// descriptor 3. A fixed little-endian layout, so that a worker needs nothing but its language's
// standard library: python/skyward/worker/ has the Python twin of this file,
// skyward/worker/worker.cc the C++ one.
//
//   every message   u32 length (of all that follows) | u8 kind | u8 status | u16 descriptors |
//                   u64 task | what its kind adds
//   a row           u64 size | u64 offset | u64 blob id | i32 index of a descriptor, -1: inline |
//                   u32 0; one for each buffer
//
//   agent → worker
//     run           (status bit 0: sent behind unfinished tasks, see Output; bit 1: ring, see
//                   Bursts; bit 2: group, see Groups)
//                   u8[16] function id | u32 body bytes (0: you have it) | u32 stream window |
//                   u32 buffers | rows | body | inline buffers back to back
//     credit        u32 count: the reader took so many items
//     stop          nothing: exit in order
//     drop          u8[16] function id: forget it; no run that is under way names it, and its body
//                   comes again with the next
//     instance info UTF-8 text: the value of COMPUTE_POOL from now on, as a node has got a new
//                   machine; tasks that run keep what they know
//   worker → agent
//     hello         UTF-8 text, "python 3.11.7", "c++": once, when it reads messages
//     result        u64 run ns | u32 buffers | u32 retained | rows | retained × u64 blob id |
//                   inline buffers back to back
//     item          the same as result: one item of a stream
//     elsewhere     nothing: see Answers
//     outcome       a serialized value, up to the end: see Groups
//
// The bytes of one message that are in no blob fit a frame (kMaxFrameBodyBytes), its buffers and
// descriptors likewise. A blob has one descriptor and one index, however many rows name it.
//
// Descriptors (memfds of blobs) travel by SCM_RIGHTS with the first byte of the message that counts
// them; an index picks one of them. A result's status is ok, raised or cancelled; each result is
// written before the next task starts, so the first task without a result is the one that runs. A
// run cancelled before it starts is answered with `cancelled`.
//
// To cancel, the agent writes the u64 task id to the pipe at the worker's descriptor 4 and then
// sends SIGINT: the handler raises only if that very task is running. Unstarted tasks named there
// are skipped. With kWorkerWithdrawBit set, the id means: return the task (`cancelled`) if it has
// not begun, best at once from within the handler; never interrupt it. With kWorkerNoticeBit
// set, the rest is no task but the milliseconds after which the machine is gone. Both come with
// SIGURG instead, which is repeated until the pipe has been read: SIGINT may have the handler of a
// function, which ends its work, or be ignored by system().
//
// Descriptor 5 is memory that agent and worker share (answer_ring.h). A worker writes the id of a
// task to its first 8 bytes when it begins to unpickle the arguments or to run the function. When
// the worker dies, this tells the agent which task had begun; the others go to another process.
//
// Answers: a worker may put its small results into the ring there, each as it would be sent. It
// says so (uses_ring) before it greets. Then all results and items have their place in the ring: in
// front of one that goes through the socket, because it is large, the worker writes `elsewhere`
// into the ring. The agent takes what came through the socket when it finds that. `sleeps` says
// whether the agent waits to be woken: then the worker writes a byte to the pipe at descriptor 6,
// the bell, after what it has written to the ring. If the bell is gone, it sends `elsewhere`
// through the socket.
//
// Bursts: while a worker has many tasks in hand, its agent neither waits for its socket nor for its
// pipes, but looks at them and the ring every half millisecond. Some runs ask the worker to ring
// the bell when they are answered, and the agent looks at once. Rings only save time: an agent that
// misses one finds the answer with its next look.
//
// Groups: a run may stand for several calls of its function, one after another (group.h). Its one
// buffer holds their arguments, its stream window says how many they are. The worker sends an
// outcome for each call that returned, but the last one: the result of the group is that of the
// call it ran last. That is the last one of all, or the first that did not return, or returned too
// much for an outcome; the worker begins none of those behind it. Nor does it begin those that the
// agent has taken from it (WorkerMemory::claims).
//
// A process that must not run another task (its device may be lost) ends with kWorkerLeavesCode
// after its answer. What was sent to it meanwhile is not to blame.
//
// Output: descriptors 1 and 2 are pipes to the agent. A task that was sent behind unfinished ones
// (run's status 1) begins with a mark: to both pipes the worker writes the 8 bytes of SKYWARD_MARK
// (hex in the environment), then the u64 id of the task whose output follows. Other tasks need no
// mark, as the agent empties the pipes of an idle worker before it hands out a task.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/base/outgoing.h"
#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

// In the environment of every C++ worker, so that sky::init knows what its process is.
inline constexpr const char* kWorkerVariable = "SKYWARD_WORKER";
inline constexpr int kWorkerSocket = 3;
inline constexpr int kWorkerCancelPipe = 4;
inline constexpr int kWorkerShared = 5;
inline constexpr int kWorkerBell = 6;
inline constexpr int kWorkerLeavesCode = 117;                                // its exit code
inline constexpr std::size_t kWorkerPrefixBytes = 4;                         // the length
inline constexpr std::size_t kWorkerMarkBytes = 16;                          // mark and task id
inline constexpr std::uint64_t kWorkerWithdrawBit = std::uint64_t{1} << 63;  // on the cancel pipe
inline constexpr std::uint64_t kWorkerNoticeBit = std::uint64_t{1} << 62;    // on the cancel pipe

enum class WorkerKind : std::uint8_t {
  run = 1,
  credit = 2,
  stop = 3,
  drop = 4,
  instance_info = 5,
  hello = 16,
  result = 17,
  item = 18,
  elsewhere = 19,
  outcome = 20
};
enum class WorkerStatus : std::uint8_t { ok = 0, raised = 1, cancelled = 2 };

// A decoded message of either direction; only the fields of its kind are set.
struct WorkerMessage {
  WorkerKind kind = WorkerKind::run;
  WorkerStatus status = WorkerStatus::ok;
  TaskId task;
  FunctionId function;
  SharedBytes body;
  bool behind = false;  // run: its output begins with a mark
  bool ring = false;    // run: the bell is rung behind its answer
  bool group = false;   // run: stands for several calls
  std::uint32_t stream_window = 0;
  std::uint32_t count = 0;
  std::uint64_t run_ns = 0;
  Payload payload;
  std::vector<BlobId> retained;
  std::string text;
  SharedBytes value;  // outcome
};

// Head: prefix, fields and tables. Body: the function's body and small buffers.
Outgoing encode_worker_message(const WorkerMessage& message);

// Number of descriptors that the message needs; `message` is what follows the length, at least 4
// bytes of it.
Result<std::uint16_t> worker_descriptor_count(ByteView message);

// Of an outcome as a whole, its length included: the task and the value. Nothing of other messages.
struct RingOutcome {
  TaskId task;
  ByteView value;
};
std::optional<RingOutcome> ring_outcome(ByteView message);

// `message` is all that follows the length; its small buffers share it. `blobs` as in codec.h.
// Fails with `invalid`.
Result<WorkerMessage> decode_worker_message(SharedBytes message, std::vector<Blob> blobs);

}  // namespace skyward::wire
