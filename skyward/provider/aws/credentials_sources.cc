#include "skyward/provider/aws/credentials_sources.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/base/text.h"
#include "skyward/base/utc.h"
#include "skyward/io/machine.h"
#include "skyward/provider/aws/arn.h"
#include "skyward/provider/aws/call.h"
#include "skyward/provider/aws/xml.h"
#include "skyward/provider/json_read.h"
#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider::aws {

namespace {

constexpr Duration kProgramTimeout = std::chrono::seconds(60);
// Keys of 'aws login' that end sooner are renewed.
constexpr std::int64_t kRenewLogin_s = 60;

// Asks STS for a role's temporary keys.
Result<Credentials> ask_sts(const Search& search, const Parameters& parameters, const Keys* base) {
  auto endpoint = find_endpoint(search.world, search.configuration, "sts", search.region);
  if (!endpoint) return fail(endpoint);
  if (base == nullptr) {  // a token proves who asks
    if (Status safe = check_base_url(*endpoint, "AWS_ENDPOINT_URL_STS"); !safe) return fail(safe);
  }
  ApiCall call;
  call.endpoint = *std::move(endpoint);
  call.region = search.region;
  call.signing_name = base == nullptr ? "" : "sts";
  call.headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
  call.body = form_encode(parameters);
  ClockOffset clock;
  const auto reply = send_call(search.world, search.configuration, call, base, clock,
                               {.attempts = 4}, search.deadline);
  const std::string action = parameters.front().second;
  if (!reply) {
    Error error = to_error(reply.error(), fmt::format("STS {} in {}", action, search.region));
    if (error.kind == ErrorKind::invalid) error.kind = ErrorKind::denied;
    return std::unexpected(std::move(error));
  }
  const Result<XmlElement> root = parse_xml(reply->body);
  if (!root) return fail(root);
  const XmlElement* result = root->find(action + "Result");
  if (result == nullptr || result->value("Credentials/SecretAccessKey").empty()) {
    return fail(ErrorKind::unavailable, "STS " + action + ": the reply has no credentials in it");
  }
  return Credentials{.keys = {.access_key_id = result->value("Credentials/AccessKeyId"),
                              .secret_access_key = result->value("Credentials/SecretAccessKey"),
                              .session_token = result->value("Credentials/SessionToken")},
                     .account_id = account_of(result->value("AssumedRoleUser/Arn")),
                     .expires_s = parse_moment(result->value("Credentials/Expiration")),
                     .source = {}};
}

// The keys that a program prints. `name`: of the program, for people.
Found ask_program(const Search& search, std::vector<std::string> command, const std::string& name,
                  const std::string& hint) {
  io::SpawnOptions options;
  options.command = std::move(command);
  const auto ran = search.world.run(options, kProgramTimeout);
  if (!ran) return fail(ran);
  if (ran->status.code != 0 || ran->status.signal != 0) {
    return fail(ErrorKind::denied,
                fmt::format("the {} of the AWS profile failed ({}): {}", name,
                            ran->status.describe(), ran->err.substr(0, 500)),
                hint);
  }
  return read_keys(ran->out, name);
}

// By the AWS CLI: Amazon wants requests for new keys to be signed with a key of the session.
Found renewed_login(const Search& search, const std::string& profile) {
  const auto program = io::find_program("aws", search.world.variable("PATH"));
  if (!program) {
    return fail(ErrorKind::denied,
                "the keys of 'aws login' have expired, and the program aws, which renews them, is "
                "not on PATH",
                "install the AWS CLI, then run 'aws login'");
  }
  Found found = ask_program(
      search,
      {*program, "configure", "export-credentials", "--format", "process", "--profile", profile},
      "renewal by 'aws configure export-credentials'", "run 'aws login'");
  if (found && *found) (*found)->source = "aws login";
  return found;
}

}  // namespace

Found read_keys(const std::string& json, const std::string& source) {
  const auto parsed = read_json(json);
  if (!parsed.is_object()) {
    return fail(ErrorKind::denied,
                source + " returned no credentials: its output is not a JSON object");
  }
  std::string token = json_text(parsed, "SessionToken");
  if (token.empty()) token = json_text(parsed, "Token");
  Credentials credentials{.keys = {.access_key_id = json_text(parsed, "AccessKeyId"),
                                   .secret_access_key = json_text(parsed, "SecretAccessKey"),
                                   .session_token = token},
                          .account_id = json_text(parsed, "AccountId"),
                          .expires_s = parse_moment(json_text(parsed, "Expiration")),
                          .source = source};
  if (credentials.keys.access_key_id.empty() || credentials.keys.secret_access_key.empty()) {
    const std::string why = json_text(parsed, "Message");
    return fail(ErrorKind::denied,
                source + " returned no credentials: " +
                    (why.empty() ? "AccessKeyId or SecretAccessKey is missing" : why));
  }
  return credentials;
}

