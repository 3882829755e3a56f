#include "skyward/provider/aws/ec2_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/base/utc.h"
#include "skyward/provider/aws/credentials.h"
#include "skyward/provider/aws/partition.h"
#include "skyward/provider/base64.h"
#include "skyward/provider/json_read.h"

namespace skyward::provider::aws {

namespace {

// A list that never ends is a fault of the other side.
constexpr int kMaxPages = 1000;
constexpr std::string_view kPageSize = "100";

double number(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// 0 for what no machine has.
int whole(const std::string& text) {
  const double value = number(text);
  return value >= 0 && value < 1e9 ? static_cast<int>(value) : 0;
}

Tags read_tags(const XmlElement& element) {
  Tags tags;
  for (const XmlElement* tag : element.items("tagSet")) {
    tags.emplace_back(tag->value("key"), tag->value("value"));
  }
  return tags;
}

void add_filters(Parameters& parameters, const std::vector<Filter>& filters) {
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const std::string prefix = fmt::format("Filter.{}.", i + 1);
    parameters.emplace_back(prefix + "Name", filters[i].name);
    for (std::size_t j = 0; j < filters[i].values.size(); ++j) {
      parameters.emplace_back(fmt::format("{}Value.{}", prefix, j + 1), filters[i].values[j]);
    }
  }
}

void add_list(Parameters& parameters, std::string_view name,
              const std::vector<std::string>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    parameters.emplace_back(fmt::format("{}.{}", name, i + 1), values[i]);
  }
}

// Slices of a device are told as "gpuPartitionSize" (a share) with a count of 0.
void read_devices(const XmlElement& element, InstanceType& type) {
  for (const XmlElement* gpu : element.items("gpuInfo/gpus")) {
    Device device{.name = gpu->value("name"),
                  .manufacturer = gpu->value("manufacturer"),
                  .count = number(gpu->value("count")),
                  .memory_mib = number(gpu->value("memoryInfo/sizeInMiB"))};
    const double share = number(gpu->value("gpuPartitionSize"));
    if (device.count == 0 && share > 0) device.count = share;
    type.devices.push_back(std::move(device));
  }
  for (const XmlElement* neuron : element.items("neuronInfo/neuronDevices")) {
    type.devices.push_back({.name = neuron->value("name"),
                            .manufacturer = "AWS",
                            .count = number(neuron->value("count")),
                            .memory_mib = number(neuron->value("memoryInfo/sizeInMiB"))});
  }
  // Inferentia machines are told a second time there.
  if (!type.devices.empty()) return;
  for (const XmlElement* device : element.items("inferenceAcceleratorInfo/accelerators")) {
    type.devices.push_back({.name = device->value("name"),
                            .manufacturer = device->value("manufacturer"),
                            .count = number(device->value("count")),
                            .memory_mib = number(device->value("memoryInfo/sizeInMiB"))});
  }
}

InstanceType read_instance_type(const XmlElement& element) {
  InstanceType type{.name = element.value("instanceType"),
                    .cpus = whole(element.value("vCpuInfo/defaultVCpus")),
                    .memory_mib = number(element.value("memoryInfo/sizeInMiB"))};
  for (const XmlElement* one : element.items("processorInfo/supportedArchitectures")) {
    type.architectures.push_back(one->text);
  }
  for (const XmlElement* one : element.items("supportedUsageClasses")) {
    type.spot = type.spot || one->text == "spot";
    type.on_demand = type.on_demand || one->text == "on-demand";
  }
  type.current_generation = element.value("currentGeneration") == "true";
  type.bare_metal = element.value("bareMetal") == "true";
  type.burstable = element.value("burstablePerformanceSupported") == "true";
  read_devices(element, type);
  return type;
}

// From "User initiated (2016-11-15 12:34:56 GMT)".
std::optional<std::int64_t> read_moment(std::string_view reason) {
  constexpr std::size_t kLength = std::string_view("2016-11-15 12:34:56").size();
  const std::size_t begin = reason.find('(');
  if (begin == std::string_view::npos) return std::nullopt;
  std::string moment(reason.substr(begin + 1, kLength));
  std::ranges::replace(moment, ' ', 'T');
  return parse_moment(moment + "Z");
}

Ec2Instance read_instance(const XmlElement& element) {
  return {.id = element.value("instanceId"),
          .type = element.value("instanceType"),
          .state = element.value("instanceState/name"),
          .state_reason = element.value("stateReason/code"),
          .state_message = element.value("stateReason/message"),
          .zone = element.value("placement/availabilityZone"),
          .private_ip = element.value("privateIpAddress"),
          .public_ip = element.value("ipAddress"),
          .ended_s = read_moment(element.value("reason")),
          .spot = element.value("instanceLifecycle") == "spot",
          .tags = read_tags(element)};
}

// The families t2, t3, t3a, t4g, …; not trn1.
bool is_burstable(std::string_view type) {
  return type.size() > 1 && type[0] == 't' && type[1] >= '0' && type[1] <= '9';
}

ApiResult<void> nothing(const ApiResult<XmlElement>& reply) {
  if (!reply) return std::unexpected(reply.error());
  return {};
}

ApiError broken_reply(std::string message) {
  return {.message = std::move(message), .status = 200, .hint = "try again"};
}

// The dollars an hour of one product of the price list; 0 when it has none.
double product_price(const nlohmann::json& product) {
  for (const nlohmann::json* term : json_items(product, "terms/OnDemand")) {
    for (const nlohmann::json* dimension : json_items(*term, "priceDimensions")) {
      const double dollars = number(json_text(*dimension, "pricePerUnit/USD"));
      if (dollars > 0 && std::isfinite(dollars)) return dollars;
    }
  }
  return 0;
}

}  // namespace

