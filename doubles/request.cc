#include "doubles/request.h"

#include <algorithm>
#include <charconv>

#include "skyward/base/text.h"

namespace skyward::doubles {
namespace {

std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    int byte = 0;
    if (text[at] == '%' && at + 2 < text.size() &&
        std::from_chars(text.data() + at + 1, text.data() + at + 3, byte, 16).ptr ==
            text.data() + at + 3) {
      out += static_cast<char>(byte);
      at += 2;
    } else {
      out += text[at] == '+' ? ' ' : text[at];
    }
  }
  return out;
}

std::string found_header(const io::HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers) {
    if (lower(key) == lower(name)) return value;
  }
  return {};
}

void read_query(std::string_view text, Request& out) {
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const std::string name = decoded(part.substr(0, equals));
    const std::string value =
        equals == std::string_view::npos ? "" : decoded(part.substr(equals + 1));
    if (!out.query.emplace(name, value).second) out.twice.push_back(name);
  }
}

bool is(const Json& value, Kind kind) {
  switch (kind) {
    case Kind::text:
      return value.is_string();
    case Kind::whole:
      return value.is_number_integer();
    case Kind::number:
      return value.is_number();
    case Kind::flag:
      return value.is_boolean();
    case Kind::list:
      return value.is_array();
    case Kind::object:
      return value.is_object();
    case Kind::text_or_whole:
      return value.is_string() || value.is_number_integer();
    case Kind::any:
      return true;
  }
  return false;
}

std::string_view word(Kind kind) {
  switch (kind) {
    case Kind::text:
      return "a string";
    case Kind::whole:
      return "a whole number";
    case Kind::number:
      return "a number";
    case Kind::flag:
      return "true or false";
    case Kind::list:
      return "an array";
    case Kind::object:
      return "an object";
    case Kind::text_or_whole:
      return "a string or a whole number";
    case Kind::any:
      return "anything";
  }
  return "";
}

}  // namespace

std::string Request::header(std::string_view name) const { return found_header(headers, name); }

std::string header_of(const io::HttpReply& reply, std::string_view name) {
  return found_header(reply.headers, name);
}

Request read_request(const io::HttpRequest& request) {
  Request out{.method = request.method, .headers = request.headers, .text = request.body};
  const std::string_view url = request.url;
  const std::size_t scheme = url.find("://");
  const std::size_t host = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::size_t path = std::min(url.find('/', host), url.size());
  const std::size_t query = std::min(url.find('?', path), url.size());
  out.origin = url.substr(0, path);
  out.path = url.substr(path, query - path);
  std::string_view rest = out.path;
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view part = rest.substr(0, rest.find('/'));
    if (!part.empty()) out.segments.push_back(decoded(part));
    rest.remove_prefix(part.size());
  }
  if (query < url.size()) read_query(url.substr(query + 1), out);
  out.body = Json::parse(request.body, nullptr, false);
  if (out.body.is_discarded()) out.body = nullptr;
  return out;
}

std::optional<std::vector<std::string>> match(std::string_view pattern, const Request& request) {
  std::vector<std::string> open;
  for (const std::string& segment : request.segments) {
    if (pattern.empty()) return std::nullopt;
    pattern.remove_prefix(1);
    const std::string_view part = pattern.substr(0, pattern.find('/'));
    pattern.remove_prefix(part.size());
    if (part == "{}") {
      open.push_back(segment);
    } else if (part != segment) {
      return std::nullopt;
    }
  }
  if (!pattern.empty() && pattern != "/") return std::nullopt;
  return open;
}

std::vector<std::string> wrong_parameters(const Request& request,
                                          const std::vector<const char*>& known) {
  std::vector<std::string> wrong;
  for (const std::string& name : request.twice) wrong.push_back(name + " is there twice");
  for (const auto& [name, value] : request.query) {
    if (std::ranges::find(known, name) == known.end()) {
      wrong.push_back("nobody knows the parameter " + name + " of " + request.path);
    }
  }
  return wrong;
}

std::string no_route(const Request& request, bool is_path) {
  return (is_path ? "nobody knows the method " : "there is no ") + request.method + " " +
         request.path;
}

std::vector<std::string> misfits(const Json& value, Fields fields, std::string_view where) {
  std::vector<std::string> found;
  const std::string prefix{where};
  if (!value.is_object()) return {prefix + " must be an object"};
  for (const auto& [name, item] : value.items()) {
    bool known = false;
    for (const Field& field : fields) {
      if (field.name != name) continue;
      known = true;
      if (!is(item, field.kind)) {
        found.push_back(prefix + ": " + name + " must be " + std::string(word(field.kind)));
      }
    }
    if (!known) found.push_back(prefix + ": nobody knows the field " + name);
  }
  for (const Field& field : fields) {
    if (field.required && !value.contains(field.name)) {
      found.push_back(prefix + ": " + std::string(field.name) + " is missing");
    }
  }
  return found;
}

Json without_nulls(const Json& body) {
  Json out = Json::object();
  for (const auto& [name, value] : body.items()) {
    if (!value.is_null()) out[name] = value;
  }
  return out;
}

std::optional<long long> whole(std::string_view text) {
  long long value = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

io::HttpReply json_reply(int status, const Json& body) {
  return {.status = status,
          .headers = {{"Content-Type", "application/json; charset=utf-8"}},
          .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

io::HttpReply text_reply(int status, std::string body) {
  return {.status = status,
          .headers = {{"Content-Type", "text/plain; charset=utf-8"}},
          .body = std::move(body)};
}

}  // namespace skyward::doubles
