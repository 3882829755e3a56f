#pragma once

// A computer with a kubectl that is set up for the Kubernetes double, on virtual time.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "doubles/kubectl.h"
#include "doubles/kubernetes.h"
#include "skyward/provider/doubled_computer_fixture.h"

namespace skyward::provider::kubernetes {

class KubernetesComputer : public DoubledComputer<doubles::Kubernetes> {
 public:
  KubernetesComputer() {
    spec_.provider = {.name = "kubernetes", .settings = {}};
    spec_.cpus = 2;
    spec_.memory_mb = 2048;
    fixture_.variables["PATH"] = home_ + "/bin";
    fixture_.variables["KUBECONFIG"] = home_ + "/config";
    std::filesystem::create_directories(home_ + "/bin");
    std::ofstream(home_ + "/bin/kubectl") << "#!/bin/sh\n";
    fixture_.world.run_with_input = [this](const io::SpawnOptions& options, Duration,
                                           std::string_view input) { return run(options, input); };
    fixture_.world.tell = [this](const std::string& line) { told_.push_back(line); };
    furnish();
  }

  void forget() {
    DoubledComputer::forget();
    told_.clear();
    furnish();
  }

  std::vector<std::string> told_;  // what people hear while it waits
  std::vector<std::vector<std::string>> commands_;

 private:
  void furnish() {
    cloud_->dials.boot = 5s;
    cloud_->dials.ending = 2s;
    const nlohmann::json labels{{"nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"},
                                {"node.kubernetes.io/instance-type", "p5"}};
    for (const char* name : {"n1", "n2", "n3", "n4"}) {
      cloud_->add_node(name, {{"cpu", "8"}, {"memory", "32Gi"}, {"nvidia.com/gpu", "4"}}, labels);
    }
  }
  Result<io::CommandResult> run(const io::SpawnOptions& options, std::string_view input) {
    EXPECT_EQ(options.environment.at(0).second, home_ + "/config");
    commands_.push_back(options.command);
    const doubles::CommandReply reply = doubles::Kubectl(
                                            *cloud_, [this] { return cloud_now(); },
                                            [this](Duration time) { fixture_.now += time; })
                                            .run(options.command, input);
    io::CommandResult out;
    out.status.code = reply.code;
    out.out = reply.out;
    out.err = reply.err;
    return out;
  }
};

}  // namespace skyward::provider::kubernetes
