#pragma once

// A computer that is a login node of the simulated Slurm.

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "doubles/slurm.h"
#include "skyward/provider/computer_fixture.h"
#include "skyward/provider/slurm/access.h"

namespace skyward::provider::slurm {

class SlurmComputer : public ComputerFixture {
 public:
  SlurmComputer() {
    spec_.provider = {.name = "slurm", .settings = {}};
    fixture_.variables["PATH"] = home_ + "/bin";
    fixture_.variables["SLURM_CONF"] = home_ + "/slurm.conf";
    std::filesystem::create_directories(home_ + "/bin");
    std::ofstream(home_ + "/bin/sbatch") << "#!/bin/sh\n";
    fixture_.world.run_with_input = [this](const io::SpawnOptions& options, Duration,
                                           std::string_view input) {
      return run(options.command, input);
    };
    fixture_.world.tell = [this](const std::string& line) { told_.push_back(line); };
    forget();
  }

  int standing() override { return slurm_->standing(); }
  int requests() const { return slurm_->requests; }
  void forget() {
    forget_pools();
    slurm_ = std::make_unique<doubles::Slurm>(Words{"n1", "n2", "n3", "n4"});
    told_.clear();
  }

  std::unique_ptr<doubles::Slurm> slurm_;
  std::vector<std::string> told_;  // what people hear while it waits

 private:
  Result<io::CommandResult> run(const Words& words, std::string_view input) {
    const Words before = outside_jobs();
    EXPECT_GT(words.size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), words.begin()));
    const doubles::CommandReply reply =
        slurm_->run(Words(words.begin() + static_cast<std::ptrdiff_t>(before.size()), words.end()),
                    input, cloud_now());
    io::CommandResult out;
    out.status.code = reply.code;
    out.out = reply.out;
    out.err = reply.err;
    return out;
  }
};

}  // namespace skyward::provider::slurm
