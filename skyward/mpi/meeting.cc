#include "skyward/mpi/meeting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "skyward/io/channel.h"
#include "skyward/io/deadline_timer.h"
#include "skyward/io/listener.h"
#include "skyward/io/tcp_socket.h"
#include "skyward/mpi/frame.h"

namespace skyward::mpi {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr Duration kRetryInterval = 20ms;
// How long worker 0 waits at the end until the others have closed their connections: the side that
// closes first keeps the port busy for a while.
constexpr Duration kFarewellTimeout = 5s;
// The others wait a little longer than worker 0: its answer says who is missing.
constexpr Duration kVisitorsPatience = 1s;
constexpr std::size_t kMissingShown = 8;
// Anybody on the nodes' network can come to worker 0: what a guest may say, and how many, beside
// one from each worker, may be there that have not said yet who they are.
constexpr std::uint64_t kLongestHello = std::uint64_t{64} << 10;
constexpr std::uint64_t kLongestAnswer = std::uint64_t{16} << 20;
constexpr std::ptrdiff_t kMaxStrangers = 64;

Outgoing message_of(const json& value) { return framed(SharedBytes(words_of(value))); }

json read(const io::Incoming& incoming) {
  const auto text = as_text(incoming.head).substr(kLengthBytes);
  return json::parse(text, nullptr, false);
}

std::string text_at(const json& value, const char* name) {
  const auto found = value.find(name);
  return found != value.end() && found->is_string() ? found->get<std::string>() : "";
}

int number_at(const json& value, const char* name) {
  const auto found = value.find(name);
  return found != value.end() && found->is_number_integer() ? found->get<int>() : -1;
}

std::string names_of(const std::vector<int>& ranks) {
  const auto shown = std::min(ranks.size(), kMissingShown);
  return fmt::format("worker{} {}{}", ranks.size() > 1 ? "s" : "",
                     fmt::join(ranks.begin(), ranks.begin() + static_cast<long>(shown), ", "),
                     ranks.size() > shown ? " …" : "");
}

// What worker 0 tells: what all have brought, or why they cannot begin.
json answer_of(const Met& met) {
  if (met) return {{"all", *met}};
  return {{met.error().kind == ErrorKind::invalid ? "mixed" : "missing", met.error().message}};
}

std::optional<Met> met_in(const json& answer, int workers) {
  if (!answer.is_object()) return std::nullopt;
  if (answer.contains("missing")) return fail(ErrorKind::timeout, text_at(answer, "missing"));
  if (answer.contains("mixed")) return fail(ErrorKind::invalid, text_at(answer, "mixed"));
  const auto all = answer.find("all");
  if (all == answer.end() || !all->is_array() || all->size() != static_cast<std::size_t>(workers)) {
    return std::nullopt;
  }
  std::vector<std::string> brought;
  for (const json& one : *all) brought.push_back(one.is_string() ? one.get<std::string>() : "");
  return brought;
}

class Either : public Meeting {
 public:
  Either(io::EventLoop& loop, MeetingOptions options, std::function<void(Met)> on_end)
      : loop_(loop),
        options_(std::move(options)),
        on_end_(std::move(on_end)),
        end_(io::EventLoop::now() + options_.timeout) {}
  ~Either() override { loop_.cancel_timer(timer_); }

 protected:
  void after(Duration duration, io::Callback callback) {
    loop_.cancel_timer(timer_);
    timer_ = loop_.start_timer(io::EventLoop::now() + duration, std::move(callback));
  }
  void end_with(Met met) {
    if (!on_end_) return;
    // Later: the caller may destroy this, and a channel's callback may be in progress.
    loop_.post([tell = std::exchange(on_end_, {}), told = std::move(met)] { tell(told); });
  }
  std::string point() const {
    return fmt::format("{}:{}", options_.place.head_addr, options_.place.head_port);
  }
  std::uint16_t port() const { return static_cast<std::uint16_t>(options_.place.head_port); }

