#pragma once

// Messages from the engine to an agent. See message.h.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

// The first message on every connection. `last_received` is the sequence number up to which the
// engine has the agent's messages (0 on the first connection), so that the agent resends the rest.
struct Hello {
  std::uint32_t protocol = 0;
  std::string version;  // of the program, for the message when protocols differ
  std::string pool;     // job id
  NodeId node;
  bool descriptors = false;  // the connection is a Unix socket: blobs go by descriptor
  std::uint64_t last_received = 0;
  std::string token;  // this pool's secret; an agent serves only the pool that greeted it first
  bool operator==(const Hello&) const = default;
};

// How to run one worker: `environment` is set over the agent's own (COMPUTE_POOL, rank variables,
// user's env).
struct WorkerSpec {
  KeyValues environment;
  bool operator==(const WorkerSpec&) const = default;
};

// The configuration of a node. Sent once, after Welcome; the agent bootstraps, starts the workers
// and answers Ready or Failed.
struct Configure {
  // argv of a worker process; it speaks worker_protocol.h on descriptor 3.
  std::vector<std::string> worker_command;
  std::string directory;            // working directory of the workers; made if missing
  std::vector<WorkerSpec> workers;  // one per worker (MIG partition), by index
  std::uint32_t concurrency = 1;    // slots per worker; each slot is a process of its own
  std::string bootstrap;            // bash script run before the workers; empty: nothing to do
  KeyValues bootstrap_environment;  // values that must not be in the script (indexes, tokens)
  std::uint32_t heartbeat_ms = 1000;
  std::uint32_t metrics_ms = 2000;  // 0: no metrics
  // The dead man's switch: both work without a driver and a network. 0: none.
  std::uint64_t lease_ms = 0;     // how long the engine may be silent
  std::uint64_t lifetime_ms = 0;  // how long after this message the node ends in any case
  // argv that terminates the machine. The agent runs it when it exits for these reasons, and at a
  // Shutdown. Empty: the machine stays.
  std::vector<std::string> end_command;
  // Bash script that a daemon runs after its workers have exited; empty: none.
  std::string end_script;
  std::string preemption;  // where the cloud announces that it takes the machine back: "ec2"
  // The secret that the agents of this pool prove to each other, and the address at which they
  // connect to this node. Empty: they do not connect.
  std::string peer_key;
  std::string peer_address;
  bool operator==(const Configure&) const = default;
};

// A node has got a new machine: where the others reach it, for what instance_info() tells the tasks
// that start from now on.
struct PeerMoved {
  NodeId node;
  std::string address;
  bool operator==(const PeerMoved&) const = default;
};

struct RunTask {
  TaskId task;
  std::uint32_t attempt = 1;
  std::optional<std::uint32_t> worker;  // this worker only (broadcast); else any free slot
  FunctionId function;
  Buffer body;  // the function, if this node does not have it yet; else empty
  Payload arguments;
  std::uint64_t timeout_ms = 0;     // run time allowed on the worker; 0: none
  std::uint32_t stream_window = 0;  // > 0: send a generator's items one by one, this many ahead
  bool group = false;               // several calls of the function (group.h); see stream_window
  bool operator==(const RunTask&) const = default;
};

// Interrupt the task (SIGINT in its worker, SIGKILL after kCancelGrace) or remove it from the
// queue. Answered by its TaskResult.
struct CancelTask {
  TaskId task;
  bool operator==(const CancelTask&) const = default;
};

// Return up to `count` tasks that no worker has seen, newest first: another node is idle.
// Answered by Recalled.
struct RecallTasks {
  std::uint32_t count = 0;
  bool operator==(const RecallTasks&) const = default;
};

// The reader has taken `count` items of a stream.
struct StreamCredit {
  TaskId task;
  std::uint32_t count = 0;
  bool operator==(const StreamCredit&) const = default;
};

// The engine will shut this node down in about `left_ms`, whatever runs then. Running functions are
// told, as before a preemption.
struct EndAhead {
  std::uint64_t left_ms = 0;
  std::string reason;  // "the pool's budget is spent"
  bool operator==(const EndAhead&) const = default;
};

// Get the bytes that are missing here from another node. Replaces an earlier request for the same
// blob; without a port, it only ends that one, and the engine sends the rest. Each is answered by a
// BlobFetched of the same attempt, unless the next request comes first. The task that uses the blob
// follows when the engine knows that the blob is whole.
struct FetchBlob {
  BlobId blob;
  ContentId content{};
  std::uint64_t size = 0;
  std::uint32_t attempt = 0;  // from 1; never used twice in a pool
  NodeId peer;
  std::string address;
  std::uint16_t port = 0;
  bool operator==(const FetchBlob&) const = default;
};

// No task refers to these any more: close the descriptors. Also cancels a blob that is being sent.
struct DropBlobs {
  std::vector<BlobId> blobs;
  bool operator==(const DropBlobs&) const = default;
};

// No task uses these functions at present; the next one that does brings the body again.
struct DropFunctions {
  std::vector<FunctionId> functions;
  bool operator==(const DropFunctions&) const = default;
};

// End all workers (running tasks are interrupted; SIGKILL after `grace_ms`), the agent itself, and
// the machine if there is a command for that (Configure::end_command) and its cloud has not
// announced that it preempts it.
struct Shutdown {
  std::uint32_t grace_ms = 0;
  bool operator==(const Shutdown&) const = default;
};

}  // namespace skyward::wire
