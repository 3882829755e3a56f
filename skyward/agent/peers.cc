#include "skyward/agent/peers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <utility>

#include "skyward/io/tcp_socket.h"
#include "skyward/wire/peer_protocol.h"

namespace skyward::agent {
namespace {

// A source without new bytes says so at this interval; a reader drops a source that is silent for
// kPeerSilence.
constexpr Duration kPeerPulse = std::chrono::seconds(1);
constexpr Duration kPeerSilence = std::chrono::seconds(4);
// A reader also drops a source that has had no new bytes for this long: the source's own transfer
// may have stopped for good, because its task was cancelled.
constexpr Duration kStandstill = std::chrono::seconds(10);
// From the first packet to the end of the greeting. Machines of one network answer at once.
constexpr Duration kPeerGreeting = std::chrono::seconds(4);
// A reader may ask before the engine's first part has arrived: how long its request waits for it.
constexpr Duration kFirstPartPatience = std::chrono::seconds(2);
// A reader that takes nothing for this long is gone.
constexpr Duration kClientPatience = std::chrono::seconds(30);
// Many more than a chain or a tree needs. Others are refused, and retry.
constexpr std::size_t kMaxClients = 64;

}  // namespace

struct Peers::Client {
  std::unique_ptr<io::TlsStream> stream;
  io::EventLoop::TimerId timer = 0;  // until it has asked
  Time moved_at{};
  Bytes asked;  // the request, as far as it has come
  bool ready = false;
  bool seen = false;  // the blob was here
  wire::PeerRequest request;
  std::uint64_t sent = 0;  // of the blob, from its beginning
  std::array<std::byte, wire::kPeerPrefixBytes> prefix{};
  std::size_t prefix_left = 0;
  std::uint64_t part_left = 0;
  bool missing = false;  // the prefix says so, and is the last word

  void begin_part(std::uint32_t length) {
    prefix = wire::encode_peer_prefix(length);
    prefix_left = prefix.size();
    part_left = length == wire::kPeerMissing ? 0 : length;
    missing = length == wire::kPeerMissing;
  }
  bool between_parts() const { return prefix_left == 0 && part_left == 0; }
};

struct Peers::Fetch {
  wire::FetchBlob ask;
  std::unique_ptr<io::TlsStream> stream;
  wire::PeerReader reader;
  bool open = false;
  Time heard_at{};
  Time grown_at{};  // bytes of the blob came
  io::EventLoop::TimerId timer = 0;
};

Peers::Peers(io::EventLoop& loop, wire::BlobInbox& inbox, OnFetched on_fetched)
    : loop_(loop),
      inbox_(inbox),
      on_fetched_(std::move(on_fetched)),
      alive_(std::make_shared<bool>(true)) {}

Peers::~Peers() {
  *alive_ = false;
  loop_.cancel_timer(pulse_);
  for (const auto& client : clients_) loop_.cancel_timer(client->timer);
  for (const auto& [blob, fetch] : fetches_) {
    loop_.cancel_timer(fetch->timer);
    fetch->stream.reset();
  }
}

Result<std::uint16_t> Peers::listen(std::string pool, std::string secret,
                                    const std::string& address) {
  auto key = io::TlsKey::make(std::move(pool), std::move(secret));
  if (!key) return fail(key);
  auto listener = io::listen_tcp(address);
  if (!listener) return fail(listener);
  key_ = *std::move(key);
  listener_.emplace(loop_, std::move(listener->socket),
                    [this](io::FileDescriptor connection) { accept(std::move(connection)); });
  return listener->port;
}

// ---- those who read from us

void Peers::accept(io::FileDescriptor socket) {
  if (clients_.size() >= kMaxClients) return;  // closes it
  Client& client = *clients_.emplace_back(std::make_unique<Client>());
  client.moved_at = io::EventLoop::now();
  client.timer = loop_.start_timer(client.moved_at + kPeerGreeting, [this, &client] {
    client.timer = 0;
    dismiss(client);
  });
  client.stream = std::make_unique<io::TlsStream>(
      loop_, key_, io::TlsStream::Role::answers, std::move(socket),
      io::TlsStream::Events{.on_open = [] {},
                            .on_bytes = [this, &client](ByteView bytes) { greet(client, bytes); },
                            .on_room = [this] { serve_later(); },
                            .on_closed = [this, &client](const Error&) { dismiss(client); }});
  if (pulse_ == 0 && !clients_.empty()) beat();
}

void Peers::greet(Client& client, ByteView bytes) {
  client.asked.insert(client.asked.end(), bytes.begin(), bytes.end());
  if (client.asked.size() < wire::kPeerRequestBytes) return;
  const auto request = wire::decode_peer_request(client.asked);
  if (!request || client.ready) return dismiss(client);
  loop_.cancel_timer(std::exchange(client.timer, 0));
  client.ready = true;
  client.moved_at = io::EventLoop::now();
  client.request = *request;
  client.sent = request->offset;
  serve_later();
}

void Peers::on_blobs_changed() {
  if (!clients_.empty()) serve_later();
  for (auto next = fetches_.begin(); next != fetches_.end();) {
    const auto fetch = (next++)->second;
    if (!inbox_.find(fetch->ask.blob)) forget(fetch);  // nobody needs it any more
  }
}

// Once for all that happens in this turn: so parts are large where the network is fast.
void Peers::serve_later() {
  if (std::exchange(serving_, true)) return;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    serving_ = false;
    serve_all();
  });
}