void add_tags(Parameters& parameters, const std::vector<std::string_view>& resources,
              const Tags& tags) {
  if (tags.empty()) return;
  for (std::size_t i = 0; i < resources.size(); ++i) {
    const std::string prefix = fmt::format("TagSpecification.{}.", i + 1);
    parameters.emplace_back(prefix + "ResourceType", std::string(resources[i]));
    for (std::size_t j = 0; j < tags.size(); ++j) {
      parameters.emplace_back(fmt::format("{}Tag.{}.Key", prefix, j + 1), tags[j].first);
      parameters.emplace_back(fmt::format("{}Tag.{}.Value", prefix, j + 1), tags[j].second);
    }
  }
}

Parameters launch_parameters(const LaunchRequest& request) {
  Parameters parameters = {{"ClientToken", request.client_token},
                           {"ImageId", request.image},
                           {"InstanceType", request.type},
                           {"MinCount", std::to_string(request.count)},
                           {"MaxCount", std::to_string(request.count)},
                           {"InstanceInitiatedShutdownBehavior", "terminate"},
                           {"MetadataOptions.HttpTokens", "required"},
                           {"MetadataOptions.HttpEndpoint", "enabled"},
                           {"UserData", base64(request.user_data)}};
  const auto add = [&](std::string name, std::string value) {
    if (!value.empty()) parameters.emplace_back(std::move(name), std::move(value));
  };
  // Burstable types launch as "unlimited" else: then bursts cost more than the price. Others refuse
  // the parameter.
  if (is_burstable(request.type)) add("CreditSpecification.CpuCredits", "standard");
  add("IamInstanceProfile.Arn", request.instance_profile_arn);
  add("NetworkInterface.1.DeviceIndex", "0");
  add("NetworkInterface.1.AssociatePublicIpAddress", request.public_ip ? "true" : "false");
  add("NetworkInterface.1.DeleteOnTermination", "true");
  add("NetworkInterface.1.SubnetId", request.subnet);
  add("NetworkInterface.1.SecurityGroupId.1", request.security_group);
  // Each volume goes with its machine, whatever the image says of that.
  int number = 0;
  const auto add_disk = [&](const std::string& device, int size_gb, std::string type) {
    const std::string prefix = fmt::format("BlockDeviceMapping.{}.", ++number);
    add(prefix + "DeviceName", device);
    add(prefix + "Ebs.VolumeSize", size_gb > 0 ? std::to_string(size_gb) : "");
    add(prefix + "Ebs.VolumeType", std::move(type));
    add(prefix + "Ebs.DeleteOnTermination", "true");
  };
  if (request.root_gb > 0) add_disk(request.root_device, request.root_gb, "gp3");
  for (const Disk& disk : request.data_disks) add_disk(disk.device, disk.size_gb, "");
  if (request.spot) {
    add("InstanceMarketOptions.MarketType", "spot");
    add("InstanceMarketOptions.SpotOptions.SpotInstanceType", "one-time");
    add("InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior", "terminate");
    if (request.max_spot_price) {
      add("InstanceMarketOptions.SpotOptions.MaxPrice",
          fmt::format("{:.6f}", *request.max_spot_price));
    }
  }
  std::vector<std::string_view> resources = {"instance", "volume", "network-interface"};
  if (request.spot) resources.emplace_back("spot-instances-request");
  add_tags(parameters, resources, request.tags);
  return parameters;
}

