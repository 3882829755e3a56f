#pragma once

// The large arguments of tasks: which blobs are in use, and which nodes have them. A node keeps a
// blob until no unfinished task refers to it and the caller no longer keeps it for later tasks.
// Spreads decides which node gets the bytes from where. A part of the core: pure; core_blob_test.cc
// shows its rules.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "skyward/engine/spreads.h"
#include "skyward/spec/id.h"
#include "skyward/wire/message.h"

namespace skyward::engine {

class EngineEffects;

struct BlobUse {
  std::uint32_t users = 0;
  std::uint32_t kept = 0;  // of these, how often the caller keeps it
  std::set<NodeId> holders;
  wire::ContentId content{};  // when it is spread
};

// Visits each blob of the payload once.
template <typename Visit>
void for_each_blob(const wire::Payload& payload, Visit visit) {
  // Most payloads have none. A payload may have many windows, but into few blobs.
  if (std::ranges::none_of(payload.buffers, &wire::Buffer::in_blob)) return;
  std::vector<const wire::Blob*> seen;
  for (const wire::Buffer& buffer : payload.buffers) {
    const auto is_same = [&](const auto* one) { return same_blob(*one, buffer.blob); };
    if (!buffer.in_blob() || std::ranges::any_of(seen, is_same)) continue;
    seen.push_back(&buffer.blob);
    visit(buffer.blob);
  }
}

class Blobs {
 public:
  explicit Blobs(std::size_t nodes = 0) : nodes_(nodes), spreads_(nodes) {}

  // A task was submitted that refers to the blobs of its arguments ...
  void hold(const wire::Payload& arguments) {
    for_each_blob(arguments, [&](const wire::Blob& blob) { ++uses_[blob.id].users; });
  }
  // ... and is answered. Nodes drop blobs that nobody needs any more.
  void release(EngineEffects& effects, const wire::Payload& arguments) {
    for_each_blob(arguments, [&](const wire::Blob& blob) { release_one(effects, blob.id); });
  }
  // The caller keeps the blob, or no longer does.
  void keep(EngineEffects& effects, BlobId blob, bool keep);

  // A task with these arguments, or a function's body, is about to be sent to the node.
  void give(EngineEffects& effects, NodeId node, const wire::Payload& arguments) {
    for_each_blob(arguments, [&](const wire::Blob& blob) { give_one(effects, node, blob); });
  }
  void give_body(EngineEffects& effects, NodeId node, const wire::Buffer& body);
  // It has run a task with these arguments.
  void note_whole(NodeId node, const wire::Payload& arguments) {
    for_each_blob(arguments, [&](const wire::Blob& blob) { spreads_.note_whole(node, blob); });
  }

  // The node's agent can be told to drop blobs: from now until the node or the pool ends.
  void open_node(NodeId node, PeerNode peer);
  void shut_node(NodeId node) { nodes_[node.value].listens = false; }
  // The node's machine is gone, with everything it had.
  void lose_node(EngineEffects& effects, NodeId node);

  Spreads& spreads() { return spreads_; }
  const Spreads& spreads() const { return spreads_; }
  const std::unordered_map<BlobId, BlobUse>& uses() const { return uses_; }
  void check() const;  // by CHECK, as sanity_check()

 private:
  struct Holder {
    std::unordered_set<BlobId> blobs;  // of uses_, those that name the node as a holder
    bool listens = false;
  };

  void give_one(EngineEffects& effects, NodeId node, const wire::Blob& blob);
  void release_one(EngineEffects& effects, BlobId blob);
  void drop_if_unused(EngineEffects& effects, BlobId blob);

  std::unordered_map<BlobId, BlobUse> uses_;
  std::vector<Holder> nodes_;
  Spreads spreads_;
};

}  // namespace skyward::engine
