#include "skyward/engine/link_policy.h"
#include "skyward/spec/link_limits.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace skyward::engine {
namespace {

constexpr int kMostDoublings = 10;

}  // namespace

void LinkPolicy::on_welcome(Duration login) {
  login_ = std::max(login_, std::min(login, kSlowestLogin));
  welcomed_ = true;
  connected_ = true;
  tries_ = 0;
}

std::optional<Time> LinkPolicy::on_end(const End& end, Time now, double jitter) {
  if (std::exchange(connected_, false)) {
    broken_since_ = trouble_since_ = now;
    tries_ = 0;
    only_refused_ = true;
  } else {
    only_refused_ = only_refused_ && (end.refused || end.offline);
  }
  if (end.silent && !welcomed_) ++silent_;
  // A daemon such as sshd may restart; that does not end the agent.
  if (end.gone || end.permanent || (end.hopeless && !welcomed_)) return std::nullopt;
  // That time is not the node's, which goes on meanwhile. Without a lease it would be left behind.
  if (end.offline && welcomed_ && now - broken_since_ < limits_.lease) trouble_since_ = now;
  Duration patience = limits_.greet;
  if (welcomed_) {
    const bool is_down = tries_ > 0 && only_refused_ && !limits_.gateway;
    patience = is_down ? limits_.silence : reconnect_time();
  }
  const Duration longest = std::min(kFirstReconnectPause * (1 << std::min(tries_, kMostDoublings)),
                                    kLongestReconnectPause);
  const Time next = now + from_seconds(seconds(longest) * (1 + jitter) / 2);
  const Time last = trouble_since_ + patience;
  if (next <= last) return next;
  // Refusals arrive at once, so there is time for one last attempt at the end.
  if (welcomed_ && only_refused_ && now < last) return last;
  return std::nullopt;
}

Duration LinkPolicy::reconnect_time() const { return std::max(limits_.patience, 2 * login_); }

Duration patience_of(const PoolSpec& spec, bool gateway) {
  if (spec.reconnect_timeout) return *spec.reconnect_timeout;
  return gateway ? std::min(kGatewayReconnectTimeout, spec.lease) : kReconnectTimeout;
}

Duration decided_after(const PoolSpec& spec, bool gateway) {
  return spec.heartbeat_timeout + std::max(patience_of(spec, gateway), 2 * kSlowestLogin) +
         kLinkDecisionGrace;
}

std::uint64_t LinkPolicy::crossed(std::uint64_t bytes, Duration since, int uploads) {
  constexpr int kMostSharing = 16;  // the others may have stopped long ago
  const double share = double{kSlowestUpload} / std::clamp(uploads, 1, kMostSharing);
  return std::min(bytes, static_cast<std::uint64_t>(seconds(since) * share));
}

Duration LinkPolicy::silence(Time moved_at) const {
  if (connected_) return limits_.silence;
  if (!welcomed_) {
    const Duration left = trouble_since_ + limits_.greet - moved_at;
    const Duration longer = kFirstAttemptPatience * (1 << std::min(silent_, kMostDoublings));
    return std::max(kFirstAttemptPatience, std::min(left, longer));
  }
  // Of a long patience, an attempt gets enough for a way on which the first one was slow. The last
  // attempt gets the time that is left.
  const Duration share = std::clamp(limits_.patience / 2, kAttemptPatience, kFirstAttemptPatience);
  const Duration left = trouble_since_ + reconnect_time() - moved_at;
  return std::max(limits_.silence, std::min(left, std::max(share, 2 * login_)));
}

}  // namespace skyward::engine
