#pragma once

// How a large argument comes to many nodes while the engine sends it once. The first node that
// needs it is sent it; each later one gets it from the last before it, which passes on what it has
// while the rest still comes: a chain (docs/decisions/0010-large-arguments-go-along-a-chain.md).
//
// When a link of the chain is lost or does not answer, whoever read from it goes on where it was,
// from another node that has more, or from the engine. Nobody ever reads from one that reads from
// him. A part of the core: pure, and told in core_spread_test.cc.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineEffects;

// Smaller ones are sent to each node: that is quicker than to arrange anything.
inline constexpr std::uint64_t kMinSpreadBytes = std::uint64_t{1} << 20;

// A node, as those that may read from it see it.
struct PeerNode {
  InstanceId instance;
  std::string address;
  std::uint16_t port = 0;       // of its agent; 0: it neither gives nor takes
  bool gives = false;           // its machine stays
  std::uint32_t unreached = 0;  // other nodes in a row that it did not reach
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

class Spreads {
 public:
  explicit Spreads(std::size_t nodes = 0) : peers_(nodes) {}
  // Agents prove a secret to each other, or they do not talk at all.
  void let_agents_talk(bool talk) { agents_talk_ = talk; }

  void open_node(NodeId node, PeerNode peer);
  // Its machine goes soon: nobody begins to read from it.
  void stop_giving(NodeId node);
  // Its machine is gone, and with it what it had.
  void lose_node(EngineEffects& effects, NodeId node);

  // The node is about to be sent a task that needs the blob. `content` is what the blob is known to
  // hold, once it is spread; null for bodies of functions: they stay.
  void offer(EngineEffects& effects, NodeId node, const wire::Blob& blob, wire::ContentId* content);
  // It has run one.
  void note_whole(NodeId node, const wire::Blob& blob);
  void on_fetched(EngineEffects& effects, NodeId node, const wire::BlobFetched& fetched);
  // Nothing refers to a blob of this content any more.
  void end_use(const wire::ContentId& content);

  const std::map<wire::ContentId, Spread>& all() const { return spreads_; }
  // By CHECK, as sanity_check(). Only nodes that may give or take have copies.
  void check() const;

 private:
  Spread& spread_of(const wire::Blob& blob, wire::ContentId* content);
  bool can_give(NodeId node) const;
  bool can_fetch(NodeId node) const;
  std::optional<NodeId> source_for(const Spread& spread, NodeId node) const;
  void direct(EngineEffects& effects, NodeId node, const wire::ContentId& content,
              std::optional<NodeId> source);
  void note_unreached(EngineEffects& effects, NodeId node, NodeId source, const std::string& why);

  std::map<wire::ContentId, Spread> spreads_;
  std::vector<PeerNode> peers_;  // by node
  bool agents_talk_ = false;
  std::uint32_t uses_ = 0;      // counts up
  std::uint32_t attempts_ = 0;  // counts up
};

}  // namespace skyward::engine
