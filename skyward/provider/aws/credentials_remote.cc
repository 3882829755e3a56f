// Credentials that a service hands out: single sign-on, the container's, the machine's.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/base/text.h"
#include "skyward/base/utc.h"
#include "skyward/provider/aws/call.h"
#include "skyward/provider/aws/credentials_sources.h"
#include "skyward/provider/aws/own_machine.h"
#include "skyward/provider/json_read.h"

namespace skyward::provider::aws {

namespace {

// The machine's own services answer at once or not at all.
constexpr Duration kMachineConnectTimeout = std::chrono::seconds(1);
constexpr Duration kMachineTimeout = std::chrono::seconds(5);
constexpr int kMachineAttempts = 4;

// SHA-1, by which Amazon's tools name the files of a session. Nothing is protected by it.
std::string sha1_hex(std::string_view text) {
  std::array<std::uint32_t, 5> h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  const std::uint64_t bits = text.size() * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift);
  for (std::size_t block = 0; block < padded.size(); block += 64) {
    std::array<std::uint32_t, 80> w{};
    for (std::size_t i = 0; i < 64; ++i) {
      w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(padded[block + i]);
    }
    for (std::size_t i = 16; i < 80; ++i) {
      w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    auto [a, b, c, d, e] = h;
    for (std::size_t i = 0; i < 80; ++i) {
      const std::uint32_t mixed = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                                  : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                                  : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                                           : (b ^ c ^ d) + 0xca62c1d6;
      const std::uint32_t next = std::rotl(a, 5) + mixed + e + w[i];
      e = d;
      d = c;
      c = std::rotl(b, 30);
      b = a;
      a = next;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
  }
  std::string out;
  for (const std::uint32_t word : h) out += fmt::format("{:08x}", word);
  return out;
}

std::unexpected<Error> no_session(const std::string& why) {
  return fail(ErrorKind::denied, "the single sign-on session of AWS cannot be used: " + why,
              "run 'aws sso login'");
}

// A refusal means that the session is over. Without an answer, it may still be good.
std::unexpected<Error> not_signed_on(const ApiError& error, std::string_view action) {
  const ErrorKind kind = error.kind();
  if (kind == ErrorKind::unavailable || kind == ErrorKind::timeout) {
    return std::unexpected(to_error(error, fmt::format("AWS single sign-on {}", action)));
  }
  return no_session(fmt::format("{}: {}", action, error.message));
}

// Renews a session's token with its refresh token, and keeps it where Amazon's tools keep it.
Result<std::string> renew_token(const Search& search, const std::string& path,
                                nlohmann::json cached, const std::string& region) {
  const auto registration = parse_moment(json_text(cached, "registrationExpiresAt"));
  const std::string refresh = json_text(cached, "refreshToken");
  if (refresh.empty() || (registration && *registration <= search.world.wall_s())) {
    return no_session("it has expired");
  }
  auto endpoint = find_endpoint(search.world, search.configuration, "oidc", region);
  if (!endpoint) return fail(endpoint);
  ApiCall call;
  call.endpoint = *std::move(endpoint);
  call.path = "/token";
  call.headers = {{"Content-Type", "application/json"}};
  call.body = json_line({{"clientId", json_text(cached, "clientId")},
                         {"clientSecret", json_text(cached, "clientSecret")},
                         {"grantType", "refresh_token"},
                         {"refreshToken", refresh}});
  ClockOffset clock;
  const auto reply = send_call(search.world, search.configuration, call, nullptr, clock,
                               {.attempts = 4}, search.deadline);
  if (!reply) return not_signed_on(reply.error(), "CreateToken");
  const auto fresh = read_json(reply->body);
  const std::string token = json_text(fresh, "accessToken");
  if (token.empty()) return no_session("its renewal returned no token");
  constexpr std::int64_t kHour_s = 3600;
  const std::int64_t seconds =
      std::clamp<std::int64_t>(json_whole(fresh, "expiresIn").value_or(kHour_s), 0, 24 * kHour_s);
  cached["accessToken"] = token;
  cached["expiresAt"] = utc_moment(search.world.wall_s() + seconds);
  if (const std::string next = json_text(fresh, "refreshToken"); !next.empty()) {
    cached["refreshToken"] = next;
  }
  (void)search.world.write_file(path, json_line(cached));  // else it is renewed again next time
  return token;
}

struct SessionToken {
  std::string text{};
  std::optional<std::int64_t> ends_s{};  // if it cannot be renewed
};

// The session's token out of the cache that 'aws sso login' fills.
Result<SessionToken> session_token(const Search& search, const std::string& key,
                                   const std::string& region) {
  const std::string path =
      home_directory(search.world) + "/.aws/sso/cache/" + sha1_hex(key) + ".json";
  const Result<std::string> text = search.world.read_file(path);
  if (!text) return no_session(text.error().message);
  const auto cached = read_json(*text);
  if (!cached.is_object()) return no_session(path + " does not contain a JSON object");
  const auto expires = parse_moment(json_text(cached, "expiresAt"));
  const std::string token = json_text(cached, "accessToken");
  if (token.empty() || !expires) return no_session(path + " contains no token");
  constexpr std::int64_t kSpare_s = 60;
  if (*expires - kSpare_s > search.world.wall_s()) {
    const bool is_renewable = !json_text(cached, "refreshToken").empty();
    return SessionToken{.text = token, .ends_s = is_renewable ? std::nullopt : expires};
  }
  const auto renewed = renew_token(search, path, cached, region);
  if (!renewed) return fail(renewed);
  return SessionToken{.text = *renewed};
}

// One request to a service of this machine, past every proxy.
Result<io::HttpReply> ask_machine(const Search& search, io::HttpRequest request) {
  request.direct = true;
  request.connect_timeout = kMachineConnectTimeout;
  const Time deadline = std::min(search.deadline, search.world.now() + kMachineTimeout);
  Retries retries(search.world, {.attempts = kMachineAttempts}, deadline);
  while (true) {
    Result<io::HttpReply> reply = search.world.http->send(request, deadline);
    if (!reply || reply->status < 500 || !retries.again()) return reply;
  }
}

// Whether the service may answer a little later.
bool is_silent(const Result<io::HttpReply>& reply) {
  return !reply || reply->status == 429 || reply->status >= 500;
}

std::unexpected<Error> no_metadata(const Result<io::HttpReply>& reply) {
  return fail(reply ? ErrorKind::unavailable : reply.error().kind,
              fmt::format("the metadata service of this machine does not answer: {}",
                          reply ? fmt::format("status {}", reply->status) : reply.error().message),
              "try again; in a container, set the hop limit in the instance's metadata options to "
              "2; or give credentials another way ('aws configure')");
}

}  // namespace

Found from_single_sign_on(const Search& search, const Section& section) {
  const std::string account = value_at(section, "sso_account_id");
  const std::string role = value_at(section, "sso_role_name");
  const std::string name = value_at(section, "sso_session");
  Section session = section;
  std::string key = value_at(section, "sso_start_url");
  if (!name.empty()) {
    const auto found = search.configuration.files.sso_sessions.find(name);
    if (found == search.configuration.files.sso_sessions.end()) {
      return no_session(fmt::format("there is no [sso-session {}]", name));
    }
    session = found->second;
    key = name;
  }
  if (account.empty() || role.empty()) {
    return no_session("the profile needs both sso_account_id and sso_role_name");
  }
  const std::string region = value_at(session, "sso_region");
  if (region.empty() || key.empty()) return no_session("it has no sso_region or no sso_start_url");
  const auto token = session_token(search, key, region);
  if (!token) return fail(token);

  auto endpoint = find_endpoint(search.world, search.configuration, "sso", region);
  if (!endpoint) return fail(endpoint);
  ApiCall call;
  call.endpoint = *std::move(endpoint);
  call.method = "GET";
  call.path = "/federation/credentials";
  call.query =
      "role_name=" + io::percent_encode(role) + "&account_id=" + io::percent_encode(account);
  call.headers = {{"x-amz-sso_bearer_token", token->text}};
  ClockOffset clock;
  const auto reply = send_call(search.world, search.configuration, call, nullptr, clock,
                               {.attempts = 4}, search.deadline);
  if (!reply) return not_signed_on(reply.error(), "GetRoleCredentials");
  const auto parsed = read_json(reply->body);
  const nlohmann::json& keys = json_at(parsed, "roleCredentials");
  if (!keys.is_object()) {
    return no_session("the reply has no credentials in it");
  }
  Credentials credentials{.keys = {.access_key_id = json_text(keys, "accessKeyId"),
                                   .secret_access_key = json_text(keys, "secretAccessKey"),
                                   .session_token = json_text(keys, "sessionToken")},
                          .account_id = account,
                          .expires_s = std::nullopt,
                          .source = fmt::format("single sign-on, role {} of {}", role, account)};
  if (const auto expires_ms = json_whole(keys, "expiration")) {
    credentials.expires_s = *expires_ms / 1000;
  }
  if (token->ends_s) {  // the last keys may outlive the session
    credentials.ends_s = std::max(*token->ends_s, credentials.expires_s.value_or(0));
  }
  return credentials;
}

Result<std::string> container_endpoint(const World& world) {
  const std::string relative = variable_of(world, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!relative.empty()) return "http://169.254.170.2" + relative;
  const std::string full = variable_of(world, "AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (full.empty() || is_trusted_service(full)) return full;
  return fail(ErrorKind::invalid,
              "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither an https address nor one of this "
              "machine: " +
                  full,
              "unset it, unless the container sets it");
}

Found from_container(const Search& search) {
  const Result<std::string> url = container_endpoint(search.world);
  if (!url) return fail(url);
  if (url->empty()) return std::nullopt;
  io::HttpRequest request;
  request.url = *url;
  request.headers = {{"Accept", "application/json"}};
  std::string token = variable_of(search.world, "AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string file = variable_of(search.world, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!file.empty()) {
    const Result<std::string> text = search.world.read_file(file);
    if (!text) return fail(ErrorKind::denied, "the container's token: " + text.error().message);
    token = *text;
    while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  }
  if (token.find_first_of("\r\n") != std::string::npos) {
    return fail(ErrorKind::denied, "the container's token has a line break in it");
  }
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  const Result<io::HttpReply> reply = ask_machine(search, request);
  if (!reply) return fail(reply);
  if (reply->status != 200) {
    return fail(is_silent(reply) ? ErrorKind::unavailable : ErrorKind::denied,
                fmt::format("the container's credential service answered with status {}: {}",
                            reply->status, reply->body.substr(0, 200)));
  }
  return read_keys(reply->body, "the container's service");
}

Result<std::string> metadata_endpoint(const World& world, const Configuration& configuration) {
  std::string url = setting(world, configuration, "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                            "ec2_metadata_service_endpoint");
  while (url.ends_with('/')) url.pop_back();
  if (!url.empty()) {
    if ((url.starts_with("http://") || url.starts_with("https://")) && !url.contains(' '))
      return url;
    return fail(ErrorKind::invalid,
                "the address of the metadata service is not a web address: " + url,
                "correct AWS_EC2_METADATA_SERVICE_ENDPOINT");
  }
  std::string mode = setting(world, configuration, "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE",
                             "ec2_metadata_service_endpoint_mode");
  std::ranges::transform(mode, mode.begin(), [](char c) {
    return c == 'i' ? 'I' : c == 'P' ? 'p' : c == 'V' ? 'v' : c;
  });
  if (mode.empty() || mode == "Ipv4") return "http://169.254.169.254";
  if (mode == "Ipv6") return "http://[fd00:ec2::254]";
  return fail(ErrorKind::invalid,
              "the endpoint mode of the metadata service is neither IPv4 nor IPv6");
}

Found from_metadata(const Search& search, bool named) {
  std::string disabled = variable_of(search.world, "AWS_EC2_METADATA_DISABLED");
  std::ranges::transform(disabled, disabled.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (disabled == "true") return std::nullopt;
  const bool asked_for = disabled == "false" || !setting(search.world, search.configuration,
                                                         "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                                         "ec2_metadata_service_endpoint")
                                                     .empty();
  if (!named && !asked_for && !is_ec2_machine(search.world)) return std::nullopt;
  const Result<std::string> endpoint = metadata_endpoint(search.world, search.configuration);
  if (!endpoint) return fail(endpoint);

  io::HttpRequest request;
  request.method = "PUT";
  request.url = *endpoint + "/latest/api/token";
  request.headers = {{"X-aws-ec2-metadata-token-ttl-seconds", "21600"}};
  const Result<io::HttpReply> token = ask_machine(search, request);
  if (is_silent(token)) return no_metadata(token);
  if (token->status == 403) {
    return fail(ErrorKind::denied, "the metadata service of this machine is disabled",
                "enable it for the instance, or give credentials another way");
  }
  if (token->status != 200) return std::nullopt;

  request.method = "GET";
  request.headers = {{"X-aws-ec2-metadata-token", token->body}};
  request.url = *endpoint + "/latest/meta-data/iam/security-credentials/";
  const Result<io::HttpReply> role = ask_machine(search, request);
  if (is_silent(role)) return no_metadata(role);
  if (role->status != 200) return std::nullopt;  // the machine has no role
  const std::string name = role->body.substr(0, role->body.find('\n'));
  request.url += io::percent_encode(name);
  const Result<io::HttpReply> keys = ask_machine(search, request);
  if (is_silent(keys)) return no_metadata(keys);
  if (keys->status != 200) {
    return fail(ErrorKind::denied, fmt::format("the metadata service returned no keys for role {}: "
                                               "status {}",
                                               name, keys->status));
  }
  return read_keys(keys->body, "this machine's role " + name);
}

}  // namespace skyward::provider::aws
