#include "skyward/provider/aws/sigv4.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/base/hmac.h"
#include "skyward/base/text.h"
#include "skyward/base/utc.h"

namespace skyward::provider::aws {

namespace {

// Without blanks at its ends, and one blank for each run of them inside.
std::string tidy_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (!blank) {
      out += c;
    } else if (!out.empty() && out.back() != ' ') {
      out += ' ';
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

// RFC 3986, 5.2.4, without empty segments.
std::string normalized(std::string_view path) {
  std::vector<std::string_view> kept;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part == "..") {
      if (!kept.empty()) kept.pop_back();
    } else if (!part.empty() && part != ".") {
      kept.push_back(part);
    }
    begin = end + 1;
  }
  std::string out;
  for (const std::string_view part : kept) {
    out += '/';
    out += part;
  }
  const bool ends_open = path.ends_with('/') || path.ends_with("/.");
  if (out.empty() || (ends_open && !out.ends_with('/'))) out += '/';
  return out;
}

std::string canonical_query(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (std::size_t begin = 0; begin < query.size();) {
    const std::size_t end = std::min(query.find('&', begin), query.size());
    const std::string_view pair = query.substr(begin, end - begin);
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view value = equals < pair.size() ? pair.substr(equals + 1) : "";
    pairs.emplace_back(io::percent_encode(percent_decode(pair.substr(0, equals))),
                       io::percent_encode(percent_decode(value)));
    begin = end + 1;
  }
  std::ranges::sort(pairs);
  std::string out;
  for (const auto& [name, value] : pairs) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, value);
  }
  return out;
}

bool is_signed(std::string_view name) {
  // What a proxy or the library below may change.
  constexpr std::array<std::string_view, 5> kLeftOut = {"authorization", "connection", "expect",
                                                        "user-agent", "x-amzn-trace-id"};
  return std::ranges::find(kLeftOut, name) == kLeftOut.end();
}

}  // namespace

Signature sign(const Signable& request, const Keys& keys, const SigningScope& scope) {
  Signature result;
  result.headers = request.headers;
  const std::string time = utc_moment(scope.time_s, "%Y%m%dT%H%M%SZ");
  const std::string body_hash = to_hex(sha256(as_bytes(request.body)));
  const auto add = [&](std::string name, std::string value) {
    std::erase_if(result.headers,
                  [&](const auto& header) { return lower(header.first) == lower(name); });
    result.headers.emplace_back(std::move(name), std::move(value));
  };
  add("X-Amz-Date", time);
  if (!keys.session_token.empty()) add("X-Amz-Security-Token", keys.session_token);

  std::map<std::string, std::string> canonical;  // values of one name are joined in their order
  for (const auto& [name, value] : result.headers) {
    const std::string key = lower(name);
    if (!is_signed(key)) continue;
    const auto [place, fresh] = canonical.emplace(key, tidy_value(value));
    if (!fresh) place->second += "," + tidy_value(value);
  }
  std::string lines;
  std::string names;
  for (const auto& [name, value] : canonical) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  result.canonical_request = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", request.method,
                                         io::percent_encode(normalized(request.path), "/"),
                                         canonical_query(request.query), lines, names, body_hash);

  const std::string date = time.substr(0, 8);
  const std::string place = fmt::format("{}/{}/{}/aws4_request", date, scope.region, scope.service);
  result.string_to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, place,
                                      to_hex(sha256(as_bytes(result.canonical_request))));
  Sha256 key = hmac_sha256("AWS4" + keys.secret_access_key, date);
  for (const std::string_view step :
       {std::string_view(scope.region), std::string_view(scope.service),
        std::string_view("aws4_request")}) {
    key = hmac_sha256(as_text(key), step);
  }
  result.signature = to_hex(hmac_sha256(as_text(key), result.string_to_sign));
  add("Authorization",
      fmt::format("AWS4-HMAC-SHA256 Credential={}/{}, SignedHeaders={}, Signature={}",
                  keys.access_key_id, place, names, result.signature));
  return result;
}

}  // namespace skyward::provider::aws
