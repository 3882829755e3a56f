// skyward-double: one double behind HTTP on 127.0.0.1, for tests in other processes.
//
//   skyward-double --cloud digitalocean --speed 60
//
// prints one line of JSON, {"cloud": …, "url": …, "environment": {…}}, and serves until it is
// ended. Its clock begins at the time of day and runs `speed` times as fast.

#include <httplib.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "doubles/clouds.h"

namespace skyward::doubles {
namespace {

constexpr const char* kAddress = "127.0.0.1";
constexpr std::size_t kThreads = 64;  // each open connection keeps one
constexpr Duration kStart = std::chrono::hours(1);

class Served {
 public:
  Served(std::unique_ptr<Cloud> cloud, double speed) : cloud_(std::move(cloud)), speed_(speed) {
    const auto today = std::chrono::system_clock::now().time_since_epoch();
    cloud_->wall_start_s = std::chrono::duration_cast<std::chrono::seconds>(today - kStart).count();
  }

  void answer(const httplib::Request& asked, httplib::Response& response) {
    io::HttpRequest request{.method = asked.method,
                            .url = "http://" + asked.get_header_value("Host") + asked.target,
                            .body = asked.body};
    for (const auto& [name, value] : asked.headers) request.headers.emplace_back(name, value);
    const io::HttpReply reply = ask(request);
    if (reply.status <= 0) {
      // Headers alone, then the end of the connection: to clients, a reply that broke off. A late
      // one breaks off, too: time here is real.
      response.set_content_provider(
          1, "application/octet-stream",
          [](std::size_t, std::size_t, httplib::DataSink&) { return false; });
      return;
    }
    response.status = reply.status;
    response.body = reply.body;
    for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  }

  Cloud& cloud() { return *cloud_; }

 private:
  io::HttpReply ask(const io::HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
    return cloud_->reply(request, Time{} + kStart + from_seconds(passed.count() * speed_));
  }

  std::mutex mutex_;
  std::unique_ptr<Cloud> cloud_;
  double speed_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

int serve(Served& served, const std::string& name, int port) {
  httplib::Server server;
  server.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  server.set_tcp_nodelay(true);
  server.set_keep_alive_max_count(100'000);
  const auto answer = [&](const httplib::Request& request, httplib::Response& response) {
    served.answer(request, response);
  };
  server.Get(".*", answer).Post(".*", answer).Put(".*", answer);
  server.Patch(".*", answer).Delete(".*", answer);
  const bool bound = port == 0 ? (port = server.bind_to_any_port(kAddress)) > 0
                               : server.bind_to_port(kAddress, port);
  if (!bound) {
    std::fprintf(stderr, "skyward-double: port %d cannot be listened to\n", port);
    return 1;
  }
  const std::string url = "http://" + std::string(kAddress) + ":" + std::to_string(port);
  const Json line{{"cloud", name}, {"url", url}, {"environment", served.cloud().environment(url)}};
  std::puts(line.dump().c_str());
  std::fflush(stdout);
  return server.listen_after_bind() ? 0 : 1;
}

}  // namespace
}  // namespace skyward::doubles

int main(int argc, char** argv) {
  using namespace skyward::doubles;
  CLI::App app{"A cloud for tests, on 127.0.0.1: stricter than the real one, with dials.",
               "skyward-double"};
  std::string name;
  int port = 0;
  double speed = 1;
  std::uint64_t seed = 1;
  app.add_option("--cloud", name, "which one")->required()->check(CLI::IsMember(cloud_names()));
  app.add_option("--port", port, "0: any that is free");
  app.add_option("--speed", speed, "seconds of its clock in each second")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", seed, "of all that happens at random");
  CLI11_PARSE(app, argc, argv);
  Served served(make_cloud(name, seed), speed);
  return serve(served, name, port);
}
