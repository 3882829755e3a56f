#pragma once

// A request as a double reads it, what a request may say, and the replies that doubles write.

#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/io/http.h"

namespace skyward::doubles {

using Json = nlohmann::json;

struct Request {
  std::string method;
  std::string origin;  // "http://127.0.0.1:80"
  std::string path;    // without the query, as it came
  std::vector<std::string> segments{};
  std::map<std::string, std::string> query{};
  std::vector<std::string> twice{};  // names that the query has more than once
  io::HttpHeaders headers{};
  std::string text{};  // of the body
  Json body{};         // null when it is no JSON

  // The value of the first header of that name; empty without one.
  std::string header(std::string_view name) const;
};

Request read_request(const io::HttpRequest& request);

// The parts of a path that a pattern leaves open, "/v2/droplets/{}/actions"; none if it does not
// fit.
std::optional<std::vector<std::string>> match(std::string_view pattern, const Request& request);

// What is wrong with the query: a parameter that is there twice, or that nobody knows.
std::vector<std::string> wrong_parameters(const Request& request,
                                          const std::vector<const char*>& known);
// Why no route takes a request. `is_path`: one takes its path, with another method.
std::string no_route(const Request& request, bool is_path);

enum class Kind { text, whole, number, flag, list, object, text_or_whole, any };

struct Field {
  std::string_view name;
  Kind kind;
  bool required = false;
};
using Fields = std::initializer_list<Field>;

// What is wrong with an object: a field that nobody knows, that is missing, or of another type.
// `where` begins each sentence.
std::vector<std::string> misfits(const Json& value, Fields fields, std::string_view where);

// An object without its nulls: what a client leaves out, some libraries say as null.
Json without_nulls(const Json& body);

// A whole number that is all of the text.
std::optional<long long> whole(std::string_view text);

io::HttpReply json_reply(int status, const Json& body);
io::HttpReply text_reply(int status, std::string body);

// The connection breaks before any reply.
inline io::HttpReply no_reply() { return {}; }
// The status of a reply that comes after the client has timed out.
inline constexpr int kLate = -1;

// The value of a reply's header; empty without one.
std::string header_of(const io::HttpReply& reply, std::string_view name);

}  // namespace skyward::doubles
