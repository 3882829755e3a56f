#include "skyward/provider/aws/api_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "skyward/provider/aws/xml.h"
#include "skyward/provider/json_read.h"

namespace skyward::provider::aws {

namespace {

struct CodeRow {
  std::string_view code;
  Refusal refusal;
  std::string_view hint;
};

constexpr std::string_view kQuota =
    "ask for a higher limit in the Service Quotas console, or choose another type or region; it "
    "counts all machines of the account in that region, also other people's";
constexpr std::string_view kKeys =
    "check the credentials: 'skyward providers check aws' says which ones are used";
constexpr std::string_view kKeysOrRegion =
    "check the credentials: 'skyward providers check aws' says which ones are used; or the region "
    "is not enabled for the account, or refuses session keys from the global endpoint of STS "
    "(set AWS_STS_REGIONAL_ENDPOINTS=regional to get others)";
constexpr std::string_view kRights =
    "ask an administrator to allow this action; 'skyward providers check aws' lists what is "
    "missing";
constexpr std::string_view kDenied =
    "a policy denies this explicitly, so no right allows it: ask an administrator for an exception "
    "in that policy, which may be one of the organisation";
constexpr std::string_view kDeniedMachine =
    "if a policy allows certain types or on-demand machines only, give machine= of such a type, or "
    "spot=\"never\"; else ask an administrator to allow this action, or for an exception";
constexpr std::string_view kFreePlan =
    "the account is on Amazon's free plan, which has few types: upgrade it to the paid plan in the "
    "billing console, or give machine= of a type that is eligible";
constexpr std::string_view kRenew =
    "renew the credentials ('aws sso login', or a new session token), then try again";
constexpr std::string_view kClock = "set this machine's clock: signatures contain the time";
constexpr std::string_view kOverOrClock =
    "the session keys have expired, or this machine's clock is wrong: renew the credentials ('aws "
    "sso "
    "login', or a new session token), or set the clock";

constexpr std::string_view kNoSpotRole = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

constexpr std::array kCodes = {
    // No capacity. Without a hint, the launch knows better what else to allow.
    CodeRow{"InsufficientInstanceCapacity", Refusal::capacity, ""},
    CodeRow{"InsufficientCapacity", Refusal::capacity, ""},
    CodeRow{"InsufficientCapacityOnHost", Refusal::capacity, ""},
    CodeRow{"InsufficientHostCapacity", Refusal::capacity, ""},
    CodeRow{"InsufficientReservedInstanceCapacity", Refusal::capacity, ""},
    CodeRow{"InsufficientFreeAddressesInSubnet", Refusal::capacity,
            "the subnet has no free address: terminate machines there or choose another subnet"},
    CodeRow{"InsufficientAddressCapacity", Refusal::capacity, ""},
    CodeRow{"ReservationCapacityExceeded", Refusal::capacity, ""},
    CodeRow{"UnfulfillableCapacity", Refusal::capacity, ""},
    CodeRow{"InsufficientVolumeCapacity", Refusal::capacity,
            "Amazon has no room for disks there: try later, or give subnet_id= of another zone"},
    CodeRow{"VolumeTypeNotAvailableInZone", Refusal::capacity,
            "that zone has no disks of the type gp3: give subnet_id= of another zone"},
    CodeRow{"Unsupported", Refusal::capacity,
            "Amazon does not support such a launch there: choose another type, zone or image"},
    CodeRow{"SpotMaxPriceTooLow", Refusal::price_too_low,
            "the spot price is above your limit: raise the limit, or use on-demand machines"},
    // Quota.
    CodeRow{"VcpuLimitExceeded", Refusal::quota, kQuota},
    CodeRow{"MaxSpotInstanceCountExceeded", Refusal::quota, kQuota},
    CodeRow{"MaxSpotFleetRequestCountExceeded", Refusal::quota, kQuota},
    CodeRow{"MaxFleetCountExceeded", Refusal::quota, kQuota},
    CodeRow{"InstanceLimitExceeded", Refusal::quota, kQuota},
    CodeRow{"InstanceCreditSpecification.NotSupported", Refusal::invalid, ""},
    CodeRow{"VolumeLimitExceeded", Refusal::quota, kQuota},
    CodeRow{"MaxIOPSLimitExceeded", Refusal::quota, kQuota},
    CodeRow{"SecurityGroupLimitExceeded", Refusal::quota, kQuota},
    CodeRow{"LimitExceeded", Refusal::quota, kQuota},
    CodeRow{"ResourceLimitExceeded", Refusal::quota, kQuota},
    // Who are you, and may you.
    CodeRow{"AuthFailure", Refusal::auth, kKeysOrRegion},
    CodeRow{"InvalidClientTokenId", Refusal::auth, kKeysOrRegion},
    CodeRow{"UnrecognizedClientException", Refusal::auth, kKeysOrRegion},
    CodeRow{"SignatureDoesNotMatch", Refusal::auth, kKeys},
    CodeRow{"MissingAuthenticationToken", Refusal::auth, kKeys},
    CodeRow{"IncompleteSignature", Refusal::auth, kKeys},
    CodeRow{"InvalidAccessKeyId", Refusal::auth, kKeys},
    CodeRow{"ExpiredToken", Refusal::auth, kRenew},
    CodeRow{"ExpiredTokenException", Refusal::auth, kRenew},
    CodeRow{"TokenRefreshRequired", Refusal::auth, kRenew},
    CodeRow{"RequestExpired", Refusal::auth, kOverOrClock},
    CodeRow{"RequestTimeTooSkewed", Refusal::auth, kClock},
    CodeRow{"UnauthorizedOperation", Refusal::auth, kRights},
    CodeRow{"AccessDenied", Refusal::auth, kRights},
    CodeRow{"AccessDeniedException", Refusal::auth, kRights},
    CodeRow{"UnauthorizedAccess", Refusal::auth, kRights},
    CodeRow{kNoSpotRole, Refusal::auth,
            "the first spot request of an account needs iam:CreateServiceLinkedRole for "
            "spot.amazonaws.com: ask an administrator to create AWSServiceRoleForEC2Spot once"},
    CodeRow{"OptInRequired", Refusal::auth,
            "the account is not enabled for this: check its AWS console"},
    CodeRow{"PendingVerification", Refusal::auth,
            "Amazon is verifying the account; that takes up to four hours"},
    CodeRow{"Blocked", Refusal::auth, "the account is blocked: contact Amazon's support"},
    // What is asked for is not there, or not so.
    CodeRow{"VPCIdNotSpecified", Refusal::invalid,
            "the region has no default network: create one ('aws ec2 create-default-vpc') or give "
            "subnet_id="},
    CodeRow{"DefaultVpcDoesNotExist", Refusal::invalid,
            "create one ('aws ec2 create-default-vpc') or give subnet_id="},
    CodeRow{"InvalidAMIID.NotFound", Refusal::not_found,
            "images belong to one region: leave ami out, or give one of that region"},
    CodeRow{"InvalidGroup.NotFound", Refusal::not_found,
            "the security group is gone: leave security_group_id out, and Skyward creates one"},
    CodeRow{"InvalidSubnetID.NotFound", Refusal::not_found,
            "subnets belong to one region: give one of that region, or leave subnet_id out"},
    CodeRow{"InvalidInstanceType.NotFound", Refusal::not_found,
            "'skyward offers list' shows the types that exist"},
    CodeRow{"InvalidInstanceType", Refusal::not_found,
            "'skyward offers list' shows the types that exist"},
    CodeRow{"UnknownEndpoint", Refusal::invalid, "check the name of the region"},
    CodeRow{"DependencyViolation", Refusal::conflict, "something still uses it"},
    CodeRow{"InternalError", Refusal::transient, "an internal error at Amazon: try again"},
    CodeRow{"InternalFailure", Refusal::transient, "an internal error at Amazon: try again"},
    CodeRow{"ServiceUnavailable", Refusal::transient, "an internal error at Amazon: try again"},
    CodeRow{"Unavailable", Refusal::transient, "an internal error at Amazon: try again"},
    CodeRow{"IDPCommunicationError", Refusal::transient, "the identity provider did not answer"},
    CodeRow{"ConcurrentModification", Refusal::conflict, "try again"},
    CodeRow{"IncorrectInstanceState", Refusal::conflict, "try again"},
};

constexpr std::array<std::string_view, 15> kThrottling = {
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottled",
    "RequestThrottledException",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
    "TransactionInProgressException",
    "ProvisionedThroughputExceededException",
    "PriorRequestNotCompleteException",
};

// "com.amazonaws.ssm#ParameterNotFound:http://…" says ParameterNotFound.
std::string plain_code(std::string code) {
  code = code.substr(0, code.find(':'));
  const std::size_t hash = code.rfind('#');
  return hash == std::string::npos ? code : code.substr(hash + 1);
}

// What a refusal says, in whatever form.
struct Words {
  std::string code;
  std::string message;
  std::string request_id;
};

void read_json_error(const io::HttpReply& reply, Words& error) {
  const nlohmann::json parsed = read_json(reply.body);
  for (const char* name : {"__type", "code", "Code", "error"}) {
    if (error.code.empty()) error.code = plain_code(json_text(parsed, name));
  }
  for (const char* name : {"message", "Message", "error_description"}) {
    if (error.message.empty()) error.message = json_text(parsed, name);
  }
}

void read_xml_error(const io::HttpReply& reply, Words& error) {
  const Result<XmlElement> root = parse_xml(reply.body);
  if (!root) return;
  for (const char* path : {"Errors/Error", "Error", ""}) {
    const XmlElement* found = root->find(path);
    if (found == nullptr || found->value("Code").empty()) continue;
    error.code = found->value("Code");
    error.message = found->value("Message");
    break;
  }
  for (const char* path : {"RequestID", "RequestId", "requestId"}) {
    if (error.request_id.empty()) error.request_id = root->value(path);
  }
}

}  // namespace

bool lacks_spot_role(const ApiError& error) { return error.code == kNoSpotRole; }

bool is_free_plan(const ApiError& error) {
  return error.code == "InvalidParameterCombination" && error.message.contains("Free Tier");
}

bool is_denied_machine(const ApiError& error) {
  return error.code == "UnauthorizedOperation" && error.message.contains("ec2:RunInstances") &&
         error.message.contains(":instance/*");
}

CodeMeaning meaning_of(std::string_view code, int status) {
  if (status == 429 || std::ranges::find(kThrottling, code) != kThrottling.end()) {
    return {Refusal::rate_limited, "Amazon is throttling requests: try again later"};
  }
  const auto* row = std::ranges::find(kCodes, code, &CodeRow::code);
  if (row != kCodes.end()) {
    const bool fault = status >= 500 && kind_of(row->refusal) != ErrorKind::exhausted;
    return {fault ? Refusal::transient : row->refusal, row->hint};
  }
  if (status >= 500) return {Refusal::transient, "an internal error at Amazon: try again"};
  if (status == 401 || status == 403) return {Refusal::auth, kRights};
  return {Refusal::invalid, ""};
}

ApiError make_error(std::string code, std::string message, int status) {
  ApiError error;
  error.status = status;
  error.code = std::move(code);
  error.message = std::move(message);
  CodeMeaning meaning = meaning_of(error.code, status);
  if (is_free_plan(error)) meaning = {Refusal::capacity, kFreePlan};
  // More than a kilobyte for administrators, who find it in CloudTrail, too.
  const std::size_t encoded = error.message.find(" Encoded authorization failure message:");
  if (encoded != std::string::npos) error.message.erase(encoded);
  const bool denied = meaning.hint == kRights && error.message.contains("explicit deny");
  if (denied) meaning.hint = kDenied;
  if (is_denied_machine(error)) meaning.hint = kDeniedMachine;
  error.refusal = meaning.refusal;
  // Without a code, it may be a proxy's.
  if (!error.code.empty()) error.heard = Heard::answered;
  error.hint = meaning.hint;
  return error;
}

ApiError read_error(const io::HttpReply& reply) {
  Words words;
  words.code = plain_code(std::string(reply.header("x-amzn-errortype")));
  words.request_id = reply.header("x-amzn-requestid");
  const std::size_t start = reply.body.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && reply.body[start] == '{') {
    read_json_error(reply, words);
  } else {
    read_xml_error(reply, words);
  }
  if (words.message.empty()) {
    words.message = words.code.empty() ? fmt::format("HTTP status {}", reply.status) : words.code;
  }
  ApiError error = make_error(std::move(words.code), std::move(words.message), reply.status);
  error.request_id = std::move(words.request_id);
  return error;
}

void add_region_hint(ApiError& error) {
  // libcurl's words. The addresses of Amazon's services have the region in them.
  if (error.message.contains("resolve host")) {
    error.hint = "check the name of the region, and that this machine has a network connection";
  }
}

}  // namespace skyward::provider::aws
