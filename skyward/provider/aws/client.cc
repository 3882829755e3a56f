#include "skyward/provider/aws/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "skyward/provider/aws/arn.h"
#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/rest/exchange.h"

namespace skyward::provider::aws {

namespace {

// Credentials that end sooner are renewed first.
constexpr std::int64_t kRenewBefore_s = 300;
// While the old ones hold, renewing them may take so long, and is tried again after so long.
constexpr Duration kRenewTime = std::chrono::seconds(15);
constexpr Duration kRenewPause = std::chrono::seconds(30);

std::string_view version_of(std::string_view service) {
  return service == "ec2" ? "2016-11-15" : "2011-06-15";
}

std::string_view target_of(std::string_view service) {
  return service == "ssm" ? "AmazonSSM." : "AWSPriceListService.";
}

// EC2 says RequestExpired of a session that is over, and of a clock that is wrong; the latter has
// been looked into by then.
bool credentials_are_over(std::string_view code) {
  constexpr std::array<std::string_view, 4> kSessionCodes = {
      "ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"};
  for (const std::string_view one : kSessionCodes) {
    if (code == one) return true;
  }
  return false;
}

}  // namespace

Client Client::in_region(const std::string& region) const {
  Client other = *this;
  other.region_ = region;
  return other;
}

void Client::pin_account(std::string account) {
  account_ = std::move(account);
  checked_key_ = credentials_ ? credentials_->keys.access_key_id : "";
}

std::int64_t Client::clock_difference_s() const { return clock_.told.value_or(clock_.seconds); }

std::int64_t Client::clock_ahead_s() const { return clock_difference(clock_difference_s()); }

std::int64_t Client::wall_s() const { return world_.wall_s() + clock_ahead_s(); }

Status Client::check_account(const Credentials& found, Time deadline) {
  if (account_.empty() || found.keys.access_key_id == checked_key_) return {};
  Client asking = *this;
  asking.account_.clear();
  asking.credentials_ = found;
  const auto arn = Ec2Api(asking).caller(deadline);
  if (!arn) return std::unexpected(to_error(arn.error(), "STS GetCallerIdentity"));
  const std::string account = account_of(*arn);
  if (account != account_) {
    return fail(ErrorKind::denied,
                fmt::format("the AWS credentials now belong to account {} ({}), but the pool is in "
                            "account {}; Skyward sent no request to the other account",
                            account, found.source, account_),
                "restore the credentials of that account; its machines terminate themselves when "
                "their lease expires, and 'skyward gc' terminates them at once");
  }
  checked_key_ = found.keys.access_key_id;
  return {};
}

Result<Credentials> Client::credentials(Time deadline) {
  if (!credentials_) return renew(deadline);
  const std::int64_t left_s =
      credentials_->expires_s ? *credentials_->expires_s - wall_s() : kRenewBefore_s + 1;
  if (left_s > kRenewBefore_s) return *credentials_;
  if (left_s <= 0) return renew(deadline);
  if (world_.now() < renew_from_) return *credentials_;
  const Credentials old = *credentials_;
  Result<Credentials> found = renew(std::min(deadline, world_.now() + kRenewTime));
  if (found) return found;
  renew_from_ = world_.now() + kRenewPause;
  return old;
}

// Tools rewrite the files of ~/.aws every hour, so they are read again.
Result<Credentials> Client::renew(Time deadline) {
  const std::string profile =
      configuration_.profile_was_asked_for ? configuration_.profile : std::string();
  if (auto fresh = load_configuration(world_, profile)) configuration_ = *std::move(fresh);
  Result<Credentials> found = find_credentials(world_, configuration_, region_, deadline);
  if (!found) return found;
  if (Status same = check_account(*found, deadline); !same) return fail(same);
  credentials_ = *found;
  return found;
}

ApiResult<io::HttpReply> Client::send(ApiCall call, std::string_view service, Time deadline) {
  auto endpoint = find_endpoint(world_, configuration_, service, region_);
  if (!endpoint) return std::unexpected(not_sent(endpoint.error()));
  call.endpoint = *std::move(endpoint);
  // The region of the signature is the one in the service's address.
  call.region = service == "pricing" ? pricing_region(region_) : region_;
  call.signing_name = service;
  call.time_limit = request_timeout_;
  bool maybe_done = false;
  for (bool renewed = false;; renewed = true) {
    const Result<Credentials> credentials = this->credentials(deadline);
    if (!credentials) {
      ApiError without = not_sent(credentials.error());
      without.maybe_done = maybe_done;
      return std::unexpected(std::move(without));
    }
    auto reply = send_call(world_, configuration_, call, &credentials->keys, clock_, {}, deadline);
    if (reply) return reply;
    maybe_done = maybe_done || reply.error().maybe_done;
    reply.error().maybe_done = maybe_done;
    if (renewed || !credentials_are_over(reply.error().code)) return reply;
    credentials_.reset();
  }
}

ApiResult<XmlElement> Client::query(std::string_view service, std::string_view action,
                                    Parameters parameters, Time deadline) {
  parameters.insert(parameters.begin(), {{"Action", std::string(action)},
                                         {"Version", std::string(version_of(service))}});
  ApiCall call;
  call.headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
  call.body = form_encode(parameters);
  const auto reply = send(std::move(call), service, deadline);
  if (!reply) return std::unexpected(reply.error());
  Result<XmlElement> root = parse_xml(reply->body);
  // Else a proxy's page would be an empty list, or the end of machines.
  if (root && root->name != fmt::format("{}Response", action)) {
    root = fail(ErrorKind::unavailable,
                fmt::format("the reply is not Amazon's: it begins with <{}>", root->name),
                "check the proxy settings, and whether this network asks you to sign in");
  }
  if (!root) return std::unexpected(no_answer(root.error()));
  return *std::move(root);
}

ApiResult<std::string> Client::json(std::string_view service, std::string_view action,
                                    std::string body, Time deadline) {
  ApiCall call;
  call.headers = {{"Content-Type", "application/x-amz-json-1.1"},
                  {"X-Amz-Target", std::string(target_of(service)) + std::string(action)}};
  call.body = std::move(body);
  auto reply = send(std::move(call), service, deadline);
  if (!reply) return std::unexpected(reply.error());
  return std::move(reply->body);
}

}  // namespace skyward::provider::aws
