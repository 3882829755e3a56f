#include "skyward/provider/aws/ec2_double_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "skyward/base/utc.h"

namespace skyward::provider::aws {

namespace {

using Form = Ec2Double::Form;

// Real machines, those with GPUs above all, take minutes.
constexpr Duration kShutDown = std::chrono::minutes(5);
// What has ended is told of for so long.
constexpr Duration kRemembered = std::chrono::hours(1);
constexpr Duration kUnclaimed = std::chrono::seconds(900);

Form read_form(const std::string& body) {
  Form form;
  std::string rest = body;
  const auto plain = [](const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%' && i + 2 < text.size()) {
        out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        out += text[i];
      }
    }
    return out;
  };
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::size_t equals = rest.find('=');
    form[plain(rest.substr(0, equals))] = plain(rest.substr(equals + 1, end - equals - 1));
    rest.erase(0, end + 1);
  }
  return form;
}

io::HttpReply refused(int status, const std::string& word, const std::string& told = {}) {
  const std::size_t colon = word.find(": ");
  const std::string code = word.substr(0, colon);
  const std::string message = colon == std::string::npos ? told : word.substr(colon + 2);
  return {.status = status,
          .headers = {},
          .body = fmt::format("<Response><Errors><Error><Code>{}</Code><Message>{}</Message>"
                              "</Error></Errors><RequestID>r</RequestID></Response>",
                              code, message.empty() ? code : message)};
}

// Ec2Double::answer() adds the root.
io::HttpReply good(const std::string& body) { return {.status = 200, .headers = {}, .body = body}; }

// What never changes.
io::HttpReply facts(const std::string& action, const std::string& spot_price,
                    const std::string& spot_price_since) {
  if (action == "GetParameter") {
    return {.status = 200, .headers = {}, .body = R"({"Parameter":{"Value":"ami-1"}})"};
  }
  if (action == "GetProducts") return {.status = 200, .headers = {}, .body = R"({"PriceList":[]})"};
  const std::map<std::string, std::string> replies = {
      {"GetCallerIdentity",
       "<GetCallerIdentityResult><Arn>arn:aws:iam::1:user/me</Arn></GetCallerIdentityResult>"},
      {"DescribeImages",
       "<imagesSet><item><imageId>ami-1</imageId><name>ubuntu</name><rootDeviceName>/dev/sda1"
       "</rootDeviceName></item></imagesSet>"},
      {"DescribeVpcs", "<vpcSet><item><vpcId>vpc-1</vpcId></item></vpcSet>"},
      {"DescribeInstanceTypeOfferings",
       "<instanceTypeOfferingSet><item><instanceType>m5.large</instanceType><location>z1"
       "</location></item><item><instanceType>m5.large</instanceType><location>z2</location>"
       "</item></instanceTypeOfferingSet>"},
      {"DescribeSpotPriceHistory",
       "<spotPriceHistorySet><item><instanceType>m5.large</instanceType><availabilityZone>z1"
       "</availabilityZone><spotPrice>" +
           spot_price + "</spotPrice><timestamp>" + spot_price_since +
           "</timestamp></item></spotPriceHistorySet>"},
      {"DescribeInstanceTypes",
       "<instanceTypeSet><item><instanceType>m5.large</instanceType><vCpuInfo><defaultVCpus>2"
       "</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>8192</sizeInMiB></memoryInfo>"
       "<supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>"
       "<currentGeneration>true</currentGeneration><processorInfo><supportedArchitectures><item>"
       "x86_64</item><item>arm64</item></supportedArchitectures></processorInfo></item>"
       "</instanceTypeSet>"},
  };
  const auto found = replies.find(action);
  return good(found == replies.end() ? "" : found->second);
}

// "https://ec2.eu-west-1.amazonaws.com/" says eu-west-1.
std::string region_of(const std::string& url) {
  const std::size_t begin = url.find('.') + 1;
  return url.substr(begin, url.find('.', begin) - begin);
}

std::map<std::string, std::string> tags_of(const Form& form) {
  std::map<std::string, std::string> tags;
  for (int i = 1;; ++i) {
    const std::string prefix = fmt::format("TagSpecification.1.Tag.{}.", i);
    const auto key = form.find(prefix + "Key");
    if (key == form.end()) return tags;
    tags[key->second] = form.at(prefix + "Value");
  }
}

