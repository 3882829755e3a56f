#include "skyward/provider/own_address.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "skyward/provider/retry.h"

namespace skyward::provider {

namespace {

constexpr Duration kDirectTime = std::chrono::seconds(5);
constexpr Duration kProxyTime = std::chrono::seconds(15);

bool is_ip_address(std::string_view text) {
  return !text.empty() && text.size() <= 45 &&
         text.find_first_not_of("0123456789abcdefABCDEF.:") == std::string_view::npos &&
         (text.contains('.') || text.contains(':'));
}

}  // namespace

Result<std::string> own_address(const World& world, const AddressQuestion& question,
                                Time deadline) {
  io::HttpRequest request;
  request.url = question.url;
  request.max_reply_bytes = 1024;
  request.ca_file = question.ca_file;
  Retries retries(world, {.attempts = 4}, deadline);
  while (true) {
    // SSH does not use the proxies of the web, so the address without them counts. A proxy is used
    // only where there is no other way out.
    request.direct = true;
    Result<io::HttpReply> reply =
        world.http->send(request, std::min(deadline, world.now() + kDirectTime));
    if (!reply || reply->status != 200) {
      request.direct = false;
      reply = world.http->send(request, std::min(deadline, world.now() + kProxyTime));
    }
    if (reply && reply->status == 200) {
      std::string text = reply->body;
      while (!text.empty() && text.back() <= ' ') text.pop_back();
      if (is_ip_address(text)) return text + (text.contains(':') ? "/128" : "/32");
      return fail(ErrorKind::unavailable,
                  fmt::format("{} did not return this machine's address", request.url),
                  question.advice);
    }
    if (retries.again()) continue;
    return fail(
        ErrorKind::unavailable,
        fmt::format("cannot determine this machine's own address through {}: {}", request.url,
                    reply ? fmt::format("HTTP status {}", reply->status) : reply.error().message),
        question.advice);
  }
}

}  // namespace skyward::provider
