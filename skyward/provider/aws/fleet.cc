#include "skyward/provider/aws/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <utility>

#include "skyward/provider/aws/groups.h"
#include "skyward/provider/marks.h"

namespace skyward::provider::aws {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostFilterValues = 200;

Stage stage_of(const Ec2Instance& told) {
  if (is_gone(told)) return Stage::terminated;
  return told.state == "running" && !told.private_ip.empty() ? Stage::running : Stage::pending;
}

// Why a machine ends. Where the account is at fault, Amazon's code may be "Server.InternalError",
// and the message begins with the cause: "Client.VolumeLimitExceeded: Volume limit exceeded".
std::string_view cause_of(const Ec2Instance& told) {
  const std::string_view message = told.state_message;
  if (!message.starts_with("Client.")) return told.state_reason;
  return message.substr(0, message.find_first_of(": "));
}

// What to do about "Client.InternalError" and the like, which no other zone mends.
std::string hint_for(const Ec2Instance& told) {
  const std::string_view cause = cause_of(told);
  if (cause == "Client.InternalError" || cause.starts_with("Client.InvalidKMSKey.")) {
    return fmt::format(
        "its disks are encrypted with a KMS key that is disabled or that the credentials may not "
        "use: enable it, or allow them kms:CreateGrant, kms:Decrypt, "
        "kms:GenerateDataKeyWithoutPlaintext, kms:ReEncrypt* and kms:DescribeKey on it{}",
        told.spot ? ", and create a grant on it for the role AWSServiceRoleForEC2Spot" : "");
  }
  const std::size_t dot = cause.find('.');
  if (dot == std::string_view::npos || cause.starts_with("Server.")) return {};
  return std::string(meaning_of(cause.substr(dot + 1), 400).hint);
}

// `ahead_s`: Amazon's clock, of this computer's.
MachineStatus to_status(const Ec2Instance& told, std::int64_t ahead_s) {
  const std::string_view cause = cause_of(told);
  MachineStatus out{.instance = {.id = told.id, .spot = told.spot, .private_ip = told.private_ip},
                    .zone = told.zone,
                    .stage = stage_of(told),
                    .reason = told.state_reason,
                    .message = told.state_message,
                    .hint = hint_for(told),
                    .capacity = cause.empty() || cause.starts_with("Server.")};
  if (told.ended_s) out.ended_s = *told.ended_s - ahead_s;
  if (!told.public_ip.empty()) out.instance.public_ip = told.public_ip;
  out.instance.instance_type = told.type;
  return out;
}

Result<std::vector<MachineStatus>> to_status(const Client& client,
                                             const Result<std::vector<Ec2Instance>>& told) {
  if (!told) return fail(told);
  const std::int64_t ahead_s = client.clock_ahead_s();
  std::vector<MachineStatus> out;
  for (const Ec2Instance& one : *told) out.push_back(to_status(one, ahead_s));
  return out;
}

}  // namespace

bool is_gone(const Ec2Instance& instance) {
  return instance.state == "shutting-down" || instance.state == "terminated";
}

Fleet::Fleet(Client& client, std::string pool, LaunchRequest common)
    : client_(client),
      pool_(std::move(pool)),
      common_(std::move(common)),
      facts_{.cloud = "AWS",
             .region = client.region(),
             .listing_lag = 45s,
             // "Eventual consistency" in the EC2 API's guide: back off "up to about five minutes".
             .known_after = 300s,
             .release_time = 90s,
             // kUnclaimed, and as long again for the listing.
             .unanswered_limit_s = 1800,
             .ends_itself = true} {}

Error Fleet::explained(const ApiError& error, std::string_view action) const {
  return to_error(error, fmt::format("EC2 {} in {}", action, client_.region()));
}