std::string tag_set(const std::map<std::string, std::string>& tags) {
  std::string out = "<tagSet>";
  for (const auto& [key, value] : tags) {
    out += fmt::format("<item><key>{}</key><value>{}</value></item>", key, value);
  }
  return out + "</tagSet>";
}

// Whether a thing passes all filters of the request.
bool passes(const Form& form, const std::map<std::string, std::string>& facts) {
  for (int i = 1;; ++i) {
    const auto name = form.find(fmt::format("Filter.{}.Name", i));
    if (name == form.end()) return true;
    bool any = false;
    for (int j = 1;; ++j) {
      const auto value = form.find(fmt::format("Filter.{}.Value.{}", i, j));
      if (value == form.end()) break;
      const auto fact = facts.find(name->second);
      any = any || (fact != facts.end() && fact->second == value->second);
    }
    if (!any) return false;
  }
}

// The default network's.
io::HttpReply subnets(const Form& form) {
  std::string out = "<subnetSet>";
  for (const auto& [id, zone] : {std::pair("s1", "z1"), std::pair("s2", "z2")}) {
    if (!passes(form, {{"subnet-id", id}, {"vpc-id", "vpc-1"}, {"default-for-az", "true"}}))
      continue;
    out += fmt::format(
        "<item><subnetId>{}</subnetId><availabilityZone>{}</availabilityZone>"
        "<vpcId>vpc-1</vpcId></item>",
        id, zone);
  }
  return good(out + "</subnetSet>");
}

// The code of a request that names too much, as Amazon's guide and reference say; empty: it does
// not.
std::string exceeded_limit(const Form& form) {
  constexpr int kMostValues = 200;  // of one filter
  constexpr int kMostIds = 1000;
  for (int i = 1; form.contains(fmt::format("Filter.{}.Name", i)); ++i) {
    if (form.contains(fmt::format("Filter.{}.Value.{}", i, kMostValues + 1))) {
      return "FilterLimitExceeded";
    }
  }
  const bool many = form.contains(fmt::format("InstanceId.{}", kMostIds + 1));
  return many ? "InvalidParameterValue" : "";
}

std::map<std::string, std::string> facts_of(const std::map<std::string, std::string>& tags) {
  std::map<std::string, std::string> out;
  for (const auto& [key, value] : tags) out["tag:" + key] = value;
  return out;
}

}  // namespace

void Ec2Double::forget() {
  instances.clear();
  groups.clear();
  actions.clear();
  replies.clear();
  launches_.clear();
  buckets_.clear();
  requests = throttled = 0;
  die_before = die_after = -1;
  lose_reply = nullptr;
  refuse = nullptr;
  over_token.clear();
  missing.clear();
  stillborn.clear();
  mangle = nullptr;
}

int Ec2Double::standing() {
  int count = 0;
  for (DoubleInstance& one : instances)
    count += state_of(one) != "terminated" && state_of(one) != "shutting-down";
  return count;
}

void Ec2Double::claim_all() {
  for (DoubleInstance& one : instances) one.claimed = true;
}

std::string Ec2Double::state_of(DoubleInstance& one) const {
  const Time now = fixture_.now;
  // The timer of the user data.
  if (!one.claimed && one.ended == kNever && now - one.launched >= kUnclaimed) {
    one.ended = one.launched + kUnclaimed;
  }
  if (one.ended != kNever) return now - one.ended < kShutDown ? "shutting-down" : "terminated";
  return now - one.launched < boot ? "pending" : "running";
}