Found from_environment(const Search& search) {
  const std::string id = variable_of(search.world, "AWS_ACCESS_KEY_ID");
  const std::string secret = variable_of(search.world, "AWS_SECRET_ACCESS_KEY");
  if (id.empty() || secret.empty()) return std::nullopt;
  const auto expires_s = parse_moment(variable_of(search.world, "AWS_CREDENTIAL_EXPIRATION"));
  return Credentials{.keys = {.access_key_id = id,
                              .secret_access_key = secret,
                              .session_token = variable_of(search.world, "AWS_SESSION_TOKEN")},
                     .account_id = variable_of(search.world, "AWS_ACCOUNT_ID"),
                     .expires_s = expires_s,
                     .ends_s = expires_s,
                     .source = "the environment (AWS_ACCESS_KEY_ID)"};
}

Found from_web_identity(const Search& search, const std::string& role, const std::string& file,
                        const std::string& session_name) {
  Result<std::string> token = search.world.read_file(file);
  if (!token) {
    return fail(ErrorKind::denied, "the web identity of AWS: " + token.error().message,
                "AWS_WEB_IDENTITY_TOKEN_FILE or web_identity_token_file names that file");
  }
  while (token->ends_with('\n')) token->pop_back();
  const std::string name =
      session_name.empty() ? "skyward-" + search.world.random_hex(8) : session_name;
  Result<Credentials> taken = ask_sts(search,
                                      {{"Action", "AssumeRoleWithWebIdentity"},
                                       {"Version", "2011-06-15"},
                                       {"RoleArn", role},
                                       {"RoleSessionName", name},
                                       {"WebIdentityToken", *token}},
                                      nullptr);
  if (!taken) return fail(taken);
  taken->source = fmt::format("web identity {}, role {}", file, role);
  return *std::move(taken);
}

Result<Credentials> assume_role(const Search& search, const Credentials& base,
                                const Section& section) {
  if (!value_at(section, "mfa_serial").empty()) {
    return fail(ErrorKind::unsupported,
                "the AWS profile needs a multi-factor code, but Skyward cannot ask for one",
                "assume the role once with 'aws sts assume-role' and export its keys, or use "
                "'aws sso login'");
  }
  const std::string session = value_at(section, "role_session_name");
  Parameters parameters = {
      {"Action", "AssumeRole"},
      {"Version", "2011-06-15"},
      {"RoleArn", value_at(section, "role_arn")},
      {"RoleSessionName", session.empty() ? "skyward-" + search.world.random_hex(8) : session}};
  if (const std::string id = value_at(section, "external_id"); !id.empty()) {
    parameters.emplace_back("ExternalId", id);
  }
  if (const std::string s = value_at(section, "duration_seconds"); !s.empty()) {
    parameters.emplace_back("DurationSeconds", s);
  }
  return ask_sts(search, parameters, &base.keys);
}

Found from_program(const Search& search, const std::string& command) {
  return ask_program(search, {"sh", "-c", command}, "credential_process",
                     "run that program by hand to see why");
}

Found from_login(const Search& search, const std::string& login_session,
                 const std::string& profile) {
  const std::string directory = search.world.variable("AWS_LOGIN_CACHE_DIRECTORY")
                                    .value_or(home_directory(search.world) + "/.aws/login/cache");
  const Result<std::string> text =
      search.world.read_file(directory + "/" + to_hex(sha256(as_bytes(login_session))) + ".json");
  constexpr std::string_view kHint = "run 'aws login'";
  if (!text)
    return fail(ErrorKind::denied, "aws login: " + text.error().message, std::string(kHint));
  const auto parsed = read_json(*text);
  const nlohmann::json& token = json_at(parsed, "accessToken");
  if (!token.is_object()) {
    return fail(ErrorKind::denied, "aws login: the cached session has no keys", std::string(kHint));
  }
  const Credentials cached{.keys = {.access_key_id = json_text(token, "accessKeyId"),
                                    .secret_access_key = json_text(token, "secretAccessKey"),
                                    .session_token = json_text(token, "sessionToken")},
                           .account_id = json_text(token, "accountId"),
                           .expires_s = parse_moment(json_text(token, "expiresAt")),
                           .source = "aws login"};
  const std::int64_t left_s = cached.expires_s.value_or(0) - search.world.wall_s();
  if (left_s > kRenewLogin_s) return cached;
  Found renewed = renewed_login(search, profile);
  if (!renewed && left_s > 0) return cached;
  if (renewed && *renewed && (*renewed)->account_id.empty()) {
    (*renewed)->account_id = cached.account_id;
  }
  return renewed;
}

}  // namespace skyward::provider::aws