  io::EventLoop& loop_;
  const MeetingOptions options_;
  std::function<void(Met)> on_end_;
  const Time end_;
  io::EventLoop::TimerId timer_ = 0;
};

class Alone final : public Either {
 public:
  using Either::Either;
  void begin() { end_with(std::vector{options_.brought}); }
};

// Worker 0.
class Hosting final : public Either {
 public:
  using Either::Either;

  void begin() {
    seats_[0] = options_.brought;
    port_end_ = std::min(end_, io::EventLoop::now() + options_.port_timeout);
    listen();
  }

 private:
  struct Guest {
    std::unique_ptr<io::Channel> channel{};
    Time hello_end{};
    std::optional<int> rank{};
  };

  void listen() {
    auto bound = io::listen_tcp(options_.place.head_addr, port());
    if (!bound && bound.error().kind == ErrorKind::unsupported) {
      // A router has that address.
      bound = io::listen_tcp(options_.place.head_addr.contains(':') ? "::" : "0.0.0.0", port());
    }
    if (bound) {
      listener_.emplace(loop_, std::move(bound->socket),
                        [this](io::FileDescriptor socket) { welcome(std::move(socket)); });
      return after(end_ - io::EventLoop::now(), [this] { name_missing(); });
    }
    if (io::EventLoop::now() < port_end_ && bound.error().kind != ErrorKind::invalid) {
      return after(kRetryInterval, [this] { listen(); });
    }
    end_with(fail(ErrorKind::timeout,
                  fmt::format("worker 0 {}. The workers meet there. Another program on node 0, or "
                              "a leftover of an earlier call, uses that port",
                              bound.error().message)));
  }

  void welcome(io::FileDescriptor socket) {
    if (std::ranges::count_if(guests_, is_stranger) >=
        options_.place.total_workers() + kMaxStrangers) {
      return;  // a worker comes again
    }
    const int number = next_guest_++;
    Guest& guest = guests_[number];
    guest.hello_end = io::EventLoop::now() + options_.hello_timeout;
    guest.channel = std::make_unique<io::Channel>(
        loop_, std::move(socket), io::FileDescriptor(), kLengthBytes, cut_short<kLongestHello>,
        io::Channel::Handlers{
            .on_message = [this, number](const io::Incoming& said) { hear(number, read(said)); },
            .on_closed = [this, number](const Error&) { leave(number); }});
    hello_timer_.arm();
  }

  static bool is_stranger(const std::pair<const int, Guest>& one) { return !one.second.rank; }

  // Of the stranger that came first.
  Time hello_end() const {
    const auto first = std::ranges::find_if(guests_, is_stranger);
    return first == guests_.end() ? kNever : first->second.hello_end;
  }

  void drop_silent() {
    std::erase_if(guests_, [now = io::EventLoop::now()](const auto& one) {
      return is_stranger(one) && one.second.hello_end <= now;
    });
  }

  void hear(int number, const json& said) {
    const InstanceInfo& place = options_.place;
    const int rank = said.is_object() ? number_at(said, "rank") : -1;
    if (guests_[number].rank || rank <= 0 || rank >= place.total_workers() ||
        text_at(said, "job") != place.job_id || number_at(said, "of") != place.total_workers()) {
      return leave(number);  // of another pool, or no worker at all
    }
    // A worker that lost its connection comes again.
    std::erase_if(guests_, [&](const auto& one) { return one.second.rank == rank; });
    guests_[number].rank = rank;
    const std::string call = text_at(said, "call");
    if (call != options_.call) {
      return tell(fail(ErrorKind::invalid,
                       fmt::format("worker 0 is in {}, but worker {} is in {}: two distributed "
                                   "calls at the same time block each other; send one after the "
                                   "other",
                                   options_.call, rank, call)));
    }
    seats_[rank] = text_at(said, "brought");
    if (seats_.size() < static_cast<std::size_t>(place.total_workers())) return;
    std::vector<std::string> all;
    for (const auto& [_, brought] : seats_) all.push_back(brought);
    tell(std::move(all));
  }

