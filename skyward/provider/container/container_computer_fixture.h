#pragma once

// A computer with a podman or docker that a double answers for, on virtual time.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "doubles/containers.h"
#include "skyward/provider/computer_fixture.h"

namespace skyward::provider::container {

class ContainerComputer : public ComputerFixture {
 public:
  ContainerComputer() {
    spec_.provider = {.name = "container", .settings = {{"image", "python:3.x"}}};
    fixture_.variables["PATH"] = home_ + "/bin";
    std::filesystem::create_directories(home_ + "/bin");
    install("podman");
    fixture_.world.run_with_input = [this](const io::SpawnOptions& options, Duration time,
                                           std::string_view) {
      timeouts_.push_back(time);
      return run(options.command);
    };
    fixture_.world.tell = [this](const std::string& line) { told_.push_back(line); };
    forget();
  }

  int standing() override { return engine_->standing(); }
  int requests() const { return engine_->requests; }
  void forget() {
    forget_pools();
    engine_ = std::make_unique<doubles::ContainerEngine>();
    told_.clear();
    commands_.clear();
  }
  void install(const std::string& program) {
    std::ofstream(home_ + "/bin/" + program) << "#!/bin/sh\n";
  }
  void uninstall(const std::string& program) { std::filesystem::remove(home_ + "/bin/" + program); }
  void use_docker() {
    uninstall("podman");
    install("docker");
    engine_->runtime = "docker";
  }

  std::unique_ptr<doubles::ContainerEngine> engine_;
  std::vector<std::string> told_;
  std::vector<std::vector<std::string>> commands_;
  std::vector<Duration> timeouts_;

 private:
  Result<io::CommandResult> run(const std::vector<std::string>& words) {
    commands_.push_back(words);
    const doubles::CommandReply reply = engine_->run(words);
    io::CommandResult out;
    out.status.code = reply.code;
    out.out = reply.out;
    out.err = reply.err;
    return out;
  }
};

}  // namespace skyward::provider::container
