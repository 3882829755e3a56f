#pragma once

// A computer with Amazon on virtual time: for the tests that live whole pools there.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/aws/ec2_double_fixture.h"
#include "skyward/provider/computer_fixture.h"

namespace skyward::provider::aws {

using namespace std::chrono_literals;

class AwsComputer : public ComputerFixture {
 public:
  AwsComputer() {
    fixture_.variables.insert({{"AWS_ACCESS_KEY_ID", "AKIA"},
                               {"AWS_SECRET_ACCESS_KEY", "secret"},
                               {"AWS_REGION", "eu-west-1"}});
    spec_.provider = {.name = "aws", .settings = {{"region", "eu-west-1"}}};
  }

  int standing() override { return amazon_.standing(); }
  // What gc does at once: groups are left until their machines have shut down.
  static SweepAction at_once(const Swept& one) {
    return one.resource.kind == "instance" ? SweepAction::removed : SweepAction::kept;
  }
  // Machines have shut down and let go of their groups; then gc.
  void let_go() {
    fixture_.now += 6min;
    (void)gc();
  }
  // Everything as if nothing had ever been.
  void forget() {
    forget_pools();
    amazon_.forget();
  }

  Ec2Double amazon_{fixture_};
};

}  // namespace skyward::provider::aws
