#pragma once

// One HTTP request and its reply, over libcurl: proxies, certificates and the reuse of connections
// are libcurl's business.
//
// libcurl is loaded when the first request is made and not before. A program that never talks to a
// cloud needs none, and carries no second TLS library beside the one of its Python.
//
// An Http blocks its caller and belongs to one thread at a time. Whether a reply is worth another
// try is for the caller to say: a reply of any status is a success here.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"

namespace skyward::io {

// Names are compared without case; their order is kept.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method = "GET";
  std::string url{};  // http:// or https://
  HttpHeaders headers{};
  std::string body{};
  Duration connect_timeout = std::chrono::seconds(10);
  std::size_t max_reply_bytes = std::size_t{64} << 20;
  bool direct = false;    // past every proxy: for addresses of this very machine
  std::string ca_file{};  // instead of the system's certificates
};

struct HttpReply {
  int status = 0;
  HttpHeaders headers{};
  std::string body{};

  // The value of the first header of that name; empty without one.
  std::string_view header(std::string_view name) const;
};

class Http {
 public:
  virtual ~Http() = default;
  // Redirects are not followed: they arrive as what they are. Fails with
  //   invalid      the address is none
  //   unavailable  nobody answers there, or the connection broke: the request may have been heard
  //   denied       the certificate there cannot be trusted
  //   timeout      the deadline passed first
  //   cancelled    the program ends meanwhile (BackgroundRequests)
  //   exhausted    the reply is larger than max_reply_bytes
  //   unsupported  this machine has no libcurl
  virtual Result<HttpReply> send(const HttpRequest& request, Time deadline) = 0;
};

std::unique_ptr<Http> make_http();

// For a thread that nobody waits for: what it requests while this lives ends with the program.
// exit() breaks such requests off (`cancelled`), and goes on when no BackgroundRequests is left, or
// after kBreakOffTimeout.
class BackgroundRequests {
 public:
  BackgroundRequests();
  ~BackgroundRequests();
  BackgroundRequests(const BackgroundRequests&) = delete;
  BackgroundRequests& operator=(const BackgroundRequests&) = delete;
};
inline constexpr Duration kBreakOffTimeout = std::chrono::seconds(2);

// Everything but letters, digits and "-._~" as %XX; `keep` names further bytes to leave alone.
std::string percent_encode(std::string_view text, std::string_view keep = {});

}  // namespace skyward::io
