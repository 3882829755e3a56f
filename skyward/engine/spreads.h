#pragma once

// How a large argument reaches many nodes although the engine sends it only once. The first node
// that needs it gets it from the engine; each later one from the node before it, which passes on
// what it has while the rest still arrives: a chain
// (docs/decisions/0010-large-arguments-go-along-a-chain.md).
//
// When a node of the chain is lost or does not answer, its reader resumes from another node that
// has more, or from the engine. There are no cycles. A part of the core: pure; core_spread_test.cc
// shows its rules.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/id.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineEffects;

// A node as its possible readers see it.
struct PeerNode {
  InstanceId instance;
  std::string address;
  std::uint16_t port = 0;       // of its agent; 0: it neither serves nor fetches
  bool gives = false;           // others may read from it: its machine stays
  std::uint32_t unreached = 0;  // consecutive nodes that it could not reach
};

// What one node has of the bytes.
struct Copy {
  BlobId blob;                   // the name under which it was first asked for
  std::optional<NodeId> source;  // where it reads from; nothing: from the engine, or it is whole
  std::uint32_t attempt = 0;     // the latest FetchBlob
  bool whole = false;            // known to be
  std::uint32_t readers = 0;     // nodes that read from this one
  std::vector<NodeId> tried;     // sources that have failed
};

// The same bytes on all nodes.
struct Spread {
  std::uint64_t size = 0;
  std::uint32_t users = 0;        // blobs in use that hold these bytes
  std::uint64_t used_at = 0;      // counts up; the smallest is the least recently used
  std::map<NodeId, Copy> copies;  // a whole one may be gone: its node then says so
  std::vector<NodeId> order;      // in which the copies were made
};

class Spreads {
 public:
  explicit Spreads(std::size_t nodes = 0) : peers_(nodes) {}
  // Agents connect to each other only if they can prove a shared secret.
  void let_agents_talk(bool talk) { agents_talk_ = talk; }

  void open_node(NodeId node, PeerNode peer);
  // Its machine will be gone soon: no new reader starts there.
  void stop_giving(NodeId node);
  // Its machine is gone, with everything it had.
  void lose_node(EngineEffects& effects, NodeId node);

  // A task that needs the blob is about to be sent to the node. `content` is set to the blob's
  // content once it is spread; null for the bodies of functions, which stay.
  void offer(EngineEffects& effects, NodeId node, const wire::Blob& blob, wire::ContentId* content);
  // The node has run a task that needed the blob.
  void note_whole(NodeId node, const wire::Blob& blob);
  void on_fetched(EngineEffects& effects, NodeId node, const wire::BlobFetched& fetched);
  // Nothing refers to a blob of this content any more.
  void end_use(const wire::ContentId& content);

  const std::map<wire::ContentId, Spread>& all() const { return spreads_; }
  // By CHECK, as sanity_check(). Only nodes that serve or fetch have copies.
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
  std::uint64_t uses_ = 0;      // counts up
  std::uint32_t attempts_ = 0;  // counts up
};

}  // namespace skyward::engine
