#include "skyward/provider/aws/network.h"

#include <fmt/format.h>

#include <algorithm>

#include "skyward/provider/aws/groups.h"

namespace skyward::provider::aws {

namespace {

constexpr int kSshPort = 22;
constexpr Duration kDirectTime = std::chrono::seconds(5);

std::string where(std::string_view action, const Client& client) {
  return fmt::format("EC2 {} in {}", action, client.region());
}

bool is_address(std::string_view text) {
  return !text.empty() && text.size() <= 45 &&
         text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos &&
         (text.contains('.') || text.contains(':'));
}

}  // namespace

Result<std::vector<Subnet>> find_subnets(Client& client, const std::string& given, Time deadline) {
  Ec2Api api(client);
  std::vector<Filter> filters;
  if (given.empty()) {
    const auto vpc = api.default_vpc(deadline);
    if (!vpc) return std::unexpected(to_error(vpc.error(), where("DescribeVpcs", client)));
    if (vpc->empty()) {
      return fail(ErrorKind::invalid,
                  fmt::format("the region {} has no default network", client.region()),
                  "make one ('aws ec2 create-default-vpc') or give subnet_id=");
    }
    filters = {{"vpc-id", {*vpc}}, {"default-for-az", {"true"}}};
  } else {
    filters = {{"subnet-id", {given}}};
  }
  auto subnets = api.describe_subnets(filters, deadline);
  if (!subnets) return std::unexpected(to_error(subnets.error(), where("DescribeSubnets", client)));
  if (subnets->empty()) {
    return given.empty()
               ? fail(ErrorKind::invalid,
                      fmt::format("the default network of {} has no subnet", client.region()),
                      "make one ('aws ec2 create-default-subnet') or give subnet_id=")
               : fail(ErrorKind::invalid,
                      fmt::format("there is no subnet {} in {}", given, client.region()),
                      "subnets belong to one region: give one of that region, or leave it out");
  }
  std::ranges::sort(*subnets, {}, &Subnet::zone);
  return *std::move(subnets);
}

Result<std::string> caller_address(Client& client, Time deadline) {
  const World& world = client.world();
  const auto endpoint = find_endpoint(world, client.configuration(), "checkip", client.region());
  if (!endpoint) return fail(endpoint);
  io::HttpRequest request;
  request.url = *endpoint + "/";
  request.max_reply_bytes = 1024;
  request.ca_file = setting(world, client.configuration(), "AWS_CA_BUNDLE", "ca_bundle");
  Retries retries(world, {.attempts = 4}, deadline);
  const std::string advice =
      "give security_group_id= of a group that lets SSH in from here, then no address is needed";
  while (true) {
    // SSH does not go through the proxies of the web: the address without them is the one that
    // counts. It is asked through them only where there is no other way out.
    request.direct = true;
    Result<io::HttpReply> reply =
        world.http->send(request, std::min(deadline, world.now() + kDirectTime));
    if (!reply || reply->status != 200) {
      request.direct = false;
      reply = world.http->send(request, deadline);
    }
    if (reply && reply->status == 200) {
      std::string text = reply->body;
      while (!text.empty() && text.back() <= ' ') text.pop_back();
      if (is_address(text)) return text + (text.contains(':') ? "/128" : "/32");
      return fail(ErrorKind::unavailable,
                  fmt::format("{} does not tell this machine's address", request.url), advice);
    }
    if (retries.again()) continue;
    return fail(
        ErrorKind::unavailable,
        fmt::format("this machine's own address cannot be learnt from {}: {}", request.url,
                    reply ? fmt::format("HTTP status {}", reply->status) : reply.error().message),
        advice);
  }
}

Status make_rules(Client& client, const std::string& group,
                  const std::optional<std::string>& caller, Time deadline) {
  Ec2Api api(client);
  const World& world = client.world();
  const Time until = group_known_by(world, deadline);
  const auto ask = [&](const auto& admit) {
    ApiResult<void> done = admit();
    while (!done && await_group(world, done.error(), until)) done = admit();
    if (!done && done.error().code == "InvalidPermission.Duplicate") done = {};
    return done;
  };
  ApiResult<void> done;
  if (caller) done = ask([&] { return api.admit(group, *caller, kSshPort, deadline); });
  if (done) done = ask([&] { return api.admit_group(group, deadline); });
  if (done) return {};
  return std::unexpected(to_error(done.error(), where("AuthorizeSecurityGroupIngress", client)));
}

}  // namespace skyward::provider::aws
