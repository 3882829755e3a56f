#include "skyward/provider/aws/network.h"

#include <fmt/format.h>

#include <algorithm>

#include "skyward/base/text.h"
#include "skyward/provider/aws/groups.h"
#include "skyward/provider/own_address.h"

namespace skyward::provider::aws {

namespace {

constexpr int kSshPort = 22;

std::string where(std::string_view action, const Client& client) {
  return fmt::format("EC2 {} in {}", action, client.region());
}

Status check_given(const std::vector<std::string>& ids, const std::vector<Subnet>& found,
                   const std::string& region) {
  for (const std::string& id : ids) {
    if (std::ranges::find(found, id, &Subnet::id) != found.end()) continue;
    return fail(ErrorKind::invalid, fmt::format("there is no subnet {} in {}", id, region),
                "subnets belong to one region: give one of that region, or leave it out");
  }
  const Subnet& first = found.front();
  const auto other =
      std::ranges::find_if(found, [&](const Subnet& subnet) { return subnet.vpc != first.vpc; });
  if (other == found.end()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("the subnets {} and {} in {} are in different VPCs ({} and {})", first.id,
                          other->id, region, first.vpc, other->vpc),
              "give subnets of one VPC: a pool has one security group, which belongs to one VPC");
}

}  // namespace

Result<std::vector<Subnet>> find_subnets(Client& client, const std::string& given, Time deadline) {
  Ec2Api api(client);
  const std::vector<std::string> ids = items_of(given, ',');
  std::vector<Filter> filters = {{"subnet-id", ids}};
  if (ids.empty()) {
    const auto vpc = api.default_vpc(deadline);
    if (!vpc) return std::unexpected(to_error(vpc.error(), where("DescribeVpcs", client)));
    if (vpc->empty()) {
      return fail(ErrorKind::invalid,
                  fmt::format("the region {} has no default network", client.region()),
                  "create one ('aws ec2 create-default-vpc') or give subnet_id=");
    }
    filters = {{"vpc-id", {*vpc}}, {"default-for-az", {"true"}}};
  }
  auto subnets = api.describe_subnets(filters, deadline);
  if (!subnets) return std::unexpected(to_error(subnets.error(), where("DescribeSubnets", client)));
  if (subnets->empty() && ids.empty()) {
    return fail(ErrorKind::invalid,
                fmt::format("the default network of {} has no subnet", client.region()),
                "create one ('aws ec2 create-default-subnet') or give subnet_id=");
  }
  if (Status usable = check_given(ids, *subnets, client.region()); !usable) return fail(usable);
  std::ranges::sort(*subnets, {}, &Subnet::zone);
  return *std::move(subnets);
}

Result<std::string> caller_address(Client& client, Time deadline) {
  const World& world = client.world();
  const auto endpoint = find_endpoint(world, client.configuration(), "checkip", client.region());
  if (!endpoint) return fail(endpoint);
  return own_address(
      world,
      {.url = *endpoint + "/",
       .ca_file = ca_bundle(world, client.configuration()),
       .advice =
           "give security_group_id= of a group that lets SSH in from here, then no address is "
           "needed"},
      deadline);
}

std::vector<std::string> private_networks() {
  return {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"};
}

Status make_rules(Client& client, const std::string& group, const std::vector<std::string>& callers,
                  Time deadline) {
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
  for (const std::string& caller : callers) {
    if (done) done = ask([&] { return api.admit(group, caller, kSshPort, deadline); });
  }
  if (done) done = ask([&] { return api.admit_group(group, deadline); });
  if (done) return {};
  return std::unexpected(to_error(done.error(), where("AuthorizeSecurityGroupIngress", client)));
}

}  // namespace skyward::provider::aws
