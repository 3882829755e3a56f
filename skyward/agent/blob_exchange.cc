#include "skyward/agent/blob_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/spec/link_limits.h"

namespace skyward::agent {

Time BlobExchange::next_deadline() const {
  if (serve_soon_ || !answers_.empty()) return Time{};
  Time next = beats_at_;
  for (const auto& [stream, client] : clients_) {
    if (!client.ready) next = std::min(next, client.asks_until);
  }
  for (const auto& [stream, fetch] : fetches_) {
    next = std::min({next, fetch.silent_at(), fetch.stands_still_at()});
  }
  return next;
}

void BlobExchange::on_timer(Time now) {
  watch_silence(now);
  for (auto next = clients_.begin(); next != clients_.end();) {
    const auto place = next++;
    if (!place->second.ready && now >= place->second.asks_until) dismiss(place);
  }
  if (now >= beats_at_) beat(now);
  if (std::exchange(serve_soon_, false)) serve_all(now);
  for (wire::BlobFetched& fetched : std::exchange(answers_, {})) {
    effects_.on_fetched(std::move(fetched));
  }
}

void BlobExchange::on_bytes(StreamId stream, ByteView bytes, Time now) {
  if (const auto client = clients_.find(stream); client != clients_.end()) {
    greet(client, bytes, now);
  } else if (const auto fetch = fetches_.find(stream); fetch != fetches_.end()) {
    take(fetch, bytes, now);
  }
}

void BlobExchange::on_room(StreamId stream) {
  if (clients_.contains(stream)) serve_soon_ = true;
}

void BlobExchange::on_closed(StreamId stream, std::string why) {
  if (const auto client = clients_.find(stream); client != clients_.end()) return dismiss(client);
  const auto fetch = fetches_.find(stream);
  if (fetch == fetches_.end()) return;
  finish(fetch, fetch->second.open ? wire::FetchEnd::broken : wire::FetchEnd::unreached,
         why.empty() ? "it closed the connection" : std::move(why));
}

void BlobExchange::on_blobs_changed() {
  // Once for all that happens in this turn: so parts are large where the network is fast.
  serve_soon_ = !clients_.empty();
  for (auto next = fetches_.begin(); next != fetches_.end();) {
    const auto place = next++;
    if (inbox_.find(place->second.ask.blob)) continue;
    effects_.close(place->first);  // nobody needs it any more
    fetches_.erase(place);
  }
}

// ---- those who read from us

void BlobExchange::Client::begin_part(std::uint32_t length) {
  prefix = wire::encode_peer_prefix(length);
  prefix_left = prefix.size();
  part_left = length == wire::kPeerMissing ? 0 : length;
  missing = length == wire::kPeerMissing;
}

BlobExchange::StreamId BlobExchange::attach(Time now) {
  if (clients_.size() >= kMaxClients) return 0;
  clients_[++last_stream_] = {.asks_until = now + kPeerGreeting, .moved_at = now};
  if (beats_at_ == kNever) beats_at_ = now + kPeerPulse;
  return last_stream_;
}

void BlobExchange::greet(Clients::iterator place, ByteView bytes, Time now) {
  Client& client = place->second;
  client.asked.insert(client.asked.end(), bytes.begin(), bytes.end());
  if (client.asked.size() < wire::kPeerRequestBytes) return;
  const auto request = wire::decode_peer_request(client.asked);
  if (!request || client.ready) return dismiss(place);
  client.ready = true;
  client.moved_at = now;
  client.request = *request;
  client.sent = request->offset;
  serve_soon_ = true;
}

void BlobExchange::serve_all(Time now) {
  for (auto next = clients_.begin(); next != clients_.end();) {
    const auto place = next++;
    if (place->second.ready && !serve(place->first, place->second, now)) dismiss(place);
  }
}

// Writes what is there, as far as the connection takes it. False when the transfer is over.
bool BlobExchange::serve(StreamId stream, Client& client, Time now) {
  const auto blob = inbox_.find(client.request.content);
  // It may have been dropped and begun again: what the client was promised has to be there.
  const std::uint64_t promised = client.sent + (client.missing ? 0 : client.part_left);
  const bool here =
      blob && blob->kept && blob->size == client.request.size && blob->bytes.size() >= promised;
  client.seen = client.seen || here;
  if (!blob && !client.seen && now < client.moved_at + kFirstPartPatience) return true;
  if (!here && !client.between_parts() && !client.missing) return false;
  while (true) {
    if (client.between_parts()) {
      if (client.missing) return false;
      const std::uint64_t there = here ? blob->bytes.size() - client.sent : 0;
      if (here && there == 0) return true;
      client.begin_part(
          here ? static_cast<std::uint32_t>(std::min<std::uint64_t>(there, wire::kMaxPeerPartBytes))
               : wire::kPeerMissing);
    }
    ByteView piece = ByteView(client.prefix).last(client.prefix_left);
    if (client.prefix_left == 0) piece = blob->bytes.subspan(client.sent, client.part_left);
    const std::size_t written = effects_.write(stream, piece);
    if (written > 0) client.moved_at = now;
    if (client.prefix_left > 0) {
      client.prefix_left -= written;
    } else {
      client.sent += written;
      client.part_left -= written;
    }
    if (written < piece.size()) return true;
  }
}

// Proof of life for those who wait for more than there is.
void BlobExchange::beat(Time now) {
  beats_at_ = kNever;
  for (auto next = clients_.begin(); next != clients_.end();) {
    const auto place = next++;
    Client& client = place->second;
    if (!client.ready) continue;
    const bool waits = client.seen && client.sent < client.request.size;
    if (client.between_parts() && waits) client.begin_part(0);
    if (!serve(place->first, client, now) || now > client.moved_at + kClientPatience) {
      dismiss(place);
    }
  }
  if (!clients_.empty()) beats_at_ = now + kPeerPulse;
}

void BlobExchange::dismiss(Clients::iterator place) {
  effects_.close(place->first);
  clients_.erase(place);
}

// ---- those whom we read from

Time BlobExchange::Fetch::silent_at() const {
  return heard_at + (open ? kPeerSilence : kPeerGreeting);
}

Time BlobExchange::Fetch::stands_still_at() const {
  return open ? grown_at + kPeerStandstill : kNever;
}

void BlobExchange::fetch(const wire::FetchBlob& ask, Time now) {
  const auto same = [&](const auto& entry) { return entry.second.ask.blob == ask.blob; };
  if (const auto found = std::ranges::find_if(fetches_, same); found != fetches_.end()) {
    effects_.close(found->first);
    fetches_.erase(found);
  }
  if (ask.port == 0) return answer(ask, wire::FetchEnd::stopped, {});
  if (const Status taken = inbox_.expect(ask.blob, ask.content, ask.size); !taken) {
    return answer(ask, wire::FetchEnd::broken, taken.error().message);
  }
  if (inbox_.find(ask.blob)->received == ask.size) return answer(ask, wire::FetchEnd::whole, {});
  if (const Status dialled = effects_.dial(++last_stream_, ask); !dialled) {
    return answer(ask, wire::FetchEnd::unreached, dialled.error().message);
  }
  fetches_[last_stream_] = {.ask = ask, .heard_at = now};
}

void BlobExchange::on_open(StreamId stream, Time now) {
  const auto place = fetches_.find(stream);
  if (place == fetches_.end()) return;
  Fetch& fetch = place->second;
  fetch.open = true;
  fetch.heard_at = fetch.grown_at = now;
  const auto request = wire::encode_peer_request({.content = fetch.ask.content,
                                                  .size = fetch.ask.size,
                                                  .offset = inbox_.find(fetch.ask.blob)->received});
  effects_.write(stream, request);  // the first bytes always fit
}

void BlobExchange::take(Fetches::iterator place, ByteView bytes, Time now) {
  Fetch& fetch = place->second;
  fetch.heard_at = now;
  while (!bytes.empty()) {
    const auto part = fetch.reader.next(bytes);
    if (!part) {
      const bool missing = part.error().kind == ErrorKind::unavailable;
      return finish(place, missing ? wire::FetchEnd::missing : wire::FetchEnd::broken,
                    part.error().message);
    }
    if (!part->empty()) fetch.grown_at = now;
    if (const Status stored = inbox_.append(fetch.ask.blob, *part); !stored) {
      return finish(place, wire::FetchEnd::broken, stored.error().message);
    }
  }
  if (!clients_.empty()) serve_soon_ = true;
  if (inbox_.find(fetch.ask.blob)->received == fetch.ask.size) {
    finish(place, wire::FetchEnd::whole, {});
  }
}

// This process was stopped, or its loop was held up: the silence was ours.
void BlobExchange::allow_for_hold_up(Time now) {
  const auto is_late = [now](const auto& entry) {
    return now > std::min(entry.second.silent_at(), entry.second.stands_still_at()) + kHeldUp;
  };
  if (std::ranges::none_of(fetches_, is_late)) return;
  for (auto& [stream, fetch] : fetches_) fetch.heard_at = fetch.grown_at = now;
}

void BlobExchange::watch_silence(Time now) {
  allow_for_hold_up(now);
  for (auto next = fetches_.begin(); next != fetches_.end();) {
    const auto place = next++;
    const Fetch& fetch = place->second;
    if (now >= fetch.silent_at()) {
      finish(place, fetch.open ? wire::FetchEnd::broken : wire::FetchEnd::unreached,
             fmt::format("no data from it for {:.0f} s",
                         seconds(fetch.open ? kPeerSilence : kPeerGreeting)));
    } else if (now >= fetch.stands_still_at()) {
      finish(place, wire::FetchEnd::broken,
             fmt::format("it received no new data for {:.0f} s", seconds(kPeerStandstill)));
    }
  }
}

void BlobExchange::finish(Fetches::iterator place, wire::FetchEnd end, std::string detail) {
  effects_.close(place->first);
  const auto ended = fetches_.extract(place);
  answer(ended.mapped().ask, end, std::move(detail));
}

void BlobExchange::answer(const wire::FetchBlob& ask, wire::FetchEnd end, std::string detail) {
  const auto part = inbox_.find(ask.blob);
  wire::BlobFetched fetched{.blob = ask.blob,
                            .content = ask.content,
                            .attempt = ask.attempt,
                            .end = end,
                            .received = part ? part->received : 0,
                            .detail = std::move(detail)};
  if (part && part->received == part->size) fetched.end = wire::FetchEnd::whole;
  answers_.push_back(std::move(fetched));
}

}  // namespace skyward::agent
