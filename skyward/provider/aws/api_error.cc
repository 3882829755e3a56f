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
  ErrorKind kind;
  std::string_view hint;
};

constexpr std::string_view kQuota =
    "ask for a higher limit in the Service Quotas console, or choose another type or region";
constexpr std::string_view kCapacity =
    "no capacity there: allow more zones, types or regions, or on-demand machines";
constexpr std::string_view kKeys =
    "check the credentials: 'skyward providers check aws' says which ones are used";
constexpr std::string_view kKeysOrRegion =
    "check the credentials: 'skyward providers check aws' says which ones are used; or the region "
    "is not enabled for the account";
constexpr std::string_view kRights =
    "let an administrator allow this action; 'skyward providers check aws' lists what is missing";
constexpr std::string_view kFreePlan =
    "the account is on Amazon's free plan, which has few types: upgrade it to the paid plan in the "
    "billing console, or give machine= of a type that is eligible";
constexpr std::string_view kRenew =
    "renew the credentials ('aws sso login', or a new session token), then try again";
constexpr std::string_view kClock = "set this machine's clock: signatures carry the time";
constexpr std::string_view kOverOrClock =
    "the session keys have expired, or this machine's clock is wrong: renew the credentials ('aws "
    "sso "
    "login', or a new session token), or set the clock";

