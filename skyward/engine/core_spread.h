#pragma once

// How a large argument comes to many nodes while the engine sends it once. The first node that
// needs it is sent it; each later one gets it from the last before it, which passes on what it has
// while the rest still comes: a chain (docs/decisions/0010-large-arguments-go-along-a-chain.md).
//
// When a link of the chain is lost or does not answer, whoever read from it goes on where it was,
// from another node that has more, or from the engine. Nobody ever reads from one that reads from
// him. All of this is a part of the core (core.h): pure, and told in core_spread_test.cc.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class Effects;
struct Node;
struct State;

// Smaller ones are sent to each node: that is quicker than to arrange anything.
inline constexpr std::uint64_t kMinSpreadBytes = std::uint64_t{1} << 20;

// A blob that unfinished tasks refer to, or the caller, who keeps it for tasks to come.
struct BlobUse {
  std::uint32_t users = 0;
  std::uint32_t kept = 0;  // of these, how often the caller keeps it
  std::set<NodeId> holders;
  wire::ContentId content{};  // when it is spread
};

// What one node has of the bytes.
struct Copy {
  BlobId blob;                   // the name under which it was first asked for
  std::optional<NodeId> source;  // read from there; nothing: from the engine, or whole
  std::uint32_t attempt = 0;     // the latest FetchBlob
  bool whole = false;            // known to be
  std::uint32_t readers = 0;     // nodes that read from this one
  std::vector<NodeId> tried;     // sources that have failed
};

// The same bytes on all nodes.
struct Spread {
  std::uint64_t size = 0;
  std::uint32_t users = 0;        // blobs in use that hold these bytes
  std::uint64_t used_at = 0;      // counts up; the least is the longest unused
  std::map<NodeId, Copy> copies;  // a whole one may be gone already: then its node says so
  std::vector<NodeId> order;      // of the copies' coming
};

using Spreads = std::map<wire::ContentId, Spread>;

// The node is about to be sent a task that needs the blob.
void spread_blob(State& state, Effects& effects, const Node& node, const wire::Blob& blob);
// It has run one.
void note_whole(State& state, const Node& node, const wire::Blob& blob);
void on_blob_fetched(State& state, Effects& effects, Node& node, const wire::BlobFetched& fetched);
// Nothing refers to the blob any more: the nodes may forget it.
void end_use(State& state, const BlobUse& use);
// The node's machine is gone, and with it what it had.
void forget_copies(State& state, Effects& effects, const Node& node);

// By CHECK, as sanity_check().
void check_spreads(const State& state);

}  // namespace skyward::engine