template <typename Item, typename Read>
ApiResult<std::vector<Item>> Ec2Api::list(std::string_view action, Parameters parameters,
                                          std::string_view path, Time deadline, Read read) {
  std::vector<Item> out;
  std::string next;
  for (int page = 0; page < kMaxPages; ++page) {
    Parameters asked = parameters;
    if (!next.empty()) asked.emplace_back("NextToken", next);
    const auto reply = client_.query("ec2", action, std::move(asked), deadline);
    if (!reply) return std::unexpected(reply.error());
    for (const XmlElement* item : reply->items(path)) read(*item, out);
    next = reply->value("nextToken");
    if (next.empty()) return out;
  }
  return std::unexpected(broken_reply(fmt::format("EC2 {} returned too many pages", action)));
}

ApiResult<std::vector<InstanceType>> Ec2Api::describe_instance_types(Time deadline) {
  return list<InstanceType>(
      "DescribeInstanceTypes", {{"MaxResults", std::string(kPageSize)}}, "instanceTypeSet",
      deadline, [](const XmlElement& item, auto& out) { out.push_back(read_instance_type(item)); });
}

ApiResult<std::vector<TypeZone>> Ec2Api::describe_type_zones(const std::vector<std::string>& types,
                                                             Time deadline) {
  Parameters parameters = {{"LocationType", "availability-zone"}};
  if (!types.empty()) add_filters(parameters, {{"instance-type", types}});
  return list<TypeZone>("DescribeInstanceTypeOfferings", parameters, "instanceTypeOfferingSet",
                        deadline, [](const XmlElement& item, auto& out) {
                          out.push_back({item.value("instanceType"), item.value("location")});
                        });
}

ApiResult<std::vector<SpotPrice>> Ec2Api::describe_spot_prices(
    const std::vector<std::string>& types, Time deadline) {
  // From now on: exactly the price that holds, of each type and zone.
  Parameters parameters = {{"StartTime", utc_moment(client_.wall_s())},
                           {"ProductDescription.1", "Linux/UNIX"}};
  add_list(parameters, "InstanceType", types);
  return list<SpotPrice>(
      "DescribeSpotPriceHistory", parameters, "spotPriceHistorySet", deadline,
      [](const XmlElement& item, auto& out) {
        out.push_back({item.value("instanceType"), item.value("availabilityZone"),
                       number(item.value("spotPrice")), parse_moment(item.value("timestamp"))});
      });
}

ApiResult<std::vector<std::string>> Ec2Api::describe_regions(Time deadline) {
  const std::string_view partition = partition_of(client_.region()).id;
  return list<std::string>("DescribeRegions", {}, "regionInfo", deadline,
                           [&](const XmlElement& item, auto& out) {
                             const std::string name = item.value("regionName");
                             if (partition_of(name).id == partition) out.push_back(name);
                           });
}

ApiResult<MachineImage> Ec2Api::describe_image(const std::string& id, Time deadline) {
  const auto reply = client_.query("ec2", "DescribeImages", {{"ImageId.1", id}}, deadline);
  if (!reply) return std::unexpected(reply.error());
  for (const XmlElement* item : reply->items("imagesSet")) {
    MachineImage image{.id = item->value("imageId"),
                       .name = item->value("name"),
                       .platform = item->value("platform"),
                       .billed_as = item->value("platformDetails"),
                       .root_device = item->value("rootDeviceName")};
    for (const XmlElement* code : item->items("productCodes")) {
      if (code->value("type") == "marketplace") image.from_marketplace = true;
    }
    for (const XmlElement* device : item->items("blockDeviceMapping")) {
      const std::string name = device->value("deviceName");
      const int size_gb = whole(device->value("ebs/volumeSize"));
      if (name == image.root_device) {
        image.size_gb = size_gb;
      } else if (device->find("ebs") != nullptr) {
        image.data_disks.push_back({name, size_gb});
      }
    }
    return image;
  }
  return std::unexpected(make_error("InvalidAMIID.NotFound", "there is no image " + id, 400));
}