std::expected<std::vector<std::string>, LaunchRefusal> Fleet::launch(const LaunchBatch& batch,
                                                                     Time deadline) {
  LaunchRequest request = common_;
  request.client_token = batch.token;
  request.count = batch.count;
  request.type = batch.place.type;
  request.subnet = batch.place.subnet;
  request.spot = batch.spot;
  request.tags.emplace_back(kLaunchTag, batch.token);
  bool maybe_done = false;  // by any try
  const auto ask = [&] {
    auto made = Ec2Api(client_).run_instances(request, deadline);
    if (!made) maybe_done = made.error().maybe_done = maybe_done || made.error().maybe_done;
    return made;
  };
  auto made = ask();
  const Time until = group_known_by(client_.world(), deadline);
  while (!made && request.own_group && await_group(client_.world(), made.error(), until)) {
    made = ask();
  }
  if (!made) {
    const ApiError& error = made.error();
    const bool no_spot = lacks_spot_role(error);
    const bool no_type = is_free_plan(error) || is_denied_machine(error);
    const bool is_vague = error.code == "Unsupported";  // the message alone says what
    return std::unexpected(LaunchRefusal{
        .why = {.error = explained(error, fmt::format("RunInstances of {}{}", request.type,
                                                      request.spot ? " as spot" : "")),
                .capacity = no_spot || no_type || error.kind() == ErrorKind::exhausted,
                .quota = no_spot || error.refusal == Refusal::quota,
                .type = no_type,
                .account = no_spot || no_type},
        .code = is_vague ? fmt::format("{}: {}", error.code, error.message) : error.code,
        .certain = is_certain(error)});
  }
  std::vector<std::string> ids;
  for (const Ec2Instance& one : *made) ids.push_back(one.id);
  return ids;
}

Result<std::vector<Ec2Instance>> Fleet::list(const std::vector<Filter>& filters, Time deadline) {
  auto found = Ec2Api(client_).describe_instances(filters, deadline);
  if (!found) return std::unexpected(explained(found.error(), "DescribeInstances"));
  return *std::move(found);
}

Result<std::vector<MachineStatus>> Fleet::find(std::string_view token, Time deadline) {
  const Filter mark = token.empty()
                          ? Filter{fmt::format("tag:{}", kPoolTag), {pool_}}
                          : Filter{fmt::format("tag:{}", kLaunchTag), {std::string(token)}};
  return to_status(client_, list({mark}, deadline));
}

// By a filter: one id that is not known would spoil a request that names them.
Result<std::vector<Ec2Instance>> Fleet::describe(const std::vector<std::string>& ids,
                                                 Time deadline) {
  std::vector<Ec2Instance> out;
  for (std::size_t begin = 0; begin < ids.size(); begin += kMostFilterValues) {
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        first + static_cast<std::ptrdiff_t>(std::min(kMostFilterValues, ids.size() - begin));
    auto found = list({{"instance-id", {first, last}}}, deadline);
    if (!found) return found;
    std::ranges::move(*found, std::back_inserter(out));
  }
  return out;
}

Result<std::vector<MachineStatus>> Fleet::look_up(const std::vector<std::string>& ids,
                                                  Time deadline) {
  return to_status(client_, describe(ids, deadline));
}

// One that Amazon does not know (yet, or any more) spoils the request for all; its refusal names
// them.
Result<std::vector<std::string>> Fleet::terminate(const std::vector<std::string>& ids,
                                                  Time deadline) {
  std::vector<std::string> known = ids;
  while (!known.empty()) {
    const auto done = Ec2Api(client_).terminate_instances(known, deadline);
    if (done) return known;
    const ApiError& error = done.error();
    if (error.code != "InvalidInstanceID.NotFound") {
      return std::unexpected(explained(error, "TerminateInstances"));
    }
    const auto named =
        std::erase_if(known, [&](const std::string& id) { return error.message.contains(id); });
    if (named == 0) return end_each(known, deadline);
  }
  return known;
}

Result<std::vector<std::string>> Fleet::end_each(const std::vector<std::string>& ids,
                                                 Time deadline) {
  std::vector<std::string> known;
  for (const std::string& id : ids) {
    const auto done = Ec2Api(client_).terminate_instances({id}, deadline);
    if (done) known.push_back(id);
    if (!done && done.error().code != "InvalidInstanceID.NotFound") {
      return std::unexpected(explained(done.error(), "TerminateInstances"));
    }
  }
  return known;
}

}  // namespace skyward::provider::aws