constexpr std::array kCodes = {
    // No capacity.
    CodeRow{"InsufficientInstanceCapacity", ErrorKind::exhausted, kCapacity},
    CodeRow{"InsufficientCapacity", ErrorKind::exhausted, kCapacity},
    CodeRow{"InsufficientCapacityOnHost", ErrorKind::exhausted, kCapacity},
    CodeRow{"InsufficientHostCapacity", ErrorKind::exhausted, kCapacity},
    CodeRow{"InsufficientReservedInstanceCapacity", ErrorKind::exhausted, kCapacity},
    CodeRow{"InsufficientFreeAddressesInSubnet", ErrorKind::exhausted,
            "the subnet has no free address: terminate machines there or choose another subnet"},
    CodeRow{"InsufficientAddressCapacity", ErrorKind::exhausted, kCapacity},
    CodeRow{"ReservationCapacityExceeded", ErrorKind::exhausted, kCapacity},
    CodeRow{"UnfulfillableCapacity", ErrorKind::exhausted, kCapacity},
    CodeRow{"Unsupported", ErrorKind::exhausted, "this type does not exist in that zone"},
    CodeRow{"SpotMaxPriceTooLow", ErrorKind::exhausted,
            "the spot price is above your limit: raise the limit, or use on-demand machines"},
    // Quota.
    CodeRow{"VcpuLimitExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"MaxSpotInstanceCountExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"MaxSpotFleetRequestCountExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"MaxFleetCountExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"InstanceLimitExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"InstanceCreditSpecification.NotSupported", ErrorKind::invalid, ""},
    CodeRow{"VolumeLimitExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"MaxIOPSLimitExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"SecurityGroupLimitExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"LimitExceeded", ErrorKind::exhausted, kQuota},
    CodeRow{"ResourceLimitExceeded", ErrorKind::exhausted, kQuota},
    // Who are you, and may you.
    CodeRow{"AuthFailure", ErrorKind::denied, kKeysOrRegion},
    CodeRow{"InvalidClientTokenId", ErrorKind::denied, kKeys},
    CodeRow{"UnrecognizedClientException", ErrorKind::denied, kKeys},
    CodeRow{"SignatureDoesNotMatch", ErrorKind::denied, kKeys},
    CodeRow{"MissingAuthenticationToken", ErrorKind::denied, kKeys},
    CodeRow{"IncompleteSignature", ErrorKind::denied, kKeys},
    CodeRow{"InvalidAccessKeyId", ErrorKind::denied, kKeys},
    CodeRow{"ExpiredToken", ErrorKind::denied, kRenew},
    CodeRow{"ExpiredTokenException", ErrorKind::denied, kRenew},
    CodeRow{"TokenRefreshRequired", ErrorKind::denied, kRenew},
    CodeRow{"RequestExpired", ErrorKind::denied, kOverOrClock},
    CodeRow{"RequestTimeTooSkewed", ErrorKind::denied, kClock},
    CodeRow{"UnauthorizedOperation", ErrorKind::denied, kRights},
    CodeRow{"AccessDenied", ErrorKind::denied, kRights},
    CodeRow{"AccessDeniedException", ErrorKind::denied, kRights},
    CodeRow{"UnauthorizedAccess", ErrorKind::denied, kRights},
    CodeRow{"AuthFailure.ServiceLinkedRoleCreationNotPermitted", ErrorKind::denied,
            "the first spot request of an account needs iam:CreateServiceLinkedRole for "
            "spot.amazonaws.com: let an administrator make AWSServiceRoleForEC2Spot once"},
    CodeRow{"OptInRequired", ErrorKind::denied,
            "the account is not enabled for this: look into its AWS console"},
    CodeRow{"PendingVerification", ErrorKind::denied,
            "Amazon is verifying the account; that takes up to four hours"},
    CodeRow{"Blocked", ErrorKind::denied, "the account is blocked: contact Amazon's support"},
    // What is asked for is not there, or not so.
    CodeRow{"VPCIdNotSpecified", ErrorKind::invalid,
            "the region has no default network: make one ('aws ec2 create-default-vpc') or give "
            "subnet_id="},
    CodeRow{"DefaultVpcDoesNotExist", ErrorKind::invalid,
            "make one ('aws ec2 create-default-vpc') or give subnet_id="},
    CodeRow{"InvalidAMIID.NotFound", ErrorKind::invalid,
            "images belong to one region: leave ami out, or give one of that region"},
    CodeRow{"InvalidGroup.NotFound", ErrorKind::invalid,
            "the security group is gone: leave security_group_id out and one is made"},
    CodeRow{"InvalidSubnetID.NotFound", ErrorKind::invalid,
            "subnets belong to one region: give one of that region, or leave subnet_id out"},
    CodeRow{"InvalidInstanceType.NotFound", ErrorKind::unsupported,
            "'skyward offers list' shows the types that exist"},
    CodeRow{"InvalidInstanceType", ErrorKind::unsupported,
            "'skyward offers list' shows the types that exist"},
    CodeRow{"UnknownEndpoint", ErrorKind::invalid, "check the name of the region"},
    CodeRow{"DependencyViolation", ErrorKind::unavailable, "something still uses it"},
    CodeRow{"InternalError", ErrorKind::unavailable, "a fault at Amazon's: try again"},
    CodeRow{"InternalFailure", ErrorKind::unavailable, "a fault at Amazon's: try again"},
    CodeRow{"ServiceUnavailable", ErrorKind::unavailable, "a fault at Amazon's: try again"},
    CodeRow{"Unavailable", ErrorKind::unavailable, "a fault at Amazon's: try again"},
    CodeRow{"IDPCommunicationError", ErrorKind::unavailable,
            "the identity provider did not answer"},
    CodeRow{"ConcurrentModification", ErrorKind::unavailable, "try again"},
    CodeRow{"IncorrectInstanceState", ErrorKind::unavailable, "try again"},
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

void read_json_error(const io::HttpReply& reply, ApiError& error) {
  const nlohmann::json parsed = read_json(reply.body);
  for (const char* name : {"__type", "code", "Code", "error"}) {
    if (error.code.empty()) error.code = plain_code(json_text(parsed, name));
  }
  for (const char* name : {"message", "Message", "error_description"}) {
    if (error.message.empty()) error.message = json_text(parsed, name);
  }
}

void read_xml_error(const io::HttpReply& reply, ApiError& error) {
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

bool is_throttling(std::string_view code, int status) {
  return status == 429 || std::ranges::find(kThrottling, code) != kThrottling.end();
}

bool is_capacity(std::string_view code) {
  const auto* row = std::ranges::find(kCodes, code, &CodeRow::code);
  return row != kCodes.end() && row->kind == ErrorKind::exhausted && row->hint != kQuota;
}

bool is_free_plan(const ApiError& error) {
  return error.code == "InvalidParameterCombination" && error.message.contains("Free Tier");
}

bool is_refusal(const ApiError& error) {
  if (error.code.empty() || error.maybe_done) return false;
  return error.status < 500 || is_capacity(error.code) || is_throttling(error.code, error.status);
}

CodeMeaning meaning_of(std::string_view code, int status) {
  if (is_throttling(code, status)) {
    return {ErrorKind::unavailable, "Amazon asks for fewer requests a second: try again later"};
  }
  const auto* row = std::ranges::find(kCodes, code, &CodeRow::code);
  if (row != kCodes.end()) return {row->kind, row->hint};
  if (status >= 500) return {ErrorKind::unavailable, "a fault at Amazon's: try again"};
  if (status == 401 || status == 403) return {ErrorKind::denied, kRights};
  return {ErrorKind::invalid, ""};
}

ApiError read_error(const io::HttpReply& reply) {
  ApiError error;
  error.status = reply.status;
  error.code = plain_code(std::string(reply.header("x-amzn-errortype")));
  error.request_id = reply.header("x-amzn-requestid");
  const std::size_t start = reply.body.find_first_not_of(" \t\r\n");
  if (start != std::string::npos && reply.body[start] == '{') {
    read_json_error(reply, error);
  } else {
    read_xml_error(reply, error);
  }
  if (error.message.empty()) {
    error.message = error.code.empty() ? fmt::format("HTTP status {}", reply.status) : error.code;
  }
  CodeMeaning meaning = meaning_of(error.code, reply.status);
  if (is_free_plan(error)) meaning = {ErrorKind::exhausted, kFreePlan};
  error.kind = meaning.kind;
  error.hint = meaning.hint;
  return error;
}

ApiError no_answer(const Error& error) {
  ApiError out{.code = "",
               .message = error.message,
               .request_id = "",
               .status = 0,
               .kind = error.kind,
               .hint = error.hint,
               .maybe_done = true};
  // libcurl's words. The addresses of Amazon's services have the region in them.
  if (error.message.contains("resolve host")) {
    out.hint = "check the name of the region, and that this machine has a network";
  }
  return out;
}

Error to_error(const ApiError& error, std::string_view what) {
  std::string message = fmt::format("{}: {}", what, error.message);
  if (!error.code.empty() && error.code != error.message) message += " (" + error.code + ")";
  if (!error.request_id.empty()) message += ", request " + error.request_id;
  return {.kind = error.kind, .message = std::move(message), .hint = error.hint};
}

}  // namespace skyward::provider::aws
