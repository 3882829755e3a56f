#include "skyward/io/http.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/forks.h"
#include "skyward/io/machine.h"
#include "skyward/io/shared_library.h"
#include "skyward/io/sigpipe_guard.h"

namespace skyward::io {

namespace {

bool same_name(std::string_view left, std::string_view right) {
  return std::ranges::equal(left, right, [](char a, char b) { return to_lower(a) == to_lower(b); });
}

// The functions of libcurl that are used here.
struct Curl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  const char* certificates = "";  // its own choice
  bool ready = false;
};

// A libcurl that was built for any system does not know where this one keeps its certificates.
// Empty when none of these is there: OpenSSL looks in its own places then.
const char* system_certificates() {
  constexpr std::array kPlaces = {
      "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Alpine, Arch
      "/etc/pki/tls/certs/ca-bundle.crt",                   // Red Hat, Amazon Linux
      "/etc/ssl/ca-bundle.pem",                             // SUSE
      "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora from 44 on
  };
  const auto* found =
      std::ranges::find_if(kPlaces, [](const char* place) { return ::access(place, R_OK) == 0; });
  return found == kPlaces.end() ? "" : *found;
}

// The threads that nobody waits for.
struct Background {
  std::mutex mutex;
  std::condition_variable changed;
  int threads = 0;
  std::atomic<bool> stopped = false;
};
Background& background() { return of_this_process<Background>(); }
thread_local bool in_background = false;

void break_off() {
  Background& all = background();
  std::unique_lock lock(all.mutex);
  all.stopped = true;
  all.changed.wait_for(lock, kBreakOffTimeout, [&all] { return all.threads == 0; });
}

// Set once libcurl is loaded, if it uses OpenSSL: frees what OpenSSL keeps for the calling thread.
std::atomic<void (*)()> stop_tls_of_thread = nullptr;

// libcurl asks once a second at least; other than 0 ends the request.
int is_stopped(void*, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return background().stopped ? 1 : 0;
}

Curl load_curl() {
  Curl curl;
  const auto [library, shipped] = load_library({"libcurl.so.4", "libcurl-gnutls.so.4"});
  if (library == nullptr) return curl;
  if (shipped) curl.certificates = system_certificates();
  curl.ready = find_symbol(library, "curl_global_init", curl.global_init) &&
               find_symbol(library, "curl_easy_init", curl.easy_init) &&
               find_symbol(library, "curl_easy_reset", curl.easy_reset) &&
               find_symbol(library, "curl_easy_cleanup", curl.easy_cleanup) &&
               find_symbol(library, "curl_easy_setopt", curl.easy_setopt) &&
               find_symbol(library, "curl_easy_getinfo", curl.easy_getinfo) &&
               find_symbol(library, "curl_easy_perform", curl.easy_perform) &&
               find_symbol(library, "curl_easy_strerror", curl.easy_strerror) &&
               find_symbol(library, "curl_slist_append", curl.slist_append) &&
               find_symbol(library, "curl_slist_free_all", curl.slist_free_all) &&
               curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  void (*stop)() = nullptr;
  if (curl.ready && find_symbol(library, "OPENSSL_thread_stop", stop)) stop_tls_of_thread = stop;
  // After libcurl has set up its TLS library, and so before that cleans up after itself.
  if (curl.ready) std::atexit(break_off);
  return curl;
}

const Curl& libcurl() {
  static const Curl kCurl = load_curl();
  return kCurl;
}

// A connection that was idle for longer is not used again: this computer may have slept, or have
// another address now, and then nobody would answer on it.
constexpr Duration kConnectionsKept = std::chrono::seconds(30);

// What the callbacks fill.
struct Arriving {
  HttpReply reply;
  std::size_t max_bytes = 0;
  bool too_large = false;
};

// The function that libcurl calls with what has arrived. Nothing may be thrown through libcurl,
// which is C: when the memory is used up, the reply is too large.
template <bool (*Take)(Arriving&, std::string_view)>
std::size_t take(const char* data, std::size_t size, std::size_t count, void* user) noexcept {
  auto& arriving = *static_cast<Arriving*>(user);
  const std::string_view text(data, size * count);
  try {
    arriving.too_large = !Take(arriving, text);
  } catch (const std::bad_alloc&) {
    arriving.too_large = true;
  }
  return arriving.too_large ? 0 : text.size();
}

bool take_body(Arriving& arriving, std::string_view text) {
  if (arriving.reply.body.size() + text.size() > arriving.max_bytes) return false;
  arriving.reply.body += text;
  return true;
}

bool take_header(Arriving& arriving, std::string_view line) {
  constexpr std::size_t kMaxHeaders = 1000;
  auto& headers = arriving.reply.headers;
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  if (line.starts_with("HTTP/")) headers.clear();  // a reply before this one was provisional
  const std::size_t colon = line.find(':');
  if (colon != std::string_view::npos && headers.size() < kMaxHeaders) {
    std::string_view value = line.substr(colon + 1);
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
      value.remove_prefix(1);
    headers.emplace_back(line.substr(0, colon), value);
  }
  return true;
}

// "https://host:port" of an address: what people may see of it. The rest can hold secrets.
std::string_view site_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t begin = scheme == std::string_view::npos ? 0 : scheme + 3;
  return url.substr(0, std::min(url.find_first_of("/?#", begin), url.size()));
}

