#pragma once

// The limits of connections, each with its reason: between the engine and an agent
// (docs/decisions/0005-lost-and-found.md), and between agents
// (docs/decisions/0010-large-arguments-go-along-a-chain.md).
//
// Who counts silence: on a connection to another machine engine/link_policy.h, asked by
// engine_endpoint.cc; on this machine engine/nodes.cc take_late(); between agents
// agent/blob_exchange.cc watch_silence(); for an agent without its engine (the lease)
// agent/core_node.cc check_lease().

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "skyward/base/time.h"
#include "skyward/spec/limits.h"

namespace skyward {

// ---- Between the engine and an agent

// From the start of the connection to the agent's Welcome.
inline constexpr Duration kGreetTimeout = 30s;
inline constexpr Duration kHeartbeatInterval = 1s;
// Silence after which a node counts as lost if its agent ends with its connection: nothing but a
// stopped process is silent there.
inline constexpr Duration kHeartbeatTimeout = 10s;
// If a deadline is noticed this late, the process was stopped (Ctrl-Z) or its loop was held up.
// What others have sent in the meantime waits in buffers: the silence is not theirs. The same holds
// between agents. The engine's loop gets kReadingGrace to read what waits.
inline constexpr Duration kHeldUp = kHeartbeatInterval / 4;
inline constexpr Duration kReadingGrace = 2 * kHeartbeatInterval;
// The defaults for nodes on other machines, which ComputePool can change. Without a byte for this
// long, Skyward reconnects ...
inline constexpr Duration kRemoteHeartbeatTimeout = 3s;
// ... and counts the node as lost after this long: replacing a machine costs minutes, and a laptop
// changes networks in five seconds.
inline constexpr Duration kReconnectTimeout = 12s;
// The same where all nodes are behind one gateway, which is down for minutes while it restarts: a
// login node of Slurm, the API server of Kubernetes. By default, both systems themselves wait that
// long for a node that does not answer.
inline constexpr Duration kGatewayReconnectTimeout = 5min;
// The link decides that; the core waits so much longer before it decides without the link.
inline constexpr Duration kLinkDecisionGrace = 10s;
// Without the engine for this long, an agent ends, and its machine with it.
inline constexpr Duration kLease = 10min;
// The longest heartbeat_timeout, reconnect_timeout and lease of a pool. Agents are told how often
// to send heartbeats, four times in heartbeat_timeout, in 32 bits.
inline constexpr Duration kMostSilence = 10'000'000s;
static_assert(kMostSilence / 4 / 1ms <= UINT32_MAX);

// A new connection on which nothing moves for this long is dropped for the next one. The first one
// may find a machine that still boots. As its login may also be slow, each one that is dropped
// doubles this for the next, until the node is reached. Later ones get half of the pool's
// reconnect_timeout, between these two.
inline constexpr Duration kFirstAttemptPatience = 15s;
inline constexpr Duration kAttemptPatience = 5s;
// Where logins are slow, later attempts get at least twice the time that a login took, and so does
// an unreachable node before it counts as lost. No login counts as longer than this.
inline constexpr Duration kSlowestLogin = 60s;
// Megabytes of an upload disappear into buffers on the way to a node. The upload counts as moving
// for the time that a line with this many bytes a second, shared by all uploads, would need for it.
inline constexpr std::uint64_t kSlowestUpload = std::uint64_t{32} << 10;
// Between two attempts; the pause doubles up to the second value.
inline constexpr Duration kFirstReconnectPause = 100ms;
inline constexpr Duration kLongestReconnectPause = 2s;

// A sweep sends SIGTERM to what is left of an agent, waits this long, and then kills it. With
// volumes, kUnmountTimeout more.
inline constexpr Duration kEndPatience = 3s;
// One run of the command that does so, connections included. With volumes, kUnmountTimeout more.
inline constexpr Duration kSweepTimeout = 8s;
// The same for a machine that has been silent throughout ...
inline constexpr Duration kHopelessSweepTimeout = 2s;
// ... and for a caller who does not want to wait: the way there, and the patience.
inline constexpr Duration kHurriedSweepTimeout = kEndPatience + 2s;
// Between two runs.
inline constexpr Duration kSweepPause = 500ms;

// ---- Between agents

// Smaller arguments go to each node directly, which is faster than arranging a chain.
inline constexpr std::uint64_t kMinSpreadBytes = std::uint64_t{1} << 20;
// Sources that a node tries for one blob before the engine sends it the rest.
inline constexpr std::size_t kMaxSources = 3;
// Connections in a row that a node could not make: after that, it is not asked to.
inline constexpr std::uint32_t kMaxUnreached = 2;
// A source without new bytes says so at this interval; a reader drops a source that is silent for
// kPeerSilence.
inline constexpr Duration kPeerPulse = 1s;
inline constexpr Duration kPeerSilence = 4s;
// A reader also drops a source that has had no new bytes for this long: the source's own transfer
// may have stopped for good, because its task was cancelled.
inline constexpr Duration kPeerStandstill = 10s;
// From the first packet to the end of the greeting. Machines of one network answer at once.
inline constexpr Duration kPeerGreeting = 4s;
// A reader may ask before the engine's first part has arrived: how long its request waits for it.
inline constexpr Duration kFirstPartPatience = 2s;
// A reader that takes nothing for this long is gone.
inline constexpr Duration kClientPatience = 30s;
// Readers of one agent, many more than a chain or a tree needs. Others are refused, and retry.
inline constexpr std::size_t kMaxClients = 64;

static_assert(kHeartbeatTimeout >= 3 * kHeartbeatInterval, "one lost heartbeat is not a lost node");
static_assert(kLease > kRemoteHeartbeatTimeout + kGatewayReconnectTimeout,
              "an agent that can be reached again must not have ended");
static_assert(kSweepTimeout > kEndPatience + 2 * kKillTimeout);
static_assert(kPeerSilence >= 3 * kPeerPulse, "one late word is not silence");

}  // namespace skyward
