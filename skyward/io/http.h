#pragma once

// One HTTP request and its reply, over libcurl: proxies, certificates and the reuse of connections
// are libcurl's business.
//
// libcurl is loaded by the first request, or by load_libcurl(). A program that never talks to a
// cloud does not need it, and has no second TLS library besides Python's.
//
// An Http blocks its caller and belongs to one thread at a time. A reply of any status is a success
// here; the caller decides whether to retry.

#include <cstddef>
#include <memory>
#include <optional>
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
  bool direct = false;  // bypass proxies: for addresses of this machine
  // For what must not be sent twice: libcurl repeats a request by itself, whatever its method, when
  // the connection that it kept turns out to be closed.
  bool fresh_connection = false;
  std::string ca_file{};  // instead of SSL_CERT_FILE, or the system's certificates
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
  // Redirects are not followed but returned. Fails with
  //   invalid      the address is none, or the proxy's is none, or the certificates are none
  //   unavailable  nobody answers there, or the connection broke: the request may have been heard
  //   denied       the certificate there cannot be trusted
  //   timeout      the deadline passed first
  //   cancelled    the program ends meanwhile (BackgroundRequests)
  //   exhausted    the reply is larger than max_reply_bytes
  //   unsupported  this machine has no libcurl
  virtual Result<HttpReply> send(const HttpRequest& request, Time deadline) = 0;
};

std::unique_ptr<Http> make_http();

// From then on, requests work even if the file of libcurl is deleted. Fails with `unsupported`.
Status load_libcurl();
// The file of the certificates that a request trusts. Empty: libcurl's own choice.
std::string choose_certificates(const HttpRequest& request,
                                const std::optional<std::string>& ssl_cert_file,
                                std::string_view system);

// For a thread that nobody waits for: exit() cancels the requests that it sends while this exists
// (`cancelled`), and waits until no BackgroundRequests is left, at most kBreakOffTimeout.
class BackgroundRequests {
 public:
  BackgroundRequests();
  ~BackgroundRequests();
  BackgroundRequests(const BackgroundRequests&) = delete;
  BackgroundRequests& operator=(const BackgroundRequests&) = delete;
};
inline constexpr Duration kBreakOffTimeout = std::chrono::seconds(2);

// Encodes everything but letters, digits and "-._~" as %XX; `keep` lists further bytes to leave
// alone.
std::string percent_encode(std::string_view text, std::string_view keep = {});

}  // namespace skyward::io
