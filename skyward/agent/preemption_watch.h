#pragma once

// Watches for the preemption notice of this machine. EC2 gives it through the metadata service at a
// link-local address: the watch requests a token, and with it, every few seconds, the "instance
// action". 404 means that nothing is planned.
//
// Pure functions decide what to request next and what a reply means; PreemptionWatch sends the
// requests.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/plain_http.h"

namespace skyward::agent {

inline constexpr const char* kEc2Notice = "ec2";  // Configure::preemption

// Whether the user of this machine allows it: AWS_EC2_METADATA_DISABLED, as in AWS's own tools.
bool may_ask_ec2();

// The conversation with EC2's metadata service.
struct Ec2Watch {
  std::string token;
  Time token_ends{};
};

struct Announcement {
  Duration left{};
  std::string action;  // "terminate", "stop", "hibernate"
  bool operator==(const Announcement&) const = default;
};

io::PlainRequest next_request(const Ec2Watch& watch, Time now);

// The meaning of a reply. `ask_again`: at once, not after a pause.
struct NoticeReply {
  bool ask_again = false;
  std::optional<Announcement> announcement;
};
NoticeReply on_reply(Ec2Watch& watch, const Result<io::PlainReply>& reply, Time now,
                     std::int64_t wall_s);

// From {"action": "terminate", "time": "2030-01-31T08:22:00Z"}; without a readable time, EC2's two
// minutes are assumed. Empty when there is no action. `wall_s`: seconds since 1970, now.
std::optional<Announcement> parse_instance_action(std::string_view json, std::int64_t wall_s);

class PreemptionWatch {
 public:
  struct Source {
    std::string address = "169.254.169.254";
    int port = 80;
    Duration pause = std::chrono::seconds(5);  // as EC2 recommends
  };
  // `on_notice` is called once, on the loop.
  using OnNotice = std::function<void(Duration left, std::string reason)>;

  PreemptionWatch(io::EventLoop& loop, Source source, OnNotice on_notice);
  ~PreemptionWatch();
  PreemptionWatch(const PreemptionWatch&) = delete;
  PreemptionWatch& operator=(const PreemptionWatch&) = delete;

 private:
  void ask();
  void hear(const Result<io::PlainReply>& reply);

  io::EventLoop& loop_;
  const Source source_;
  OnNotice on_notice_;
  Ec2Watch watch_;
  std::shared_ptr<bool> alive_;  // shared with a request that may outlast this object
  io::EventLoop::TimerId timer_ = 0;
};

}  // namespace skyward::agent
