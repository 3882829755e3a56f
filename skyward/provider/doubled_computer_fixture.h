#pragma once

// A computer with one of the clouds in doubles/ on virtual time.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "doubles/cloud.h"
#include "skyward/provider/computer_fixture.h"

namespace skyward::provider {

template <typename Double>
class DoubledComputer : public ComputerFixture {
 public:
  DoubledComputer() {
    // These clouds rent out no other machines, and this test may run on another.
    spec_.other_agents = {{"x86_64", home_ + "/agent"}};
    reset();
  }

  // What no correct client does, each on a line.
  std::string violations() const {
    std::string out;
    for (const doubles::Violation& one : cloud_->violations) out += one.text + "\n";
    return out;
  }
  int standing() override { return static_cast<int>(cloud_->leftovers().size()); }
  int requests() const { return static_cast<int>(cloud_->heard.size()); }
  // Everything as if nothing had ever been.
  void forget() {
    forget_pools();
    reset();
  }

  std::unique_ptr<Double> cloud_;

 private:
  static constexpr Duration kAnswerTime = 30s;  // `request_timeout`, unless it is set

  void reset() {
    cloud_ = std::make_unique<Double>();
    // Its clock and this computer's show the same.
    cloud_->wall_start_s =
        fixture_.world.wall_s() - (cloud_now() - Time{}) / std::chrono::seconds(1);
    for (const auto& [name, value] : cloud_->environment("http://127.0.0.1:1")) {
      fixture_.variables[name] = value;
    }
    fixture_.http->answer = [this](const io::HttpRequest& request) -> Result<io::HttpReply> {
      const io::HttpReply reply = cloud_->reply(request, cloud_now());
      if (reply.status == doubles::kLate) {
        fixture_.now += kAnswerTime;
        return fail(ErrorKind::timeout, "no answer in time");
      }
      if (reply.status == 0) return fail(ErrorKind::unavailable, "the connection broke");
      return reply;
    };
  }
};

}  // namespace skyward::provider