Result<io::HttpReply> Ec2Double::answer(const io::HttpRequest& request) {
  if (request.url.contains("checkip")) {
    const std::string& told = request.direct ? address : proxy_address;
    if (told.empty()) return fail(ErrorKind::unavailable, "no way out");
    return io::HttpReply{.status = 200, .headers = {}, .body = told + "\n"};
  }
  std::string action;
  Form form;
  for (const auto& [name, value] : request.headers) {
    if (name == "X-Amz-Target") action = value.substr(value.find('.') + 1);
  }
  if (action.empty()) {
    form = read_form(request.body);
    action = form["Action"];
  }
  const bool global = request.url.contains("api.pricing");
  form["region"] = global ? regions.front() : region_of(request.url);
  if (std::ranges::find(regions, form["region"]) == regions.end()) {
    return fail(ErrorKind::unavailable, "Could not resolve host: " + request.url);
  }
  const int number = ++requests;
  actions.push_back(action);
  if (number == die_before) throw DriverDied();
  for (const auto& [name, value] : request.headers) {
    if (name != "X-Amz-Security-Token" || value != over_token || value.empty()) continue;
    // In the words of EC2; the other services have others.
    const bool ec2 = request.url.contains("//ec2.");
    return refused(ec2 ? 400 : 403, ec2 ? "RequestExpired" : "ExpiredToken");
  }
  if (refuse) {
    const auto [status, code] = refuse(action, form);
    if (status != 0 && number == die_after) throw DriverDied();
    if (status != 0) return refused(status, code);
  }
  if (!may(action, form)) {
    return refused(
        403, request.url.contains("//ec2.") ? "UnauthorizedOperation" : "AccessDeniedException");
  }
  if (is_too_fast(action, form["region"])) {
    ++throttled;
    if (number == die_after) throw DriverDied();
    return refused(503, "RequestLimitExceeded");
  }
  const bool lost = lose_reply && lose_reply(action);
  io::HttpReply reply = perform(action, form);
  if (reply.status == 200 && !reply.body.starts_with('{')) {
    reply.body = fmt::format("<{0}Response>{1}</{0}Response>", action, reply.body);
  }
  if (number == die_after) throw DriverDied();
  if (mangle) mangle(reply);
  if (lost) return fail(ErrorKind::unavailable, "the connection broke");
  return reply;
}

// Not less strict than what Amazon publishes: each kind of request of an account in a region has a
// bucket of its own.
bool Ec2Double::is_too_fast(const std::string& action, const std::string& region) {
  const bool reads = action.starts_with("Describe") || action.starts_with("Get");
  const double most = action == "RunInstances" ? 5 : 50;
  const double each_second = action == "RunInstances" ? 2 : reads ? 10 : 5;
  const auto [found, fresh] = buckets_.try_emplace(region + " " + action);
  Bucket& bucket = found->second;
  if (fresh) bucket.tokens = most;
  const double elapsed = fresh ? 0 : seconds(fixture_.now - bucket.filled);
  bucket.filled = fixture_.now;
  bucket.tokens = std::min(most, bucket.tokens + elapsed * each_second);
  if (bucket.tokens < 1) return true;
  bucket.tokens -= 1;
  return false;
}

bool Ec2Double::may(const std::string& action, const Form& form) const {
  // As many organisations have it.
  const auto tokens = form.find("MetadataOptions.HttpTokens");
  const bool safe = tokens != form.end() && tokens->second == "required";
  if (action == "RunInstances" && !safe) return false;
  const bool tags = form.contains("TagSpecification.1.ResourceType");
  const std::string service = action == "GetParameter"  ? "ssm:"
                              : action == "GetProducts" ? "pricing:"
                                                        : "ec2:";
  return !missing.contains(service + action) && !(tags && missing.contains("ec2:CreateTags"));
}

// Whoever may is told so, or that there is no such thing.
io::HttpReply Ec2Double::dry_run(const Form& form) const {
  const auto names = [&](const char* parameter, const auto& things) {
    const auto id = form.find(parameter);
    return id != form.end() &&
           std::ranges::none_of(things, [&](const auto& one) { return one.id == id->second; });
  };
  if (names("InstanceId.1", instances)) return refused(400, "InvalidInstanceID.NotFound");
  if (names("GroupId", groups)) return refused(400, "InvalidGroup.NotFound");
  if (form.contains("VolumeId")) return refused(400, "InvalidVolume.NotFound");
  return refused(412, "DryRunOperation");
}

io::HttpReply Ec2Double::perform(const std::string& action, const Form& form) {
  if (form.contains("DryRun")) return dry_run(form);
  if (const std::string code = exceeded_limit(form); !code.empty()) return refused(400, code);
  if (action == "RunInstances") return run(form);
  if (action == "DescribeInstances") return describe_instances(form);
  if (action == "TerminateInstances") return terminate(form);
  if (action == "CreateSecurityGroup") return create_group(form);
  if (action == "DescribeSecurityGroups") return describe_groups(form);
  if (action == "DeleteSecurityGroup") return delete_group(form);
  if (action == "AuthorizeSecurityGroupIngress") return admit(form);
  if (action == "DescribeRegions") {
    std::string out = "<regionInfo>";
    for (const std::string& region : regions) {
      out += "<item><regionName>" + region + "</regionName></item>";
    }
    return good(out + "</regionInfo>");
  }
  const auto given = replies.find(action);
  if (given != replies.end()) return good(given->second);
  if (action == "DescribeSubnets") return subnets(form);
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(spot_price_age);
  return facts(action, spot_price,
               utc_moment(fixture_.world.wall_s() - age.count(), "%Y-%m-%dT%H:%M:%S.000Z"));
}

