// Retries: a call that depends on something unreliable runs again, and only its last failure is
// thrown. A lost machine needs no retries.

#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "skyward/skyward.h"

// Stands for a server that refuses every first connection of a worker.
std::string fetch_page(const std::string& name) {
  static int requests = 0;
  if (requests++ % 2 == 0) throw std::runtime_error("connection refused");
  return "<" + name + ">";
}
constexpr auto fetch = sky::compute<fetch_page>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  std::mutex mutex;
  std::vector<std::string> told;
  std::string page;
  {
    sky::ComputePool pool({.on_event = [&](const sky::Event& event) {
      sky::match(event, [&](const sky::ErrorEvent& error) {
        const std::scoped_lock lock(mutex);
        told.push_back(error.message);
      });
    }});
    page = fetch("index").with_retries(3) >> pool;
  }
  std::printf("%s after %zu retry: %s\n", page.c_str(), told.size(), told.front().c_str());
  return page == "<index>" && told.size() == 1 ? 0 : 1;
}
