#include "skyward/engine/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/base/guarded.h"
#include "skyward/engine/received_blob.h"
#include "skyward/io/shared_memory.h"
#include "skyward/io/tcp_socket.h"
#include "skyward/spec/limits.h"
#include "skyward/spec/link_limits.h"
#include "skyward/wire/blob_memory.h"
#include "skyward/wire/codec.h"

namespace skyward::engine {
namespace {

// For a command whose agent was told to end: to see the end of its input and clean up.
constexpr Duration kStopGrace = 500ms;

// For reading while it is sent; the blob's memory is not used again before.
Result<SharedBytes> bytes_of(const wire::Blob& blob) {
  auto mapped = io::map_bytes(blob.descriptor, blob.size);
  if (!mapped) return mapped;
  using Keep = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
  return SharedBytes(std::make_shared<Keep>(mapped->owner, blob.storage), mapped->view);
}

// Mapped now, however late somebody looks at it: a descriptor more or less matters.
Status map_all(wire::Payload& payload) {
  for (wire::Buffer& buffer : payload.buffers) {
    if (!buffer.in_blob()) continue;
    const auto received = std::const_pointer_cast<ReceivedBlob>(
        std::static_pointer_cast<const ReceivedBlob>(buffer.blob.storage));
    if (const auto mapped = received->map(buffer.blob.size); !mapped) return fail(mapped);
    buffer.blob.descriptor = -1;
    buffer.blob.id = BlobId{};
  }
  return {};
}

Result<std::vector<EntryFile>> inspect_agents(const std::vector<std::string>& paths) {
  std::vector<EntryFile> agents;
  for (const std::string& path : paths) {
    auto agent = inspect_agent(path);
    if (!agent) return fail(agent);
    agents.push_back(*std::move(agent));
  }
  return agents;
}

EngineEndpoint::Options options_of(wire::Hello hello, const provider::Connection& connection,
                                   bool socket, const LinkPolicy::Limits& limits) {
  hello.descriptors = socket;
  const auto seed = static_cast<std::uint32_t>(io::EventLoop::now().time_since_epoch().count()) +
                    hello.node.value;
  return {
      .hello = std::move(hello), .reconnects = connection.shell, .limits = limits, .seed = seed};
}

}  // namespace

EngineLink::EngineLink(io::EventLoop& loop, wire::Hello hello, provider::Connection connection,
                       bool socket, std::uint32_t life, const LinkPolicy::Limits& limits,
                       LostAgents& lost_agents, Events events)
    : loop_(loop),
      events_(std::move(events)),
      connection_(std::move(connection)),
      life_(life),
      pool_(hello.pool),
      node_(hello.node),
      socket_(socket),
      lost_agents_(lost_agents),
      endpoint_(options_of(std::move(hello), connection_, socket, limits),
                {.read = bytes_of,
                 .make = wire::make_room<io::SharedMemory, ReceivedBlob>,
                 .hold = map_all},
                *this, io::EventLoop::now()),
      timer_(
          loop, [this] { return endpoint_.next_deadline(); },
          [this] { endpoint_.on_timer(moved_bytes(), io::EventLoop::now()); }),
      alive_(std::make_shared<bool>(true)) {
  if (connection_.shell) {
    inspect();
  } else {
    endpoint_.start(io::EventLoop::now());
  }
}

EngineLink::~EngineLink() {
  *alive_ = false;
  loop_.cancel_timer(closing_);
}

// ---- making connections

void EngineLink::inspect() {
  auto agents = std::make_shared<Result<std::vector<EntryFile>>>();
  loop_.run_blocking(
      [agents, paths = connection_.agents] {
        *agents = guarded([&] { return inspect_agents(paths); });
      },
      [this, alive = alive_, agents] {
        if (!*alive || endpoint_.is_over()) return;
        if (!*agents) {
          return endpoint_.give_up(ErrorKind::invalid, agents->error().message);
        }
        agents_ = **agents;
        endpoint_.start(io::EventLoop::now());
        timer_.arm();
      });
}

void EngineLink::connect() {
  LinkAttempt::Entry entry;
  if (connection_.shell) {
    entry.agents = agents_;
    for (const provider::Upload& upload : connection_.uploads) {
      entry.files.push_back({.path = upload.path,
                             .hash = upload.sha256,
                             .place = "files/" + upload.sha256,
                             .unless = upload.unless,
                             .size = upload.size,
                             .file = upload.file});
    }
    entry.line = entry_line(entry.agents, entry.files, place(), endpoint_.was_welcomed(),
                            lost_agents_.text());
  }
  auto owner = std::make_shared<const LinkAttempt*>(nullptr);
  attempt_ = std::make_unique<LinkAttempt>(
      loop_, connection_, socket_, std::move(entry),
      LinkAttempt::Events{
          .on_reached =
              [this] {
                if (!reached_at_) reached_at_ = io::EventLoop::now();
              },
          .on_open =
              [this] {
                heard_of_ = true;
                endpoint_.on_open();
                attempt_->flush();
              },
          .on_frame = [this](io::Incoming incoming) { receive(std::move(incoming)); },
          .on_idle = [this] { endpoint_.on_idle(); },
          .on_end = [this](LinkAttempt::End end) { attempt_ended(std::move(end)); },
          .on_gone = [this, owner] { attempt_gone(*owner); }});
  *owner = attempt_.get();
}

EntryPlace EngineLink::place() const { return {pool_, node_, life_}; }

void EngineLink::hang_up(Duration grace) {
  attempt_->stop(grace);
  ending_.push_back(std::move(attempt_));
}

void EngineLink::attempt_ended(LinkAttempt::End end) {
  // A router that has no way to the one host says the same, and so does ssh of the last of a host's
  // addresses.
  if (end.means.offline) end.means.offline = !io::has_network();
  const std::uint64_t moved = moved_bytes();
  ending_.push_back(std::move(attempt_));
  endpoint_.on_end(std::move(end), moved, io::EventLoop::now());
  timer_.arm();
  if (!endpoint_.is_over()) return;
  loop_.cancel_timer(std::exchange(closing_, 0));
  schedule_gone();
}

void EngineLink::attempt_gone(const LinkAttempt* attempt) {
  std::erase_if(ending_, [&](const auto& entry) { return entry.get() == attempt; });
  if (endpoint_.is_over()) schedule_gone();
}

// ---- frames

void EngineLink::send(wire::Message message) {
  endpoint_.send(std::move(message));
  flush_later();
  timer_.arm();
}

// With all that this turn of the loop sends.
void EngineLink::flush_later() {
  if (!endpoint_.has_unsent() || std::exchange(flush_posted_, true)) return;
  loop_.post([this, alive = alive_] {
    if (!*alive) return;
    flush_posted_ = false;
    endpoint_.flush();
  });
}

void EngineLink::write(const wire::Message& message, wire::Envelope envelope) {
  attempt_->send(wire::encode(message, envelope));
}

void EngineLink::receive(io::Incoming incoming) {
  const ByteView head = ByteView(incoming.head).subspan(wire::kFramePrefixBytes);
  endpoint_.on_frame(wire::decode(head, std::move(incoming.body),
                                  wire::received_blobs<io::FileDescriptor, ReceivedBlob>(
                                      std::move(incoming.descriptors))),
                     io::EventLoop::now());
  timer_.arm();
}

void EngineLink::on_trouble(std::string why) {
  if (events_.on_trouble) events_.on_trouble(std::move(why));
}

void EngineLink::on_unreached(Error why) {
  if (events_.on_unreached) events_.on_unreached(std::move(why));
}

void EngineLink::on_recovered(Duration after) {
  if (events_.on_recovered) events_.on_recovered(after);
}

void EngineLink::on_not_reconnected() {
  if (events_.on_not_reconnected) events_.on_not_reconnected();
}

void EngineLink::on_offline() {
  if (events_.on_offline) events_.on_offline();
}

// ---- the end

void EngineLink::on_lost(Error why) {
  note_lost_agent();
  events_.on_lost(std::move(why));
  schedule_gone();
}

void EngineLink::close(Duration grace) {
  if (endpoint_.is_over()) return;
  if (endpoint_.was_told_to_end()) grace = std::min(grace, kStopGrace);
  const bool told = endpoint_.close();
  note_lost_agent();
  if (!attempt_) return schedule_gone();
  if (!told) return hang_up(grace);
  attempt_->flush();
  // The agent closes the connection when it has cleaned up.
  closing_ = loop_.start_timer(io::EventLoop::now() + grace, [this] {
    closing_ = 0;
    if (!attempt_) return;
    attempt_->stop(Duration{});
    attempt_ended({});
  });
}

void EngineLink::hurry() {
  if (std::exchange(hurried_, true) || sweep_until_ == kNever) return;
  sweep_until_ = std::min(sweep_until_, io::EventLoop::now() + kHurriedSweepTimeout);
  if (!sweep_) return;
  loop_.cancel_timer(closing_);
  limit_sweep();
}

// The agent did not take its leave: what it may have left on the node is ended there. Tried again
// where the command does not get there.
void EngineLink::sweep() {
  const Time now = io::EventLoop::now();
  // A machine that has been silent throughout will hardly answer now; its agent's lease ends it.
  const bool hopeless = endpoint_.is_hopeless();
  if (sweep_until_ == kNever) {
    sweep_until_ = now + (hopeless ? kHopelessSweepTimeout : kSweepTimeout);
    if (endpoint_.has_volumes() && !hopeless) sweep_until_ += kUnmountTimeout;
    if (hurried_) sweep_until_ = std::min(sweep_until_, now + kHurriedSweepTimeout);
  }
  io::SpawnOptions options{.command = connection_.command,
                           .environment = connection_.environment,
                           .directory = connection_.directory,
                           .new_session = true};
  options.command.push_back(sweep_line(agents_, place()));
  auto process = io::Process::spawn(loop_, options, [this](const io::ExitStatus& status) {
    loop_.cancel_timer(std::exchange(closing_, 0));
    sweep_.reset();
    swept_ = status.code == 0 && status.signal == 0;
    if (swept_) return schedule_gone();
    sweep_again();
  });
  if (process) {
    sweep_ = *std::move(process);
    limit_sweep();
  } else if (process.error().kind == ErrorKind::exhausted) {
    sweep_again();  // processes, open files or memory may be free later
  } else {
    schedule_gone();
  }
}

void EngineLink::sweep_again() {
  const Time next = io::EventLoop::now() + kSweepPause;
  if (next >= sweep_until_) return schedule_gone();
  closing_ = loop_.start_timer(next, [this] {
    closing_ = 0;
    sweep();
  });
}

void EngineLink::limit_sweep() {
  closing_ = loop_.start_timer(sweep_until_, [this] {
    sweep_->kill_group();
    // One that the kernel does not let end (a silent file server) holds nobody up.
    closing_ = loop_.start_timer(io::EventLoop::now() + kKillTimeout, [this] {
      closing_ = 0;
      sweep_.reset();
      schedule_gone();
    });
  });
}

// Until it has taken its leave, or was swept: the next node on its machine ends it.
void EngineLink::note_lost_agent() {
  if (connection_.shell && heard_of_) lost_agents_.add(node_, life_);
}

// Later, so that the owner may destroy the link in the callback.
void EngineLink::schedule_gone() {
  if (attempt_ || !ending_.empty() || sweep_ || closing_ != 0 || gone_told_) return;
  if (connection_.shell && heard_of_ && !endpoint_.has_taken_leave() && sweep_until_ == kNever) {
    return sweep();
  }
  gone_told_ = true;
  if (swept_ || endpoint_.has_taken_leave()) lost_agents_.remove(node_, life_);
  loop_.post([this, alive = alive_] {
    if (*alive) events_.on_gone();
  });
}

}  // namespace skyward::engine