io::HttpReply Ec2Double::run(const Form& form) {
  const std::string token = form.at("ClientToken");
  const auto known = launches_.find(token);
  if (known != launches_.end() && known->second != form) {
    return refused(400, "IdempotentParameterMismatch");
  }
  const std::string group = form.at("NetworkInterface.1.SecurityGroupId.1");
  if (group.starts_with("sg-own-") && !is_known_group(group, form.at("region"))) {
    return refused(400, "InvalidGroup.NotFound");
  }
  const int count = std::stoi(form.at("MaxCount"));
  EXPECT_EQ(form.at("MinCount"), form.at("MaxCount"));
  EXPECT_EQ(form.at("InstanceInitiatedShutdownBehavior"), "terminate");
  EXPECT_EQ(form.at("MetadataOptions.HttpTokens"), "required");
  const bool spot = form.contains("InstanceMarketOptions.MarketType");
  if (spot) {  // with other values, Amazon stops interrupted machines and starts them again later
    const std::string options = "InstanceMarketOptions.SpotOptions.";
    EXPECT_EQ(form.at("InstanceMarketOptions.MarketType"), "spot");
    EXPECT_EQ(form.at(options + "SpotInstanceType"), "one-time");
    EXPECT_EQ(form.at(options + "InstanceInterruptionBehavior"), "terminate");
  }
  const std::string type = form.at("InstanceType");
  if (form.contains("CreditSpecification.CpuCredits") != type.starts_with("t3.")) {
    return refused(400, "InstanceCreditSpecification.NotSupported");
  }
  const bool is_new = launches_.emplace(token, form).second;
  for (int i = 0; i < count && is_new; ++i) {
    instances.push_back(
        {.id = fmt::format("i-{:04}", ++made_),
         .region = form.at("region"),
         .token = token,
         .type = type,
         .zone = form.at("NetworkInterface.1.SubnetId") == "s1" ? "z1" : "z2",
         .group = group,
         .spot = spot,
         .addressed = form.at("NetworkInterface.1.AssociatePublicIpAddress") == "true",
         .tags = tags_of(form),
         .launched = fixture_.now,
         .ended = stillborn.empty() ? kNever : fixture_.now,
         .reason = stillborn,
         .message = stillborn_message});
  }
  std::string out = "<instancesSet>";
  for (DoubleInstance& one : instances) {
    if (one.token == token) out += text_of(one);
  }
  return good(out + "</instancesSet>");
}

// "User initiated (2016-11-15 12:34:56 GMT)", without a date if it switched itself off; empty while
// it stands.
std::string Ec2Double::reason_of(const DoubleInstance& one) const {
  if (one.ended == kNever || one.ended > fixture_.now) return "";
  if (one.reason == "Client.InstanceInitiatedShutdown") return "User initiated";
  const auto ago = std::chrono::duration_cast<std::chrono::seconds>(fixture_.now - one.ended);
  return utc_moment(fixture_.world.wall_s() - ago.count(),
                    "User initiated (%Y-%m-%d %H:%M:%S GMT)");
}

std::string Ec2Double::text_of(DoubleInstance& one) const {
  return fmt::format(
      "<item><instanceId>{}</instanceId><instanceType>{}</instanceType><instanceState><name>{}"
      "</name></instanceState><placement><availabilityZone>{}</availabilityZone></placement>"
      "<privateIpAddress>10.0.0.1</privateIpAddress><ipAddress>{}</ipAddress>"
      "<instanceLifecycle>{}</instanceLifecycle><stateReason><code>{}</code><message>{}</message></"
      "stateReason>"
      "<reason>{}</reason>{}</item>",
      one.id, one.type, state_of(one), one.zone, one.addressed ? "203.0.113.9" : "",
      one.spot ? "spot" : "", one.reason, one.message, reason_of(one), tag_set(one.tags));
}