void Peers::serve_all() {
  for (auto next = clients_.begin(); next != clients_.end();) {
    Client& client = **next++;
    if (client.ready && !serve(client)) dismiss(client);
  }
}

// Writes what is there, as far as the connection takes it. False when the transfer is over.
bool Peers::serve(Client& client) {
  const auto blob = inbox_.find(client.request.content);
  const bool here = blob && blob->size == client.request.size && blob->bytes.size() >= client.sent;
  client.seen = client.seen || here;
  if (!blob && !client.seen && io::EventLoop::now() < client.moved_at + kFirstPartPatience) {
    return true;
  }
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
    const std::size_t written = client.stream->write(piece);
    if (written > 0) client.moved_at = io::EventLoop::now();
    if (client.prefix_left > 0) {
      client.prefix_left -= written;
    } else {
      client.sent += written;
      client.part_left -= written;
    }
    if (written < piece.size()) return true;
  }
}

void Peers::dismiss(const Client& client) {
  const auto place = std::ranges::find(clients_, &client, &std::unique_ptr<Client>::get);
  if (place == clients_.end()) return;
  loop_.cancel_timer(client.timer);
  const auto leaving = std::move(*place);
  clients_.erase(place);
}

// Proof of life for those who wait for more than there is.
void Peers::beat() {
  pulse_ = 0;
  if (clients_.empty()) return;
  const Time now = io::EventLoop::now();
  for (auto next = clients_.begin(); next != clients_.end();) {
    Client& client = **next++;
    if (!client.ready) continue;
    const bool waits = client.seen && client.sent < client.request.size;
    if (client.between_parts() && waits) client.begin_part(0);
    if (!serve(client) || now > client.moved_at + kClientPatience) dismiss(client);
  }
  pulse_ = loop_.start_timer(now + kPeerPulse, [this] { beat(); });
}

// ---- those whom we read from

void Peers::fetch(const wire::FetchBlob& ask) {
  if (const auto found = fetches_.find(ask.blob); found != fetches_.end()) {
    forget(std::shared_ptr(found->second));
  }
  if (ask.port == 0) return answer(ask, wire::FetchEnd::stopped, {});
  if (const Status taken = inbox_.expect(ask.blob, ask.content, ask.size); !taken) {
    return answer(ask, wire::FetchEnd::broken, taken.error().message);
  }
  if (inbox_.find(ask.blob)->received == ask.size) return answer(ask, wire::FetchEnd::whole, {});
  const auto fetch = std::make_shared<Fetch>();
  fetch->ask = ask;
  dial(fetch);
}

