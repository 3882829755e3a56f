#include "skyward/provider/aws/credentials_sources.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/base/text.h"
#include "skyward/base/utc.h"
#include "skyward/provider/aws/arn.h"
#include "skyward/provider/aws/call.h"
#include "skyward/provider/aws/xml.h"
#include "skyward/provider/json_read.h"
#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider::aws {

namespace {

constexpr Duration kProgramTimeout = std::chrono::seconds(60);

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
    Error error = to_error(reply.error(), "STS " + action);
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
  return Credentials{.keys = {.access_key_id = id,
                              .secret_access_key = secret,
                              .session_token = variable_of(search.world, "AWS_SESSION_TOKEN")},
                     .account_id = variable_of(search.world, "AWS_ACCOUNT_ID"),
                     .expires_s = std::nullopt,
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
  io::SpawnOptions options;
  options.command = {"sh", "-c", command};
  const auto ran = search.world.run(options, kProgramTimeout);
  if (!ran) return fail(ran);
  if (ran->status.code != 0 || ran->status.signal != 0) {
    return fail(ErrorKind::denied,
                fmt::format("the credential_process of the AWS profile failed ({}): {}",
                            ran->status.describe(), ran->err.substr(0, 500)),
                "run that program by hand to see why");
  }
  return read_keys(ran->out, "credential_process");
}

Found from_login(const Search& search, const std::string& login_session) {
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
  const auto expires = parse_moment(json_text(token, "expiresAt"));
  if (!expires || *expires <= search.world.wall_s()) {
    return fail(ErrorKind::denied, "the session of 'aws login' has expired", std::string(kHint));
  }
  return Credentials{.keys = {.access_key_id = json_text(token, "accessKeyId"),
                              .secret_access_key = json_text(token, "secretAccessKey"),
                              .session_token = json_text(token, "sessionToken")},
                     .account_id = json_text(token, "accountId"),
                     .expires_s = expires,
                     .source = "aws login"};
}

}  // namespace skyward::provider::aws