std::unexpected<Error> explain(CURLcode code, const char* detail, const HttpRequest& request,
                               const Arriving& arriving) {
  const std::string_view site = site_of(request.url);
  const std::string why = *detail != '\0' ? detail : libcurl().easy_strerror(code);
  // These words quote the proxy's whole address.
  if (why.starts_with("Unsupported proxy")) {
    return fail(ErrorKind::invalid,
                fmt::format("{} cannot be reached: the address of the proxy is not valid", site),
                "correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY: percent-encode special characters "
                "in its password, such as %23 for #");
  }
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
      return fail(ErrorKind::invalid, fmt::format("\"{}\" is not a URL: {}", site, why),
                  "give one that starts with http:// or https://");
    case CURLE_OPERATION_TIMEDOUT:
      return fail(ErrorKind::timeout, fmt::format("{} did not answer in time: {}", site, why),
                  "check the network and the proxy settings, or allow more time");
    case CURLE_SSL_CACERT_BADFILE:
      return fail(ErrorKind::invalid,
                  fmt::format("{} cannot be reached: the certificates to trust cannot be read: {}",
                              site, why),
                  "correct the file that AWS_CA_BUNDLE or SSL_CERT_FILE names, or install your "
                  "distribution's certificates (package ca-certificates)");
    case CURLE_PEER_FAILED_VERIFICATION:
      return fail(ErrorKind::denied, fmt::format("{} cannot be trusted: {}", site, why),
                  "install the certificates of your distribution (package ca-certificates), or "
                  "name a file with those of your network's proxy in SSL_CERT_FILE");
    case CURLE_ABORTED_BY_CALLBACK:
      return fail(ErrorKind::cancelled,
                  fmt::format("the request to {} was aborted: the program is exiting", site));
    case CURLE_WRITE_ERROR:
      if (arriving.too_large) {
        return fail(ErrorKind::exhausted, fmt::format("the reply of {} is larger than {} bytes",
                                                      site, arriving.max_bytes));
      }
      [[fallthrough]];
    default:
      return fail(ErrorKind::unavailable, fmt::format("{} cannot be reached: {}", site, why),
                  "check the network, the name and the proxy settings");
  }
}

class CurlHttp final : public Http {
 public:
  CurlHttp() = default;
  CurlHttp(const CurlHttp&) = delete;
  CurlHttp& operator=(const CurlHttp&) = delete;
  ~CurlHttp() override {
    const SigpipeGuard guard;  // closing a connection may write
    if (easy_ != nullptr) libcurl().easy_cleanup(easy_);
  }

  Result<HttpReply> send(const HttpRequest& request, Time deadline) override;

 private:
  // A fresh set of options on the handle, which keeps its open connections. False when this libcurl
  // cannot be kept to HTTP.
  bool prepare(const HttpRequest& request, Duration left, Arriving& arriving, curl_slist* headers);

  CURL* easy_ = nullptr;
  Time used_at_{};  // by time_with_sleep()
  std::array<char, CURL_ERROR_SIZE> detail_{};
};

