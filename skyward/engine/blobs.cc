#include "skyward/engine/blobs.h"

#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/effects.h"

namespace skyward::engine {

void Blobs::release_one(EngineEffects& effects, BlobId blob) {
  const auto found = uses_.find(blob);
  SKYWARD_CHECK(found != uses_.end() && found->second.users > 0);
  --found->second.users;
  drop_if_unused(effects, blob);
}

void Blobs::keep(EngineEffects& effects, BlobId blob, bool keep) {
  if (keep) {
    BlobUse& use = uses_[blob];
    ++use.users;
    ++use.kept;
    return;
  }
  // More often forgotten than kept, or kept in another life of the pool: users' programs do that.
  const auto found = uses_.find(blob);
  if (found == uses_.end() || found->second.kept == 0) return;
  --found->second.kept;
  --found->second.users;
  drop_if_unused(effects, blob);
}

void Blobs::drop_if_unused(EngineEffects& effects, BlobId blob) {
  const auto found = uses_.find(blob);
  if (found->second.users > 0) return;
  for (const NodeId node : found->second.holders) {
    nodes_[node.value].blobs.erase(blob);
    if (nodes_[node.value].listens) effects.send(node, wire::DropBlobs{{blob}});
  }
  spreads_.end_use(found->second.content);
  uses_.erase(found);
}

void Blobs::give_one(EngineEffects& effects, NodeId node, const wire::Blob& blob) {
  BlobUse& use = uses_[blob.id];
  use.holders.insert(node);
  nodes_[node.value].blobs.insert(blob.id);
  spreads_.offer(effects, node, blob, &use.content);
}

void Blobs::give_body(EngineEffects& effects, NodeId node, const wire::Buffer& body) {
  if (body.in_blob()) spreads_.offer(effects, node, body.blob, nullptr);
}

void Blobs::open_node(NodeId node, PeerNode peer) {
  nodes_[node.value].listens = true;
  spreads_.open_node(node, std::move(peer));
}

void Blobs::lose_node(EngineEffects& effects, NodeId node) {
  shut_node(node);
  for (const BlobId blob : std::exchange(nodes_[node.value].blobs, {})) {
    uses_.at(blob).holders.erase(node);
  }
  spreads_.lose_node(effects, node);
}

void Blobs::check() const {
  std::size_t held = 0;
  for (const auto& [id, use] : uses_) {
    held += use.holders.size();
    for (const NodeId holder : use.holders) {
      SKYWARD_CHECK(nodes_[holder.value].blobs.contains(id), "blob {}", id.value);
    }
  }
  for (const Holder& node : nodes_) held -= node.blobs.size();
  SKYWARD_CHECK(held == 0, "nodes list blobs that do not list them");
  spreads_.check();
}

}  // namespace skyward::engine
