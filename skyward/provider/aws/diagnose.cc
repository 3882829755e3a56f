#include "skyward/provider/aws/diagnose.h"

#include <fmt/format.h>

#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/aws/images.h"
#include "skyward/provider/aws/network.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/renting/findings.h"

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

constexpr const char* kNoGroup = "sg-00000000000000000";
constexpr const char* kNoVolume = "vol-00000000000000000";

// Amazon is asked with DryRun, which does nothing: whoever may is told so, or that there is no such
// thing. These are the rights of the guide's policy but for those below.
struct Probe {
  std::string_view action;
  Parameters parameters{};
};

std::vector<Probe> probes() {
  return {
      {"AuthorizeSecurityGroupIngress",
       {{"GroupId", kNoGroup},
        {"IpPermissions.1.IpProtocol", "tcp"},
        {"IpPermissions.1.FromPort", "22"},
        {"IpPermissions.1.ToPort", "22"},
        {"IpPermissions.1.IpRanges.1.CidrIp", "192.0.2.1/32"}}},
      {"CreateSecurityGroup",
       {{"GroupName", "skyward-check"}, {"GroupDescription", "skyward-check"}}},
      {"DeleteSecurityGroup", {{"GroupId", kNoGroup}}},
      {"DeleteVolume", {{"VolumeId", kNoVolume}}},
      {"DescribeImages", {{"Owner.1", "self"}}},
      {"DescribeInstanceTypeOfferings"},
      {"DescribeInstanceTypes"},
      {"DescribeInstances"},
      {"DescribeRegions"},
      {"DescribeSecurityGroups"},
      {"DescribeSpotPriceHistory"},
      {"DescribeSubnets"},
      {"DescribeVolumes"},
      {"DescribeVpcs"},
      {"TerminateInstances", {{"InstanceId.1", kNoMachine}}},
  };
}

bool is_allowed(const ApiError& told) {
  return told.code == "DryRunOperation" || told.code.ends_with(".NotFound");
}

Finding judge_dry_run(std::string_view right, const ApiError& told) {
  Finding finding{.what = std::string(right), .good = is_allowed(told)};
  const bool denied = told.kind() == ErrorKind::denied;
  finding.detail = finding.good ? "allowed"
                   : denied     ? fmt::format("not allowed ({})", told.code)
                            : fmt::format("could not be checked ({}: {})", told.code, told.message);
  if (!finding.good) finding.hint = told.hint;
  finding.kind = told.kind();
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
  finding.kind = answer.error().kind();
  return finding;
}

// As pools ask for machines. An organisation may forbid any part of that.
LaunchRequest launch_request(Client& client, const std::string& owner, const std::string& image,
                             Time deadline) {
  constexpr const char* kRootDevice = "/dev/sda1";  // of Ubuntu's images
  constexpr int kRoot_gb = 30;
  LaunchRequest request{.type = own_architecture() == "arm64" ? "t4g.micro" : "t3.micro",
                        .image = image,
                        .user_data = "#cloud-config\n{}\n",
                        .root_device = kRootDevice,
                        .root_gb = kRoot_gb};
  const auto subnets = find_subnets(client, "", deadline);
  if (subnets) request.subnet = subnets->front().id;
  request.tags = to_tags({.pool = "aws-check", .owner = owner, .expires_s = client.wall_s()});
  request.tags.emplace_back(kNodesTag, nodes_text(0, 1));
  request.tags.emplace_back(kLaunchTag, "skyward-check");
  return request;
}

// Tags are a right of their own, which shows where the same is allowed without them.
void look_into_launching(Client& client, const std::string& owner, const Tell& tell,
                         Time deadline) {
  Ec2Api api(client);
  const Offer offer{.architecture = std::string(own_architecture())};
  const auto image = api.get_parameter(image_parameter({}, offer), deadline);
  tell(judge_call("ssm:GetParameter", image));
  LaunchRequest request =
      launch_request(client, owner, image.value_or("ami-00000000000000000"), deadline);
  const auto ask = [&] {
    // A token stands for one request alone.
    request.client_token = fmt::format("skyward-check-{}", client.world().random_hex(8));
    return api.dry_run("RunInstances", launch_parameters(request), deadline);
  };
  const ApiError tagged = ask();
  if (is_allowed(tagged)) {
    tell(judge_dry_run("ec2:RunInstances", tagged));
    tell(judge_dry_run("ec2:CreateTags", tagged));
    request.spot = true;
    tell(judge_dry_run("spot machines", ask()));
    return;
  }
  request.tags.clear();
  const ApiError bare = ask();
  if (is_allowed(bare)) {
    tell(judge_dry_run("ec2:RunInstances", bare));
    tell(judge_dry_run("ec2:CreateTags", tagged));
  } else {
    tell(judge_dry_run("ec2:RunInstances", tagged));
    tell({.what = "ec2:CreateTags", .good = true, .detail = "not checked: it needs RunInstances"});
  }
}

void look_into_network(Client& client, const Tell& tell, Time deadline) {
  const auto vpc = Ec2Api(client).default_vpc(deadline);
  if (!vpc) return;  // told among the rights
  tell({.what = "default network",
        .good = !vpc->empty(),
        .detail = vpc->empty() ? "the region has none" : *vpc,
        .hint = "create one ('aws ec2 create-default-vpc') or give subnet_id="});
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
    tell(finding_of("credentials", credentials.error()));
    return {};
  }
  tell({.what = "credentials", .good = true, .detail = credentials->source});
  const auto caller = find_caller(client, deadline);
  if (!caller) {
    tell(finding_of("account", caller.error()));
    return {};
  }
  tell({.what = "account", .good = true, .detail = caller->arn});

  Ec2Api api(client);
  for (const Probe& probe : probes()) {
    tell(judge_dry_run(fmt::format("ec2:{}", probe.action),
                       api.dry_run(probe.action, probe.parameters, deadline)));
  }
  tell(judge_call("pricing:GetProducts",
                  client.json("pricing", "GetProducts",
                              R"({"ServiceCode":"AmazonEC2","MaxResults":1})", deadline)));
  look_into_network(client, tell, deadline);
  look_into_launching(client, caller->owner, tell, deadline);
  return {};
}

Status has_credentials(const World& world, Time deadline) {
  const auto configuration = load_configuration(world, "");
  if (!configuration) return fail(configuration);
  std::string region = find_region(world, *configuration, "");
  if (region.empty()) region = "us-east-1";
  const auto found = find_credentials(world, *configuration, region, deadline);
  if (!found) return fail(found);
  return {};
}

std::vector<SettingOrigin> settings_here(const World& world) {
  std::vector<SettingOrigin> out;
  const auto configuration = load_configuration(world, "");
  if (!configuration) return {{"profile", "(unusable)", configuration.error().message}};
  out.push_back({"profile", configuration->profile,
                 world.variable("AWS_PROFILE")           ? "$AWS_PROFILE"
                 : world.variable("AWS_DEFAULT_PROFILE") ? "$AWS_DEFAULT_PROFILE"
                                                         : "default"});
  const std::string region = find_region(world, *configuration, "");
  if (!region.empty()) out.push_back({"region", region, region_origin(world, *configuration)});
  if (world.variable("AWS_ENDPOINT_URL") || world.variable("AWS_ENDPOINT_URL_EC2")) {
    const auto endpoint =
        find_endpoint(world, *configuration, "ec2", region.empty() ? "us-east-1" : region);
    out.push_back({"endpoint", endpoint.value_or("(unusable)"), "$AWS_ENDPOINT_URL"});
  }
  return out;
}

}  // namespace skyward::provider::aws
