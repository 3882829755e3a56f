#include "skyward/provider/aws/diagnose.h"

#include <fmt/format.h>

#include "skyward/provider/aws/account.h"
#include "skyward/provider/aws/ec2_api.h"
#include "skyward/provider/aws/images.h"
#include "skyward/provider/aws/network.h"
#include "skyward/provider/aws/own_tags.h"
#include "skyward/provider/aws/site.h"
#include "skyward/provider/choosing.h"
#include "skyward/provider/marks.h"
#include "skyward/provider/renting/findings.h"
#include "skyward/provider/settings.h"

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

// The image that pools boot, or one that stands for it where the rights to find it are missing.
BootImage find_boot_image(Client& client, const ProviderSpec& settings, const Tell& tell,
                          Time deadline) {
  constexpr const char* kRootDevice = "/dev/sda1";  // of Ubuntu's images
  constexpr int kRoot_gb = 30;
  const BootImage unknown{.image = {.id = "ami-00000000000000000", .root_device = kRootDevice},
                          .root_gb = kRoot_gb};
  PoolSpec spec;
  spec.provider = settings;
  const Offer offer{.architecture = std::string(own_architecture())};
  if (settings.setting("ami").empty()) {
    const auto id = Ec2Api(client).get_parameter(image_parameter(spec, offer), deadline);
    tell(judge_call("ssm:GetParameter", id));
    if (!id) return unknown;
  }
  auto boot = find_image(client, spec, offer, deadline);
  if (boot) return *std::move(boot);
  // A right that is missing is told among the others.
  if (boot.error().kind == ErrorKind::invalid) tell(finding_of("image", boot.error()));
  return unknown;
}

// As pools with these settings ask for machines. An organisation may forbid any part of that.
LaunchRequest request_of_pools(Client& client, const ProviderSpec& settings,
                               const std::string& owner, const BootImage& boot) {
  LaunchRequest request = launch_request(settings, boot);
  request.type = own_architecture() == "arm64" ? "t4g.micro" : "t3.micro";
  request.user_data = "#cloud-config\n{}\n";
  const Tags marks = to_tags({.pool = "aws-check", .owner = owner, .expires_s = client.wall_s()});
  request.tags.insert(request.tags.begin(), marks.begin(), marks.end());
  request.tags.emplace_back(kNodesTag, nodes_text(0, 1));
  request.tags.emplace_back(kLaunchTag, "skyward-check");
  return request;
}

// Tags are a right of their own, which shows where the same is allowed without them.
void look_into_launching(Client& client, LaunchRequest request, const Tell& tell, Time deadline) {
  Ec2Api api(client);
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

// The first subnet that pools use. A right that is missing is told among the others.
std::string look_into_network(Client& client, const ProviderSpec& settings, const Tell& tell,
                              Time deadline) {
  const std::string given = settings.setting("subnet_id");
  const std::string what = given.empty() ? "default network" : "subnet";
  const auto subnets = find_subnets(client, given, deadline);
  if (!subnets) {
    if (subnets.error().kind == ErrorKind::invalid) tell(finding_of(what, subnets.error()));
    return {};
  }
  const Subnet& first = subnets->front();
  tell({.what = what, .good = true, .detail = given.empty() ? first.vpc : given});
  return first.id;
}

}  // namespace

Status diagnose(const World& world, const SettingOrigin& region, const Tell& tell, Time deadline) {
  const auto spec = with_settings(world, {.name = "aws", .settings = {}});
  if (!spec) return fail(spec);
  const auto tags = own_tags(*spec);
  if (!tags) return fail(tags);
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
  for (Probe& probe : probes()) {
    // A policy may demand them.
    if (probe.action == "CreateSecurityGroup") {
      add_tags(probe.parameters, {"security-group"}, *tags);
    }
    tell(judge_dry_run(fmt::format("ec2:{}", probe.action),
                       api.dry_run(probe.action, probe.parameters, deadline)));
  }
  tell(judge_call("pricing:GetProducts",
                  client.json("pricing", "GetProducts",
                              R"({"ServiceCode":"AmazonEC2","MaxResults":1})", deadline)));
  const std::string subnet = look_into_network(client, *spec, tell, deadline);
  const BootImage boot = find_boot_image(client, *spec, tell, deadline);
  LaunchRequest request = request_of_pools(client, *spec, caller->owner, boot);
  request.subnet = subnet;
  look_into_launching(client, std::move(request), tell, deadline);
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