io::HttpReply Ec2Double::describe_instances(const Form& form) {
  std::string out = "<reservationSet><item><instancesSet>";
  for (DoubleInstance& one : instances) {
    std::map<std::string, std::string> facts = facts_of(one.tags);
    facts["instance-id"] = one.id;
    if (one.region != form.at("region")) continue;
    if (is_known(one) && passes(form, facts)) out += text_of(one);
  }
  return good(out + "</instancesSet></item></reservationSet>");
}

bool Ec2Double::is_known(const DoubleInstance& one) const {
  const bool forgotten = one.ended != kNever && fixture_.now - one.ended > kRemembered;
  return is_listed(one.launched) && !forgotten;
}

// All of them or none.
io::HttpReply Ec2Double::terminate(const Form& form) {
  std::vector<DoubleInstance*> wanted;
  std::string unknown;
  for (int i = 1;; ++i) {
    const auto id = form.find(fmt::format("InstanceId.{}", i));
    if (id == form.end()) break;
    const auto found = std::ranges::find_if(instances, [&](const DoubleInstance& one) {
      return one.id == id->second && one.region == form.at("region") && is_known(one);
    });
    if (found == instances.end()) {
      unknown += (unknown.empty() ? "" : ", ") + id->second;
    } else {
      wanted.push_back(&*found);
    }
  }
  if (!unknown.empty()) {
    return refused(400, "InvalidInstanceID.NotFound",
                   fmt::format("The instance IDs '{}' do not exist", unknown));
  }
  for (DoubleInstance* one : wanted) {
    if (state_of(*one) == "pending" || state_of(*one) == "running") one->ended = fixture_.now;
  }
  return good("");
}

bool Ec2Double::is_known_group(const std::string& id, const std::string& region) const {
  return std::ranges::any_of(groups, [&](const DoubleGroup& group) {
    return group.id == id && group.region == region && fixture_.now - group.made >= group_lag;
  });
}

io::HttpReply Ec2Double::admit(const Form& form) {
  const std::string id = form.at("GroupId");
  if (!is_known_group(id, form.at("region"))) return refused(400, "InvalidGroup.NotFound");
  std::string rule;
  for (const auto& [name, value] : form) {
    if (name.starts_with("IpPermissions")) rule += value + " ";
  }
  for (DoubleGroup& group : groups) {
    if (group.id != id) continue;
    if (std::ranges::find(group.rules, rule) != group.rules.end()) {
      return refused(400, "InvalidPermission.Duplicate");
    }
    group.rules.push_back(rule);
  }
  return good("");
}

io::HttpReply Ec2Double::create_group(const Form& form) {
  for (const DoubleGroup& group : groups) {
    if (group.name == form.at("GroupName") && group.region == form.at("region"))
      return refused(400, "InvalidGroup.Duplicate");
  }
  groups.push_back({.id = fmt::format("sg-own-{}", ++made_),
                    .region = form.at("region"),
                    .name = form.at("GroupName"),
                    .tags = tags_of(form),
                    .made = fixture_.now});
  return good("<groupId>" + groups.back().id + "</groupId>");
}

io::HttpReply Ec2Double::describe_groups(const Form& form) {
  std::string out = "<securityGroupInfo>";
  for (const DoubleGroup& group : groups) {
    std::map<std::string, std::string> facts = facts_of(group.tags);
    facts["group-name"] = group.name;
    if (group.region != form.at("region")) continue;
    if (!is_listed(group.made) || !passes(form, facts)) continue;
    out += fmt::format("<item><groupId>{}</groupId><groupName>{}</groupName>{}</item>", group.id,
                       group.name, tag_set(group.tags));
  }
  return good(out + "</securityGroupInfo>");
}

io::HttpReply Ec2Double::delete_group(const Form& form) {
  const std::string id = form.at("GroupId");
  if (!is_known_group(id, form.at("region"))) return refused(400, "InvalidGroup.NotFound");
  for (DoubleInstance& one : instances) {
    if (one.group == id && state_of(one) != "terminated") {
      return refused(400, "DependencyViolation");
    }
  }
  const auto erased = std::erase_if(groups, [&](const auto& group) {
    return group.id == id && group.region == form.at("region");
  });
  return erased == 0 ? refused(400, "InvalidGroup.NotFound") : good("");
}

}  // namespace skyward::provider::aws