ApiResult<std::string> Ec2Api::default_vpc(Time deadline) {
  Parameters parameters;
  add_filters(parameters, {{"is-default", {"true"}}});
  const auto reply = client_.query("ec2", "DescribeVpcs", parameters, deadline);
  if (!reply) return std::unexpected(reply.error());
  return reply->value("vpcSet/item/vpcId");
}

ApiResult<std::vector<Subnet>> Ec2Api::describe_subnets(const std::vector<Filter>& filters,
                                                        Time deadline) {
  Parameters parameters;
  add_filters(parameters, filters);
  return list<Subnet>(
      "DescribeSubnets", parameters, "subnetSet", deadline, [](const XmlElement& item, auto& out) {
        out.push_back(
            {item.value("subnetId"), item.value("availabilityZone"), item.value("vpcId")});
      });
}

ApiResult<std::vector<SecurityGroup>> Ec2Api::describe_security_groups(
    const std::vector<Filter>& filters, Time deadline) {
  Parameters parameters;
  add_filters(parameters, filters);
  return list<SecurityGroup>("DescribeSecurityGroups", parameters, "securityGroupInfo", deadline,
                             [](const XmlElement& item, auto& out) {
                               out.push_back({item.value("groupId"), item.value("groupName"),
                                              item.value("vpcId"), read_tags(item)});
                             });
}

ApiResult<std::string> Ec2Api::create_security_group(const std::string& name,
                                                     const std::string& vpc,
                                                     const std::string& description,
                                                     const Tags& tags, Time deadline) {
  Parameters parameters = {{"GroupName", name}, {"GroupDescription", description}, {"VpcId", vpc}};
  add_tags(parameters, {"security-group"}, tags);
  const auto reply = client_.query("ec2", "CreateSecurityGroup", parameters, deadline);
  if (!reply) return std::unexpected(reply.error());
  return reply->value("groupId");
}

ApiResult<void> Ec2Api::admit(const std::string& group, const std::string& cidr, int port,
                              Time deadline) {
  const bool six = cidr.contains(':');
  return nothing(client_.query(
      "ec2", "AuthorizeSecurityGroupIngress",
      {{"GroupId", group},
       {"IpPermissions.1.IpProtocol", "tcp"},
       {"IpPermissions.1.FromPort", std::to_string(port)},
       {"IpPermissions.1.ToPort", std::to_string(port)},
       {six ? "IpPermissions.1.Ipv6Ranges.1.CidrIpv6" : "IpPermissions.1.IpRanges.1.CidrIp", cidr}},
      deadline));
}

ApiResult<void> Ec2Api::admit_group(const std::string& group, Time deadline) {
  return nothing(client_.query("ec2", "AuthorizeSecurityGroupIngress",
                               {{"GroupId", group},
                                {"IpPermissions.1.IpProtocol", "-1"},
                                {"IpPermissions.1.Groups.1.GroupId", group}},
                               deadline));
}

ApiResult<void> Ec2Api::delete_security_group(const std::string& id, Time deadline) {
  return nothing(client_.query("ec2", "DeleteSecurityGroup", {{"GroupId", id}}, deadline));
}

ApiResult<std::vector<Ec2Instance>> Ec2Api::run_instances(const LaunchRequest& request,
                                                          Time deadline) {
  const auto reply = client_.query("ec2", "RunInstances", launch_parameters(request), deadline);
  if (!reply) return std::unexpected(reply.error());
  std::vector<Ec2Instance> out;
  for (const XmlElement* item : reply->items("instancesSet")) out.push_back(read_instance(*item));
  return out;
}

ApiError Ec2Api::dry_run(std::string_view action, Parameters parameters, Time deadline) {
  parameters.emplace_back("DryRun", "true");
  const auto reply = client_.query("ec2", action, std::move(parameters), deadline);
  if (!reply) return reply.error();
  return {.refusal = Refusal::invalid,
          .heard = Heard::answered,
          .code = "DryRunOperation",
          .status = 200};
}

