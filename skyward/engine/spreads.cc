#include "skyward/engine/spreads.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/effects.h"
#include "skyward/spec/link_limits.h"

namespace skyward::engine {
namespace {

// Contents whose places are remembered when no task needs them. A wrong memory costs one question.
constexpr std::size_t kMaxIdleSpreads = 256;

// Whether what `from` has came, or will come, through `node`.
bool flows_through(const Spread& spread, NodeId from, NodeId node) {
  for (std::optional<NodeId> at = from; at; at = spread.copies.at(*at).source) {
    if (*at == node) return true;
  }
  return false;
}

void let_go_of_source(Spread& spread, Copy& copy) {
  if (copy.source) --spread.copies.at(*std::exchange(copy.source, {})).readers;
}

// Removes what a node has; nobody reads from it any more.
void erase_copy(Spread& spread, NodeId node) {
  let_go_of_source(spread, spread.copies.at(node));
  spread.copies.erase(node);
  std::erase(spread.order, node);
}

}  // namespace

void Spreads::open_node(NodeId node, PeerNode peer) { peers_[node.value] = std::move(peer); }

void Spreads::stop_giving(NodeId node) { peers_[node.value].gives = false; }

bool Spreads::can_give(NodeId node) const {
  const PeerNode& peer = peers_[node.value];
  return peer.gives && peer.port != 0;
}

bool Spreads::can_fetch(NodeId node) const {
  const PeerNode& peer = peers_[node.value];
  return peer.port != 0 && peer.unreached < kMaxUnreached;
}

Spread& Spreads::spread_of(const wire::Blob& blob, wire::ContentId* content) {
  if (!spreads_.contains(blob.content) && spreads_.size() >= kMaxIdleSpreads) {
    const auto age = [](const auto& entry) {
      return std::pair(entry.second.users > 0, entry.second.used_at);
    };
    const auto oldest = std::ranges::min_element(spreads_, {}, age);
    if (oldest->second.users == 0) spreads_.erase(oldest);
  }
  Spread& spread = spreads_[blob.content];
  spread.size = blob.size;
  spread.used_at = ++uses_;
  if (content != nullptr && *content == wire::ContentId{}) {
    *content = blob.content;
    ++spread.users;
  }
  return spread;
}

// The one that fewest read from, the latest first: so the last of a chain gets its next link.
std::optional<NodeId> Spreads::source_for(const Spread& spread, NodeId node) const {
  const Copy& copy = spread.copies.at(node);
  if (copy.tried.size() >= kMaxSources) return std::nullopt;
  std::optional<NodeId> best;
  std::uint32_t fewest = 0;
  for (const NodeId from : spread.order | std::views::reverse) {
    const std::uint32_t readers = spread.copies.at(from).readers;
    if (from == node || (best && readers >= fewest) || !can_give(from) ||
        std::ranges::find(copy.tried, from) != copy.tried.end() ||
        (copy.readers > 0 && flows_through(spread, from, node))) {
      continue;
    }
    best = from;
    fewest = readers;
    if (fewest == 0) break;
  }
  return best;
}

// Sends the node to `source`; without one, to the engine.
void Spreads::direct(EngineEffects& effects, NodeId node, const wire::ContentId& content,
                     std::optional<NodeId> source) {
  Spread& spread = spreads_.at(content);
  Copy& copy = spread.copies.at(node);
  let_go_of_source(spread, copy);
  copy.source = source;
  copy.attempt = ++attempts_;
  wire::FetchBlob fetch{
      .blob = copy.blob, .content = content, .size = spread.size, .attempt = copy.attempt};
  if (source) {
    const PeerNode& from = peers_[source->value];
    ++spread.copies.at(*source).readers;
    fetch.peer = *source;
    fetch.address = from.address;
    fetch.port = from.port;
  }
  effects.send(node, std::move(fetch));
}

void Spreads::note_unreached(EngineEffects& effects, NodeId node, NodeId source,
                             const std::string& why) {
  PeerNode& peer = peers_[node.value];
  const PeerNode& from = peers_[source.value];
  if (++peer.unreached != kMaxUnreached) return;
  effects.emit(ErrorEvent{
      fmt::format(
          "node {} cannot reach node {} at {}:{}: {}; your program sends large data to it directly "
          "instead. Open the nodes' TCP ports to each other, and large data is sent only once",
          node.value, source.value, from.address, from.port, why),
      peer.instance});
}

void Spreads::offer(EngineEffects& effects, NodeId node, const wire::Blob& blob,
                    wire::ContentId* content) {
  if (!agents_talk_ || blob.size < kMinSpreadBytes || blob.content == wire::ContentId{}) return;
  Spread& spread = spread_of(blob, content);
  const auto [place, is_new] = spread.copies.try_emplace(node);
  if (!is_new) return;
  place->second.blob = blob.id;
  spread.order.push_back(node);
  if (!can_fetch(node)) return;
  if (const auto source = source_for(spread, node)) {
    direct(effects, node, blob.content, source);
  }
}

void Spreads::note_whole(NodeId node, const wire::Blob& blob) {
  const auto spread = spreads_.find(blob.content);
  if (spread == spreads_.end()) return;
  const auto copy = spread->second.copies.find(node);
  if (copy == spread->second.copies.end() || copy->second.source) return;
  copy->second.whole = true;
}

// The link passes on the end of its latest fetch alone. One that is not ours any more was begun for
// a task that is over, and another may wait for the same bytes since: the engine sends them.
void Spreads::on_fetched(EngineEffects& effects, NodeId node, const wire::BlobFetched& fetched) {
  const auto found = spreads_.find(fetched.content);
  Copy* const known = found == spreads_.end() || !found->second.copies.contains(node)
                          ? nullptr
                          : &found->second.copies.at(node);
  if (known == nullptr || !known->source || known->attempt != fetched.attempt) {
    if (fetched.end != wire::FetchEnd::whole) {
      effects.send(node, wire::FetchBlob{.content = fetched.content, .attempt = ++attempts_});
    }
    return;
  }
  Spread& spread = found->second;
  Copy& copy = *known;
  const NodeId source = *copy.source;
  if (fetched.end == wire::FetchEnd::whole) {
    let_go_of_source(spread, copy);
    copy.whole = true;
    copy.tried.clear();
    peers_[node.value].unreached = 0;
    return;
  }
  if (fetched.end == wire::FetchEnd::unreached) {
    note_unreached(effects, node, source, fetched.detail);
  }
  copy.tried.push_back(source);
  // Its agent has made room since.
  if (fetched.end == wire::FetchEnd::missing && spread.copies.at(source).whole &&
      spread.copies.at(source).readers == 1) {
    let_go_of_source(spread, copy);
    erase_copy(spread, source);
  }
  direct(effects, node, fetched.content, can_fetch(node) ? source_for(spread, node) : std::nullopt);
}

void Spreads::end_use(const wire::ContentId& content) {
  const auto found = spreads_.find(content);
  if (found == spreads_.end() || content == wire::ContentId{}) return;
  Spread& spread = found->second;
  if (--spread.users > 0) return;
  // What is half there is forgotten there; nobody waits for it.
  std::vector<NodeId> halves;
  for (const auto& [node, copy] : spread.copies) {
    if (!copy.whole) halves.push_back(node);
  }
  for (const NodeId node : halves) let_go_of_source(spread, spread.copies.at(node));
  for (const NodeId node : halves) erase_copy(spread, node);
  if (spread.copies.empty()) spreads_.erase(found);
}

void Spreads::lose_node(EngineEffects& effects, NodeId node) {
  peers_[node.value].gives = false;
  for (auto& [content, spread] : spreads_) {
    if (!spread.copies.contains(node)) continue;
    std::vector<NodeId> readers;
    for (auto& [id, copy] : spread.copies) {
      if (copy.source != node) continue;
      let_go_of_source(spread, copy);
      readers.push_back(id);
    }
    erase_copy(spread, node);
    for (const NodeId reader : readers) {
      direct(effects, reader, content, source_for(spread, reader));
    }
  }
}

void Spreads::check() const {
  for (const auto& [content, spread] : spreads_) {
    SKYWARD_CHECK(spread.order.size() == spread.copies.size());
    std::map<NodeId, std::uint32_t> readers;
    for (const auto& [id, copy] : spread.copies) {
      if (!copy.source) continue;
      SKYWARD_CHECK(!copy.whole && spread.copies.contains(*copy.source), "node {}", id.value);
      ++readers[*copy.source];
      std::size_t steps = 0;
      for (std::optional<NodeId> at = id; at; at = spread.copies.at(*at).source) {
        SKYWARD_CHECK(++steps <= spread.copies.size(), "node {} reads from itself", id.value);
      }
    }
    for (const auto& [id, copy] : spread.copies) {
      SKYWARD_CHECK(copy.readers == readers[id], "node {}", id.value);
    }
  }
}

}  // namespace skyward::engine