  void name_missing() {
    std::vector<int> missing;
    for (int rank = 0; rank < options_.place.total_workers(); ++rank) {
      if (!seats_.contains(rank)) missing.push_back(rank);
    }
    tell(fail(ErrorKind::timeout,
              fmt::format("{}: {} of {} did not arrive at {} in {:g} s. A distributed function "
                          "runs on every worker at the same time: send it with `@`, and nothing "
                          "else beside it",
                          options_.call, names_of(missing), options_.place.total_workers(), point(),
                          seconds(options_.timeout))));
  }

  // Strangers are sent away.
  void tell(Met met) {
    if (told_) return;
    listener_.reset();
    std::erase_if(guests_, is_stranger);
    for (auto& [_, guest] : guests_) guest.channel->send(message_of(answer_of(met)));
    told_ = std::move(met);
    after(kFarewellTimeout, [this] { end_with(*told_); });
    end_if_alone();
  }

  void leave(int number) {
    guests_.erase(number);
    end_if_alone();
  }

  void end_if_alone() {
    if (told_ && guests_.empty()) end_with(*told_);
  }

  Time port_end_{};
  std::optional<io::Listener> listener_;
  std::map<int, Guest> guests_;
  io::DeadlineTimer hello_timer_{loop_, [this] { return hello_end(); }, [this] { drop_silent(); }};
  int next_guest_ = 0;
  std::map<int, std::string> seats_;  // what each worker brought, by rank
  std::optional<Met> told_;
};

// Any other worker.
class Visiting final : public Either {
 public:
  using Either::Either;
  void begin() { visit(); }

 private:
  void visit() {
    channel_.reset();
    if (io::EventLoop::now() > end_ + kVisitorsPatience) {
      return end_with(fail(
          ErrorKind::timeout,
          fmt::format("{}: worker 0 was not at {} in {:g} s. A distributed function runs on every "
                      "worker at the same time: send it with `@`",
                      options_.call, point(), seconds(options_.timeout))));
    }
    auto socket = io::dial_tcp(options_.place.head_addr, port());
    if (!socket) {
      return socket.error().kind == ErrorKind::invalid ? end_with(fail(socket)) : visit_later();
    }
    channel_ = std::make_unique<io::Channel>(
        loop_, *std::move(socket), io::FileDescriptor(), kLengthBytes, cut_short<kLongestAnswer>,
        io::Channel::Handlers{.on_message = [this](const io::Incoming& said) { hear(read(said)); },
                              .on_closed = [this](const Error&) { visit_later(); }});
    channel_->send(message_of({{"job", options_.place.job_id},
                               {"of", options_.place.total_workers()},
                               {"call", options_.call},
                               {"rank", options_.place.global_worker_index()},
                               {"brought", options_.brought}}));
    // A host that is gone says nothing.
    after(end_ + kVisitorsPatience + kRetryInterval - io::EventLoop::now(), [this] { visit(); });
  }

  // Not listening yet, or another program; a connection to itself says what was said to it.
  void visit_later() {
    after(kRetryInterval, [this] { visit(); });
  }

  void hear(const json& answer) {
    const std::optional<Met> met = met_in(answer, options_.place.total_workers());
    channel_.reset();
    if (!met) return visit_later();
    loop_.cancel_timer(std::exchange(timer_, 0));
    end_with(*met);
  }

  std::unique_ptr<io::Channel> channel_;
};

template <typename Kind>
std::unique_ptr<Meeting> begin_as(io::EventLoop& loop, MeetingOptions options,
                                  std::function<void(Met)> on_end) {
  auto meeting = std::make_unique<Kind>(loop, std::move(options), std::move(on_end));
  meeting->begin();
  return meeting;
}

}  // namespace

std::unique_ptr<Meeting> Meeting::begin(io::EventLoop& loop, MeetingOptions options,
                                        std::function<void(Met)> on_end) {
  if (options.place.total_workers() == 1) {
    return begin_as<Alone>(loop, std::move(options), std::move(on_end));
  }
  if (options.place.global_worker_index() == 0) {
    return begin_as<Hosting>(loop, std::move(options), std::move(on_end));
  }
  return begin_as<Visiting>(loop, std::move(options), std::move(on_end));
}

}  // namespace skyward::mpi
