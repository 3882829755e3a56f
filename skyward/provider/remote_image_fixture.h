#pragma once

// For the tests of remote images: a folder that stands for a node's home, with a package to send
// and the variables of a driver.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/provider/remote_image.h"

namespace skyward::provider {

class RemoteImageFixture : public ::testing::Test {
 protected:
  static constexpr Duration kScriptTimeout = std::chrono::seconds(60);

  void SetUp() override {
    root_ = ::testing::TempDir() + "skyward-image-" + io::random_hex(8);
    std::filesystem::create_directories(root_ + "/home");
    std::filesystem::create_directories(root_ + "/modules/skyward");
    std::filesystem::create_directories(root_ + "/modules/cloudpickle");
    std::ofstream(root_ + "/modules/cloudpickle/__init__.py") << "";
    std::ofstream(root_ + "/modules/skyward/_worker.py")
        << "import sys, os\npath = os.environ['SKYWARD_SYS_PATH']\nsys.path[:0] = path.split(':')\n"
           "import cloudpickle\nprint(sys.argv[1], path)\n";
    output({"tar", "-cf", root_ + "/package.tar", "-C", root_ + "/modules", "."});
    version_ = output({"/usr/bin/env", "python3", "-c",
                       "import sys; print('%d.%d' % sys.version_info[:2], end='')"});
  }
  void TearDown() override { (void)io::remove_tree(root_); }

  PoolSpec spec() const {
    PoolSpec spec;
    spec.image.python = version_;
    spec.runtime.command = {"{python}", "-P", "{archive}/skyward/_worker.py", "it's me"};
    spec.runtime.python = "python3";
    spec.runtime.archives = {root_ + "/package.tar"};
    return spec;
  }

  // A uv that makes environments of this computer's Python, and notes what it would install, and
  // what its environment is.
  std::string make_uv(const std::string& in_the_end = "") {
    const std::string python =
        output({"/usr/bin/env", "python3", "-c", "import sys; print(sys.executable, end='')"});
    std::ofstream(root_ + "/uv") << "#!/bin/sh\nfor last; do :; done\ncase $1 in\nvenv) exec '"
                                 << python << "' -m venv --without-pip \"$last\" ;;\npip) cat >>'"
                                 << root_ << "/installed'; env >'" << root_ << "/seen'\n"
                                 << in_the_end << "\n;;\nesac\n";
    return root_ + "/uv";
  }

  RemoteImage plan(const PoolSpec& spec, const RemoteMachines& machines = {}) const {
    const Variable variable = [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
    auto planned = plan_remote_image(spec, variable, machines);
    EXPECT_TRUE(planned) << planned.error().message;
    return planned.value_or(RemoteImage{});
  }

  std::string output(std::vector<std::string> command,
                     std::vector<std::pair<std::string, std::string>> environment = {}) {
    io::SpawnOptions options;
    options.command = std::move(command);
    options.environment = std::move(environment);
    options.environment.emplace_back("SKYWARD_ROOT", root_ + "/home/.cache/skyward");
    const auto ran = io::run_command(options, kScriptTimeout);
    EXPECT_TRUE(ran && ran->status.code == 0) << (ran ? ran->err : ran.error().message);
    return ran ? ran->out : "";
  }

  std::string root_;
  std::string version_;
  std::map<std::string, std::string> variables_;
};

}  // namespace skyward::provider
