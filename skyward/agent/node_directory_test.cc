#include "skyward/agent/node_directory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "skyward/agent/connect.h"
#include "skyward/io/daemon.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/process.h"

namespace skyward::agent {
namespace {

namespace fs = std::filesystem;

class NodeDirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    // As private as a daemon makes it.
    fs::create_directories(directory);
    for (const std::string& path : {root, root + "/nodes", directory}) {
      fs::permissions(path, fs::perms::owner_all);
    }
  }
  void TearDown() override { fs::remove_all(root); }

  std::unique_ptr<io::Process> start(const char* variable) {
    io::SpawnOptions options;
    options.command = {"sleep", "600"};
    options.environment = {{variable, name_of(directory)}};
    return io::Process::spawn(loop, options, [](io::ExitStatus) {}).value();
  }
  static bool lives(const io::Process& process) {
    return !io::end_process(process.pid(), 0, Duration{});
  }
  std::string told() const {
    std::ifstream file(root + "/told");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  io::EventLoop loop;
  const std::string root = fs::temp_directory_path() / ("n" + io::random_hex(8));
  const std::string directory = root + "/nodes/" + io::random_hex(12) + ".3.1.";
};

TEST_F(NodeDirectoryTest, TheScriptRunsOnceAndAfterTheWorkHasEnded) {
  const auto work = start(kWorkVariable);
  const auto server = start(kNodeVariable);
  keep_end_script(directory,
                  fmt::format("echo $SKYWARD_NODE_DIRECTORY >>{0}/told\n"
                              "grep -q '^State:.[ZX]' /proc/{1}/status && echo ended >>{0}/told",
                              root, work->pid()));
  EXPECT_TRUE(release_volumes(directory));
  EXPECT_TRUE(release_volumes(directory));
  EXPECT_EQ(told(), directory + "\nended\n");
  EXPECT_FALSE(lives(*work));
  EXPECT_TRUE(lives(*server)) << "what serves the volumes is needed until then";
}

TEST_F(NodeDirectoryTest, AScriptThatFailsIsToldWithItsWords) {
  keep_end_script(directory, "echo 'the store is gone' >&2; exit 3");
  const Status released = release_volumes(directory);
  ASSERT_FALSE(released);
  EXPECT_NE(released.error().message.find("the store is gone"), std::string::npos);
  EXPECT_NE(released.error().message.find("may be incomplete or missing"), std::string::npos);
}

TEST_F(NodeDirectoryTest, WhatAKilledDaemonLeftIsEndedWithItsVolumes) {
  const auto server = start(kNodeVariable);
  keep_end_script(directory,
                  fmt::format("kill -0 {} && echo released >>{}/told", server->pid(), root));
  const std::string name = name_of(directory);
  EXPECT_EQ(end_daemons(root, name.substr(0, name.find('.') + 1)), 0);
  EXPECT_EQ(told(), "released\n");
  EXPECT_FALSE(lives(*server));
  EXPECT_FALSE(fs::exists(directory));
}

}  // namespace
}  // namespace skyward::agent