bool CurlHttp::prepare(const HttpRequest& request, Duration left, Arriving& arriving,
                       curl_slist* headers) {
  const auto set = libcurl().easy_setopt;
  const auto milliseconds = [](Duration duration) {
    const auto count = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
    return static_cast<long>(std::clamp<std::int64_t>(count, 1, 86'400'000));
  };
  libcurl().easy_reset(easy_);
  detail_[0] = '\0';
  set(easy_, CURLOPT_ERRORBUFFER, detail_.data());
  set(easy_, CURLOPT_NOSIGNAL, 1L);
  if (set(easy_, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK) return false;
  set(easy_, CURLOPT_URL, request.url.c_str());
  set(easy_, CURLOPT_PATH_AS_IS, 1L);  // what was signed is what is sent
  set(easy_, CURLOPT_HTTPHEADER, headers);
  set(easy_, CURLOPT_TIMEOUT_MS, milliseconds(left));
  set(easy_, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(std::min(left, request.connect_timeout)));
  set(easy_, CURLOPT_WRITEFUNCTION, &take<take_body>);
  set(easy_, CURLOPT_WRITEDATA, &arriving);
  set(easy_, CURLOPT_HEADERFUNCTION, &take<take_header>);
  set(easy_, CURLOPT_HEADERDATA, &arriving);
  if (in_background) {
    set(easy_, CURLOPT_NOPROGRESS, 0L);
    set(easy_, CURLOPT_XFERINFOFUNCTION, &is_stopped);
  }
  if (request.direct) set(easy_, CURLOPT_NOPROXY, "*");
  std::optional<std::string> named = environment_variable("SSL_CERT_FILE");
  // Deleted, as likely as not, with the environment that it was a part of.
  if (named && ::access(named->c_str(), R_OK) != 0) named = std::nullopt;
  const std::string trusted = choose_certificates(request, named, libcurl().certificates);
  if (!trusted.empty()) set(easy_, CURLOPT_CAINFO, trusted.c_str());
  if (request.method == "HEAD") {
    set(easy_, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET" || !request.body.empty()) {
    set(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(easy_, CURLOPT_POSTFIELDS, request.body.data());
    set(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
  return true;
}

Result<HttpReply> CurlHttp::send(const HttpRequest& request, Time deadline) {
  if (Status loaded = load_libcurl(); !loaded) return fail(loaded);
  const Curl& curl = libcurl();
  const Duration left = deadline == kNever ? Duration::max() : deadline - EventLoop::now();
  if (left <= Duration::zero()) {
    return fail(ErrorKind::timeout,
                fmt::format("timed out before the request to {}", site_of(request.url)));
  }
  const SigpipeGuard guard;
  const Time now = time_with_sleep();
  if (easy_ != nullptr && (request.fresh_connection || now - used_at_ > kConnectionsKept)) {
    curl.easy_cleanup(std::exchange(easy_, nullptr));
  }
  if (easy_ == nullptr) easy_ = curl.easy_init();
  if (easy_ == nullptr) return fail(ErrorKind::unavailable, "libcurl has no memory left");

  Arriving arriving;
  arriving.max_bytes = request.max_reply_bytes;
  // No "100-continue" (it costs a second where the other side does not know it) and no form type
  // that nobody asked for.
  std::vector<std::string> lines = {"Expect:"};
  bool has_type = false;
  for (const auto& [name, value] : request.headers) {
    has_type = has_type || same_name(name, "content-type");
    lines.push_back(value.empty() ? name + ";" : name + ": " + value);
  }
  if (!has_type) lines.emplace_back("Content-Type:");
  curl_slist* headers = nullptr;
  for (const std::string& line : lines) headers = curl.slist_append(headers, line.c_str());

  if (!prepare(request, left, arriving, headers)) {
    curl.slist_free_all(headers);
    return fail(ErrorKind::unsupported, "this machine's libcurl.so.4 is older than 7.85",
                "update it, for example with 'apt-get install libcurl4'");
  }
  const CURLcode code = curl.easy_perform(easy_);
  used_at_ = time_with_sleep();
  long status = 0;
  curl.easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  curl.slist_free_all(headers);
  if (code != CURLE_OK) return explain(code, detail_.data(), request, arriving);
  arriving.reply.status = static_cast<int>(status);
  return std::move(arriving.reply);
}

}  // namespace

std::string_view HttpReply::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (same_name(key, name)) return value;
  }
  return {};
}

BackgroundRequests::BackgroundRequests() {
  const std::scoped_lock lock(background().mutex);
  ++background().threads;
  in_background = true;
}

// OpenSSL would free the thread's state when the thread has ended, and so perhaps while exit()
// frees the same. Here its requests are over and exit() still waits.
BackgroundRequests::~BackgroundRequests() {
  if (void (*stop)() = stop_tls_of_thread) stop();
  in_background = false;
  const std::scoped_lock lock(background().mutex);
  --background().threads;
  background().changed.notify_all();
}

std::string choose_certificates(const HttpRequest& request,
                                const std::optional<std::string>& ssl_cert_file,
                                std::string_view system) {
  if (!request.ca_file.empty()) return request.ca_file;
  return ssl_cert_file.value_or(std::string(system));
}

std::unique_ptr<Http> make_http() { return std::make_unique<CurlHttp>(); }

Status load_libcurl() {
  if (libcurl().ready) return {};
  return fail(ErrorKind::unsupported,
              "Skyward uses libcurl to reach clouds, but this machine has no libcurl.so.4",
              "install it, for example with 'apt-get install libcurl4'");
}

std::string percent_encode(std::string_view text, std::string_view keep) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain =
        is_alphanumeric(c) || std::string_view("-._~").contains(c) || keep.contains(c);
    if (plain) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

}  // namespace skyward::io
