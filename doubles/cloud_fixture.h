#pragma once

// Asks a double, on a clock that the test moves.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "doubles/cloud.h"

namespace skyward::doubles {

struct Told {
  int status = 0;
  Json body{};
  std::string text{};
  io::HttpHeaders headers{};
};

class Asking {
 public:
  explicit Asking(Cloud& cloud) : cloud_(cloud) {}

  Told ask(const std::string& method, const std::string& path, const Json& body = nullptr) {
    io::HttpRequest request{.method = method, .url = "http://double" + path, .headers = headers};
    if (!body.is_null()) {
      request.body = body.dump();
      request.headers.emplace_back("Content-Type", "application/json");
    }
    const io::HttpReply reply = cloud_.reply(request, now);
    const Json read = Json::parse(reply.body, nullptr, false);
    return {reply.status, read.is_discarded() ? Json() : read, reply.body, reply.headers};
  }
  Told get(const std::string& path) { return ask("GET", path); }
  Told post(const std::string& path, const Json& body) { return ask("POST", path, body); }
  Told remove(const std::string& path) { return ask("DELETE", path); }
  void wait(Duration time) { now += time; }

  // All that was wrong so far, each on a line; forgets it.
  std::string violations() {
    std::string out;
    for (const Violation& one : cloud_.violations) out += one.text + "\n";
    cloud_.violations.clear();
    return out;
  }

  io::HttpHeaders headers{};
  Time now = Time{} + std::chrono::hours(1);

 private:
  Cloud& cloud_;
};

}  // namespace skyward::doubles
