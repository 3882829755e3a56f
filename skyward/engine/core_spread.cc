#include "skyward/engine/core_spread.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/engine/core.h"
#include "skyward/engine/core_parts.h"

namespace skyward::engine {
namespace {

// Sources that a node tries for one blob before the engine sends it the rest.
constexpr std::size_t kMaxSources = 3;
// Connections in a row that a node could not make: after that it is not asked to.
constexpr std::uint32_t kMaxUnreached = 2;
// Contents whose places are remembered when no task needs them. A wrong memory costs one question.
constexpr std::size_t kMaxIdleSpreads = 256;

bool may_spread(const State& state, const wire::Blob& blob) {
  return !state.options.peer_key.empty() && blob.size >= kMinSpreadBytes &&
         blob.content != wire::ContentId{};
}

bool can_give(const Node& node) {
  return node.state == NodeState::ready && node.peer_port != 0 && node.gone_at == kNever;
}

bool can_fetch(const Node& node) { return node.peer_port != 0 && node.unreached < kMaxUnreached; }

Spread& spread_of(State& state, const wire::Blob& blob) {
  if (!state.spreads.contains(blob.content) && state.spreads.size() >= kMaxIdleSpreads) {
    const auto age = [](const auto& entry) {
      return std::pair(entry.second.users > 0, entry.second.used_at);
    };
    const auto oldest = std::ranges::min_element(state.spreads, {}, age);
    if (oldest->second.users == 0) state.spreads.erase(oldest);
  }
  Spread& spread = state.spreads[blob.content];
  spread.size = blob.size;
  spread.used_at = ++state.spread_uses;
  const auto use = state.blobs.find(blob.id);  // bodies of functions have none: they stay
  if (use != state.blobs.end() && use->second.content == wire::ContentId{}) {
    use->second.content = blob.content;
    ++spread.users;
  }
  return spread;
}

// Whether what `from` has came, or will come, through `node`.
bool flows_through(const Spread& spread, NodeId from, NodeId node) {
  for (std::optional<NodeId> at = from; at; at = spread.copies.at(*at).source) {
    if (*at == node) return true;
  }
  return false;
}

// The one that fewest read from, the latest first: so the last of a chain gets its next link.
std::optional<NodeId> source_for(const State& state, const Spread& spread, NodeId node) {
  const Copy& copy = spread.copies.at(node);
  if (copy.tried.size() >= kMaxSources) return std::nullopt;
  std::optional<NodeId> best;
  std::uint32_t fewest = 0;
  for (const NodeId from : spread.order | std::views::reverse) {
    const std::uint32_t readers = spread.copies.at(from).readers;
    if (from == node || (best && readers >= fewest) || !can_give(state.nodes[from.value]) ||
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

void let_go_of_source(Spread& spread, Copy& copy) {
  if (copy.source) --spread.copies.at(*std::exchange(copy.source, {})).readers;
}

// Removes what a node has; nobody reads from it any more.
void erase_copy(Spread& spread, NodeId node) {
  let_go_of_source(spread, spread.copies.at(node));
  spread.copies.erase(node);
  std::erase(spread.order, node);
}

// Sends the node to `source`; without one, to the engine.
void direct(State& state, Effects& effects, NodeId node, const wire::ContentId& content,
            std::optional<NodeId> source) {
  Spread& spread = state.spreads.at(content);
  Copy& copy = spread.copies.at(node);
  let_go_of_source(spread, copy);
  copy.source = source;
  copy.attempt = ++state.fetch_attempts;
  wire::FetchBlob fetch{
      .blob = copy.blob, .content = content, .size = spread.size, .attempt = copy.attempt};
  if (source) {
    const Node& from = node_at(state, *source);
    ++spread.copies.at(*source).readers;
    fetch.peer = *source;
    fetch.address = from.instance.private_ip;
    fetch.port = from.peer_port;
  }
  effects.send(node, std::move(fetch));
}

void note_unreached(Effects& effects, Node& node, const Node& source, const std::string& why) {
  if (++node.unreached != kMaxUnreached) return;
  effects.emit(ErrorEvent{
      fmt::format(
          "node {} cannot reach node {} at {}:{}: {}; your program sends large data to it directly "
          "instead. Open the nodes' TCP ports to each other, and large data is sent only once",
          node.id.value, source.id.value, source.instance.private_ip, source.peer_port, why),
      node.instance.id});
}

}  // namespace

void spread_blob(State& state, Effects& effects, const Node& node, const wire::Blob& blob) {
  if (!may_spread(state, blob)) return;
  Spread& spread = spread_of(state, blob);
  const auto [place, is_new] = spread.copies.try_emplace(node.id);
  if (!is_new) return;
  place->second.blob = blob.id;
  spread.order.push_back(node.id);
  if (!can_fetch(node)) return;
  if (const auto source = source_for(state, spread, node.id)) {
    direct(state, effects, node.id, blob.content, source);
  }
}

void note_whole(State& state, const Node& node, const wire::Blob& blob) {
  const auto spread = state.spreads.find(blob.content);
  if (spread == state.spreads.end()) return;
  const auto copy = spread->second.copies.find(node.id);
  if (copy == spread->second.copies.end() || copy->second.source) return;
  copy->second.whole = true;
}

// The link passes on the end of its latest fetch alone. One that is not ours any more was begun for
// a task that is over, and another may wait for the same bytes since: the engine sends them.
void on_blob_fetched(State& state, Effects& effects, Node& node, const wire::BlobFetched& fetched) {
  const auto found = state.spreads.find(fetched.content);
  Copy* const known = found == state.spreads.end() || !found->second.copies.contains(node.id)
                          ? nullptr
                          : &found->second.copies.at(node.id);
  if (known == nullptr || !known->source || known->attempt != fetched.attempt) {
    if (fetched.end != wire::FetchEnd::whole) {
      effects.send(node.id,
                   wire::FetchBlob{.content = fetched.content, .attempt = ++state.fetch_attempts});
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
    node.unreached = 0;
    return;
  }
  if (fetched.end == wire::FetchEnd::unreached) {
    note_unreached(effects, node, node_at(state, source), fetched.detail);
  }
  copy.tried.push_back(source);
  // Its agent has made room since.
  if (fetched.end == wire::FetchEnd::missing && spread.copies.at(source).whole &&
      spread.copies.at(source).readers == 1) {
    let_go_of_source(spread, copy);
    erase_copy(spread, source);
  }
  direct(state, effects, node.id, fetched.content,
         can_fetch(node) ? source_for(state, spread, node.id) : std::nullopt);
}

void end_use(State& state, const BlobUse& use) {
  const auto found = state.spreads.find(use.content);
  if (found == state.spreads.end() || use.content == wire::ContentId{}) return;
  Spread& spread = found->second;
  if (--spread.users > 0) return;
  // What is half there is forgotten there; nobody waits for it.
  std::vector<NodeId> halves;
  for (const auto& [node, copy] : spread.copies) {
    if (!copy.whole) halves.push_back(node);
  }
  for (const NodeId node : halves) let_go_of_source(spread, spread.copies.at(node));
  for (const NodeId node : halves) erase_copy(spread, node);
  if (spread.copies.empty()) state.spreads.erase(found);
}

void forget_copies(State& state, Effects& effects, const Node& node) {
  for (auto& [content, spread] : state.spreads) {
    if (!spread.copies.contains(node.id)) continue;
    std::vector<NodeId> readers;
    for (auto& [id, copy] : spread.copies) {
      if (copy.source != node.id) continue;
      let_go_of_source(spread, copy);
      readers.push_back(id);
    }
    erase_copy(spread, node.id);
    for (const NodeId reader : readers) {
      direct(state, effects, reader, content, source_for(state, spread, reader));
    }
  }
}

void check_spreads(const State& state) {
  for (const auto& [content, spread] : state.spreads) {
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
      const Node& node = state.nodes[id.value];
      SKYWARD_CHECK(node.state == NodeState::ready || state.phase != Phase::running, "node {}",
                    id.value);
    }
  }
}

}  // namespace skyward::engine
