#include "skyward/agent/preemption_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/base/guarded.h"
#include "skyward/base/text.h"
#include "skyward/base/utc.h"
#include "skyward/io/machine.h"

namespace skyward::agent {
namespace {

constexpr std::string_view kTokenPath = "/latest/api/token";
constexpr std::string_view kActionPath = "/latest/meta-data/spot/instance-action";
constexpr Duration kTokenLife = std::chrono::hours(6);
constexpr Duration kTokenMargin = std::chrono::minutes(1);
constexpr Duration kUsualNotice = std::chrono::minutes(2);
constexpr Duration kLongestNotice = std::chrono::hours(1);
constexpr Duration kAnswerTimeout = std::chrono::seconds(2);
constexpr std::int64_t kMicroseconds = 1'000'000;

constexpr int kOk = 200;
constexpr int kUnauthorized = 401;

// The text behind "name": in a flat JSON object of strings, as EC2 sends it.
std::optional<std::string> text_field(std::string_view json, std::string_view name) {
  const std::string quoted = fmt::format("\"{}\"", name);
  const std::size_t key = json.find(quoted);
  if (key == json.npos) return std::nullopt;
  const std::size_t colon = json.find_first_not_of(" \t\r\n", key + quoted.size());
  if (colon == json.npos || json[colon] != ':') return std::nullopt;
  const std::size_t open = json.find_first_not_of(" \t\r\n", colon + 1);
  if (open == json.npos || json[open] != '"') return std::nullopt;
  const std::size_t close = json.find('"', open + 1);
  if (close == json.npos) return std::nullopt;
  return std::string(json.substr(open + 1, close - open - 1));
}

}  // namespace

bool may_ask_ec2() {
  const auto disabled = io::environment_variable("AWS_EC2_METADATA_DISABLED");
  return !disabled || (*disabled != "true" && *disabled != "True" && *disabled != "TRUE");
}

io::PlainRequest next_request(const Ec2Watch& watch, Time now) {
  io::PlainRequest request;
  if (watch.token.empty() || now + kTokenMargin >= watch.token_ends) {
    request.method = "PUT";
    request.path = kTokenPath;
    request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds",
                        std::to_string(kTokenLife / std::chrono::seconds(1))}};
  } else {
    request.path = kActionPath;
    request.headers = {{"X-aws-ec2-metadata-token", watch.token}};
  }
  return request;
}

NoticeReply on_reply(Ec2Watch& watch, const Result<io::PlainReply>& reply, Time now,
                     std::int64_t wall_s) {
  if (!reply) return {};
  if (reply->request_path == kTokenPath) {
    const bool clean = reply->body.find_first_of("\r\n") == std::string::npos;
    if (reply->status != kOk || reply->body.empty() || !clean) return {};
    watch.token = reply->body;
    watch.token_ends = now + kTokenLife;
    return {.ask_again = true};
  }
  if (reply->status == kUnauthorized) {
    watch.token.clear();
    return {};
  }
  if (reply->status != kOk) return {};
  return {.announcement = parse_instance_action(reply->body, wall_s)};
}

std::optional<Announcement> parse_instance_action(std::string_view json, std::int64_t wall_s) {
  const auto action = text_field(json, "action");
  if (!action || action->empty()) return std::nullopt;
  Announcement found{.left = kUsualNotice, .action = *action};
  if (const auto time = parse_moment(text_field(json, "time").value_or(""))) {
    constexpr std::int64_t kMost_s = kLongestNotice / std::chrono::seconds(1);
    found.left = std::chrono::seconds(std::clamp<std::int64_t>(*time - wall_s, 0, kMost_s));
  }
  return found;
}

PreemptionWatch::PreemptionWatch(io::EventLoop& loop, Source source, OnNotice on_notice)
    : loop_(loop),
      source_(std::move(source)),
      on_notice_(std::move(on_notice)),
      alive_(std::make_shared<bool>(true)) {
  ask();
}

PreemptionWatch::~PreemptionWatch() {
  *alive_ = false;
  loop_.cancel_timer(timer_);
}

void PreemptionWatch::ask() {
  timer_ = 0;
  io::PlainRequest request = next_request(watch_, io::EventLoop::now());
  request.address = source_.address;
  request.port = source_.port;
  auto reply = std::make_shared<std::optional<Result<io::PlainReply>>>();
  loop_.run_blocking(
      [request = std::move(request), reply] {
        *reply = guarded([&] { return io::send_plain_http(request, kAnswerTimeout); });
      },
      [this, reply, alive = alive_] {
        if (*alive) hear(**reply);
      });
}

void PreemptionWatch::hear(const Result<io::PlainReply>& reply) {
  const NoticeReply heard =
      on_reply(watch_, reply, io::EventLoop::now(), io::EventLoop::wall_us() / kMicroseconds);
  if (heard.announcement) {
    return on_notice_(heard.announcement->left,
                      fmt::format("EC2 will {} this machine", heard.announcement->action));
  }
  if (heard.ask_again) return ask();
  timer_ = loop_.start_timer(io::EventLoop::now() + source_.pause, [this] { ask(); });
}

}  // namespace skyward::agent