ApiResult<std::vector<Ec2Instance>> Ec2Api::describe_instances(const std::vector<Filter>& filters,
                                                               Time deadline) {
  Parameters parameters{{"MaxResults", "1000"}};
  add_filters(parameters, filters);
  return list<Ec2Instance>("DescribeInstances", parameters, "reservationSet", deadline,
                           [](const XmlElement& item, auto& out) {
                             for (const XmlElement* one : item.items("instancesSet")) {
                               out.push_back(read_instance(*one));
                             }
                           });
}

ApiResult<void> Ec2Api::terminate_instances(const std::vector<std::string>& ids, Time deadline) {
  constexpr std::size_t kMost = 500;  // in one request
  for (std::size_t begin = 0; begin < ids.size(); begin += kMost) {
    const std::size_t end = std::min(ids.size(), begin + kMost);
    Parameters parameters;
    add_list(parameters, "InstanceId",
             {ids.begin() + static_cast<std::ptrdiff_t>(begin),
              ids.begin() + static_cast<std::ptrdiff_t>(end)});
    const auto reply = client_.query("ec2", "TerminateInstances", parameters, deadline);
    if (!reply) return std::unexpected(reply.error());
  }
  return {};
}

ApiResult<std::vector<EbsVolume>> Ec2Api::describe_volumes(const std::vector<Filter>& filters,
                                                           Time deadline) {
  Parameters parameters;
  add_filters(parameters, filters);
  return list<EbsVolume>(
      "DescribeVolumes", parameters, "volumeSet", deadline, [](const XmlElement& item, auto& out) {
        out.push_back({item.value("volumeId"), item.value("status"), read_tags(item)});
      });
}

ApiResult<void> Ec2Api::delete_volume(const std::string& id, Time deadline) {
  return nothing(client_.query("ec2", "DeleteVolume", {{"VolumeId", id}}, deadline));
}

ApiResult<std::string> Ec2Api::get_parameter(const std::string& name, Time deadline) {
  const auto reply = client_.json("ssm", "GetParameter", json_line({{"Name", name}}), deadline);
  if (!reply) return std::unexpected(reply.error());
  const std::string value = json_text(read_json(*reply), "Parameter/Value");
  if (value.empty()) return std::unexpected(broken_reply("SSM's parameter " + name + " is empty"));
  return value;
}

ApiResult<PricePage> Ec2Api::price_page(PriceFamily family, const std::string& next,
                                        Time deadline) {
  const bool metal = family == PriceFamily::bare_metal;
  nlohmann::json filters = nlohmann::json::array();
  const auto add = [&](const std::string& field, const std::string& value) {
    filters.push_back({{"Type", "TERM_MATCH"}, {"Field", field}, {"Value", value}});
  };
  add("regionCode", client_.region());
  add("productFamily", metal ? "Compute Instance (bare metal)" : "Compute Instance");
  if (!metal) add("tenancy", "Shared");  // bare metal may be in the list as "Dedicated" alone
  add("preInstalledSw", "NA");
  add("operatingSystem", "Linux");
  add("capacitystatus", "Used");
  add("marketoption", "OnDemand");
  nlohmann::json body = {{"ServiceCode", "AmazonEC2"}, {"Filters", filters}, {"MaxResults", 100}};
  if (!next.empty()) body["NextToken"] = next;

  const auto reply = client_.json("pricing", "GetProducts", json_line(body), deadline);
  if (!reply) return std::unexpected(reply.error());
  const nlohmann::json parsed = read_json(*reply);
  if (!parsed.is_object()) return std::unexpected(broken_reply("the price list is not JSON"));
  PricePage page{.next = json_text(parsed, "NextToken")};
  for (const nlohmann::json* text : json_items(parsed, "PriceList")) {
    const nlohmann::json product = read_json(json_text(*text));
    const std::string type = json_text(product, "product/attributes/instanceType");
    const double price = product_price(product);
    if (!type.empty() && price > 0) page.prices.emplace_back(type, price);
  }
  return page;
}

ApiResult<std::string> Ec2Api::caller(Time deadline) {
  const auto reply = client_.query("sts", "GetCallerIdentity", {}, deadline);
  if (!reply) return std::unexpected(reply.error());
  return reply->value("GetCallerIdentityResult/Arn");
}

}  // namespace skyward::provider::aws