void Peers::dial(const std::shared_ptr<Fetch>& fetch) {
  if (!key_)
    return answer(fetch->ask, wire::FetchEnd::unreached, "peer transfer is disabled on this node");
  auto socket = io::dial_tcp(fetch->ask.address, fetch->ask.port);
  if (!socket) return answer(fetch->ask, wire::FetchEnd::unreached, socket.error().message);
  fetches_[fetch->ask.blob] = fetch;
  fetch->heard_at = io::EventLoop::now();
  fetch->stream = std::make_unique<io::TlsStream>(
      loop_, key_, io::TlsStream::Role::dials, *std::move(socket),
      io::TlsStream::Events{
          .on_open =
              [this, fetch = std::weak_ptr(fetch)] {
                const auto held = fetch.lock();
                held->open = true;
                held->heard_at = held->grown_at = io::EventLoop::now();
                const auto request =
                    wire::encode_peer_request({.content = held->ask.content,
                                               .size = held->ask.size,
                                               .offset = inbox_.find(held->ask.blob)->received});
                held->stream->write(request);  // the first bytes always fit
              },
          .on_bytes = [this,
                       fetch = std::weak_ptr(fetch)](ByteView bytes) { take(fetch.lock(), bytes); },
          .on_closed =
              [this, fetch = std::weak_ptr(fetch)](const Error& why) {
                const auto held = fetch.lock();
                const bool open = held->open;
                finish(held, open ? wire::FetchEnd::broken : wire::FetchEnd::unreached,
                       why.message.empty() ? "it closed the connection" : why.message);
              }});
  watch_silence(fetch);
}

void Peers::take(const std::shared_ptr<Fetch>& fetch, ByteView bytes) {
  fetch->heard_at = io::EventLoop::now();
  while (!bytes.empty()) {
    const auto part = fetch->reader.next(bytes);
    if (!part) {
      const bool missing = part.error().kind == ErrorKind::unavailable;
      return finish(fetch, missing ? wire::FetchEnd::missing : wire::FetchEnd::broken,
                    part.error().message);
    }
    if (!part->empty()) fetch->grown_at = fetch->heard_at;
    if (const Status stored = inbox_.append(fetch->ask.blob, *part); !stored) {
      return finish(fetch, wire::FetchEnd::broken, stored.error().message);
    }
  }
  if (!clients_.empty()) serve_later();
  if (inbox_.find(fetch->ask.blob)->received == fetch->ask.size) {
    finish(fetch, wire::FetchEnd::whole, {});
  }
}

void Peers::watch_silence(const std::shared_ptr<Fetch>& fetch) {
  const Duration patience = fetch->open ? kPeerSilence : kPeerGreeting;
  const Time now = io::EventLoop::now();
  if (now >= fetch->heard_at + patience) {
    fetch->timer = 0;
    return finish(fetch, fetch->open ? wire::FetchEnd::broken : wire::FetchEnd::unreached,
                  fmt::format("no data from it for {:.0f} s", seconds(patience)));
  }
  if (fetch->open && now >= fetch->grown_at + kStandstill) {
    fetch->timer = 0;
    return finish(fetch, wire::FetchEnd::broken,
                  fmt::format("it received no new data for {:.0f} s", seconds(kStandstill)));
  }
  fetch->timer = loop_.start_timer(
      now + kPeerPulse, [this, fetch = std::weak_ptr(fetch)] { watch_silence(fetch.lock()); });
}

void Peers::finish(const std::shared_ptr<Fetch>& fetch, wire::FetchEnd end, std::string detail) {
  // Ours may be the map's.
  const auto held = fetch;  // NOLINT(performance-unnecessary-copy-initialization)
  forget(held);
  answer(held->ask, end, std::move(detail));
}

void Peers::forget(const std::shared_ptr<Fetch>& fetch) {
  const auto held = fetch;  // NOLINT(performance-unnecessary-copy-initialization)
  loop_.cancel_timer(std::exchange(held->timer, 0));
  const auto stream = std::move(held->stream);  // not before its callbacks have let go of it
  const auto found = fetches_.find(held->ask.blob);
  if (found != fetches_.end() && found->second == held) fetches_.erase(found);
}

// Later: whoever asked is still at it.
void Peers::answer(const wire::FetchBlob& ask, wire::FetchEnd end, std::string detail) {
  const auto part = inbox_.find(ask.blob);
  wire::BlobFetched fetched{.blob = ask.blob,
                            .content = ask.content,
                            .attempt = ask.attempt,
                            .end = end,
                            .received = part ? part->received : 0,
                            .detail = std::move(detail)};
  if (part && part->received == part->size) fetched.end = wire::FetchEnd::whole;
  loop_.post([this, alive = alive_, fetched = std::move(fetched)]() mutable {
    if (*alive) on_fetched_(std::move(fetched));
  });
}

}  // namespace skyward::agent
