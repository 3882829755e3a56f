#pragma once

// A computer with DigitalOcean on virtual time: for the tests that live whole pools there.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "doubles/digitalocean.h"
#include "skyward/provider/computer_fixture.h"
#include "skyward/provider/digital_ocean/digital_ocean.h"
#include "skyward/provider/digital_ocean/sweep.h"

namespace skyward::provider::digital_ocean {

class DigitalOceanComputer : public ComputerFixture {
 public:
  DigitalOceanComputer() {
    reset();
    spec_.provider = {.name = "digital_ocean", .settings = {}};
  }

  std::unique_ptr<Provider> provider() override {
    auto made = make_digital_ocean(spec_.provider, fixture_.world);
    EXPECT_TRUE(made) << made.error().message;
    return *std::move(made);
  }

  std::vector<Swept> gc(const SweepOptions& options = {}) {
    return ComputerFixture::gc(sweep, options);
  }
  std::string violations() const {
    std::string out;
    for (const doubles::Violation& one : cloud_->violations) out += one.text + "\n";
    return out;
  }
  int requests() const { return static_cast<int>(cloud_->heard.size()); }
  // Everything as if nothing had ever been.
  void forget() {
    forget_pools();
    reset();
  }

  std::unique_ptr<doubles::DigitalOcean> cloud_;

 private:
  void reset() {
    cloud_ = std::make_unique<doubles::DigitalOcean>();
    for (const auto& [name, value] : cloud_->environment("http://127.0.0.1:1")) {
      fixture_.variables[name] = value;
    }
    fixture_.http->answer = [this](const io::HttpRequest& request) -> Result<io::HttpReply> {
      const io::HttpReply reply = cloud_->reply(request, fixture_.now);
      if (reply.status == 0) return fail(ErrorKind::unavailable, "the connection broke");
      return reply;
    };
  }
};

}  // namespace skyward::provider::digital_ocean
