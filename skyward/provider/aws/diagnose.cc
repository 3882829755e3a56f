#include "skyward/provider/aws/diagnose.h"

#include <fmt/format.h>

#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/aws/images.h"
#include "skyward/provider/aws/market.h"

namespace skyward::provider::aws {

namespace {

using Tell = std::function<void(const Finding&)>;

// Where the region comes from, in words.
std::string region_origin(const World& world, const Configuration& configuration) {
  for (const char* name : {"AWS_REGION", "AWS_DEFAULT_REGION"}) {
    if (world.variable(name)) return fmt::format("${}", name);
  }
  if (!configuration.property("region").empty()) {
    return fmt::format("profile \"{}\"", configuration.profile);
  }
  return "default";
}

// What asking with DryRun tells: Amazon refuses in any case, and the word says why.
Finding judge_dry_run(std::string_view action, const ApiError& answer) {
  Finding finding{.what = fmt::format("ec2:{}", action)};
  finding.good = answer.code == "DryRunOperation";
  const bool denied = answer.kind == ErrorKind::denied;
  finding.detail = finding.good ? "allowed"
                   : denied     ? fmt::format("not allowed ({})", answer.code)
                            : fmt::format("cannot be told ({}: {})", answer.code, answer.message);
  if (!finding.good) finding.hint = answer.hint;
  return finding;
}

template <typename T>
Finding judge_call(std::string what, const ApiResult<T>& answer) {
  Finding finding{.what = std::move(what), .good = answer.has_value()};
  if (answer) {
    finding.detail = "allowed";
    return finding;
  }
  finding.detail = fmt::format("{} ({})", answer.error().message, answer.error().code);
  finding.hint = answer.error().hint;
  return finding;
}

void look_into_launching(Client& client, const Tell& tell, Time deadline) {
  Ec2Api api(client);
  const Offer offer{.architecture = std::string(agent_architecture())};
  const auto image = api.get_parameter(image_parameter({}, offer), deadline);
  tell(judge_call("ssm:GetParameter", image));
  const auto vpc = api.default_vpc(deadline);
  tell(judge_call("ec2:DescribeVpcs", vpc));
  if (vpc) {
    tell({.what = "default network",
          .good = !vpc->empty(),
          .detail = vpc->empty() ? "the region has none" : *vpc,
          .hint = "make one ('aws ec2 create-default-vpc') or give subnet_id="});
  }
  tell(judge_dry_run(
      "RunInstances",
      api.dry_run("RunInstances",
                  {{"ImageId", image.value_or("ami-00000000000000000")},
                   {"InstanceType", offer.architecture == "arm64" ? "t4g.micro" : "t3.micro"},
                   {"MinCount", "1"},
                   {"MaxCount", "1"}},
                  deadline)));
  if (vpc && !vpc->empty()) {
    tell(judge_dry_run("CreateSecurityGroup", api.dry_run("CreateSecurityGroup",
                                                          {{"GroupName", "skyward-check"},
                                                           {"GroupDescription", "skyward-check"},
                                                           {"VpcId", *vpc}},
                                                          deadline)));
  }
}

}  // namespace

Status diagnose(const World& world, const SettingOrigin& region, const Tell& tell, Time deadline) {
  auto configuration = load_configuration(world, "");
  if (!configuration) return fail(configuration);
  Client client(world, *std::move(configuration), region.value);
  tell({.what = "region",
        .good = true,
        .detail = fmt::format("{} ({})", region.value, region.origin)});

  const auto credentials = client.credentials(deadline);
  if (!credentials) {
    tell({.what = "credentials",
          .good = false,
          .detail = credentials.error().message,
          .hint = credentials.error().hint});
    return {};
  }
  tell({.what = "credentials", .good = true, .detail = credentials->source});
  const auto caller = find_caller(client, deadline);
  tell({.what = "account",
        .good = caller.has_value(),
        .detail = caller ? caller->arn : caller.error().message,
        .hint = caller ? std::string() : caller.error().hint});
  if (!caller) return {};

  Ec2Api api(client);
  tell(judge_call("ec2:DescribeRegions", api.describe_regions(deadline)));
  tell(judge_call("ec2:DescribeInstances",
                  api.describe_instances({}, {{"tag:skyward:managed", {"true"}}}, deadline)));
  tell(judge_call("ec2:DescribeInstanceTypeOfferings",
                  api.describe_type_zones({"t3.micro"}, deadline)));
  tell(
      judge_call("ec2:DescribeSpotPriceHistory", api.describe_spot_prices({"t3.micro"}, deadline)));
  tell(judge_call("ec2:DescribeSubnets", api.describe_subnets({}, deadline)));
  tell(judge_call("ec2:DescribeSecurityGroups",
                  api.describe_security_groups({{"tag:skyward:managed", {"true"}}}, deadline)));
  tell(judge_call("ec2:DescribeVolumes",
                  api.describe_volumes({{"tag:skyward:managed", {"true"}}}, deadline)));
  look_into_launching(client, tell, deadline);
  return {};
}

std::vector<SettingOrigin> settings_here(const World& world) {
  std::vector<SettingOrigin> out;
  const auto configuration = load_configuration(world, "");
  if (!configuration) return {{"profile", "(unusable)", configuration.error().message}};
  out.push_back({"profile", configuration->profile,
                 world.variable("AWS_PROFILE") ? "$AWS_PROFILE" : "default"});
  const std::string region = find_region(world, *configuration, "");
  if (!region.empty()) out.push_back({"region", region, region_origin(world, *configuration)});
  const std::string endpoint = find_endpoint(world, *configuration, "ec2", region);
  if (world.variable("AWS_ENDPOINT_URL") || world.variable("AWS_ENDPOINT_URL_EC2")) {
    out.push_back({"endpoint", endpoint, "$AWS_ENDPOINT_URL"});
  }
  return out;
}

}  // namespace skyward::provider::aws
