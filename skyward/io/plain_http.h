#pragma once

// One HTTP request over plain TCP, on a connection of its own, for link-local services (instance
// metadata). No host names, encryption or proxies; for everything else use io/http.h.

#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"

namespace skyward::io {

struct PlainRequest {
  std::string address{};  // an IPv4 address
  int port = 80;
  std::string method = "GET";
  std::string path{};
  std::vector<std::pair<std::string, std::string>> headers{};
};

struct PlainReply {
  int status = 0;
  std::string body{};
  std::string request_path{};  // what was asked
};

// Blocks, at most for `timeout`. Fails with `unavailable` when there is no answer, with `invalid`
// when the answer is not HTTP or longer than 64 KiB.
Result<PlainReply> send_plain_http(const PlainRequest& request, Duration timeout);

}  // namespace skyward::io
