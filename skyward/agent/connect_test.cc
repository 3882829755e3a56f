#include "skyward/agent/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "skyward/agent/node_directory.h"
#include "skyward/io/daemon.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/io/unix_socket.h"

namespace skyward::agent {
namespace {

namespace fs = std::filesystem;
using testing::ExitedWithCode;
using testing::HasSubstr;

constexpr Duration kPatience = std::chrono::seconds(30);

class ConnectTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(root); }

  // What the daemon's directory would be, where others can write, too.
  void make_open_directory() {
    fs::create_directories(directory);
    fs::permissions(root, fs::perms::all);
  }

  // A process that lives on; of this node's daemon, if one is named.
  auto sleeper(const std::string& node = "") {
    io::SpawnOptions options;
    options.command = {"sleep", "600"};
    if (!node.empty()) options.environment = {{kNodeVariable, node}};
    return io::Process::spawn(loop_, options, [](io::ExitStatus) {});
  }

  io::EventLoop loop_;
  const std::string root = fs::temp_directory_path() / ("c" + io::random_hex(8));
  const DaemonId daemon{.pool = "abc", .node = NodeId{3}, .life = 2};
  const std::string directory = root + "/nodes/" + daemon.name();
};

TEST_F(ConnectTest, WhoMakesTheDirectoryFirstIsNotTakenForTheDaemon) {
  make_open_directory();
  const auto listener = io::listen_at(directory + "/socket");
  ASSERT_TRUE(listener) << listener.error().message;
  for (const bool start : {false, true}) {
    EXPECT_EXIT(std::exit(connect(root, daemon, start)), ExitedWithCode(1), "");
    EXPECT_FALSE(io::accept_next(listener->get())) << "it was connected to";
  }
}

TEST_F(ConnectTest, ALockInADirectoryOfOthersEndsNobody) {
  make_open_directory();
  const auto victim = sleeper();
  ASSERT_TRUE(victim) << victim.error().message;
  const auto lock = io::lock_file(directory + "/lock", kPatience);
  ASSERT_TRUE(lock);
  std::ofstream(directory + "/lock") << (*victim)->pid() << "\n";
  EXPECT_EQ(end_daemons(root, "abc."), 1);
  EXPECT_FALSE(io::end_process((*victim)->pid(), 0, Duration{})) << "it lives";
  EXPECT_TRUE(fs::exists(directory)) << "nothing there is ours to remove";
}

TEST_F(ConnectTest, ADaemonThatDoesNotAnswerKeepsItsDirectory) {
  ASSERT_TRUE(io::ensure_private_path(directory));
  const auto lock = io::lock_file(directory + "/lock", kPatience);  // without a number
  ASSERT_TRUE(lock);
  testing::internal::CaptureStdout();
  EXPECT_EQ(connect(root, daemon, false), 1);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("busy its agent does not take"));
  EXPECT_EQ(end_daemons(root, "abc."), 1);
  EXPECT_TRUE(fs::exists(directory + "/lock"));
}

TEST_F(ConnectTest, ADaemonWhoseLockWasCleanedUpIsLeftAlone) {
  const DaemonId other{.pool = io::random_hex(8), .node = NodeId{0}, .life = 1};
  const std::string its = root + "/nodes/" + other.name();
  ASSERT_TRUE(io::ensure_private_path(its));
  io::FileDescriptor held = io::lock_directory(its);
  const auto worker = sleeper(other.name());
  ASSERT_TRUE(worker) << worker.error().message;
  std::ofstream(directory) << "in the way of the daemon that would be started";
  testing::internal::CaptureStdout();
  EXPECT_EQ(connect(root, daemon, true), 1);
  EXPECT_FALSE(io::end_process((*worker)->pid(), 0, Duration{})) << "it lives";
  EXPECT_EQ(connect(root, daemon, true, {other}), 1);
  EXPECT_FALSE(io::end_process((*worker)->pid(), 0, Duration{})) << "its daemon lives";
  EXPECT_EQ(end_daemons(root, other.pool), 1);
  EXPECT_TRUE(fs::exists(its));
  held.reset();
  EXPECT_EQ(connect(root, daemon, true), 1);
  EXPECT_FALSE(fs::exists(its)) << "the daemon has exited";
  (void)testing::internal::GetCapturedStdout();
}

TEST_F(ConnectTest, ADaemonWhoseLockWasCleanedUpIsNeitherGoneNorReplaced) {
  const DaemonId busy{.pool = io::random_hex(8), .node = NodeId{0}, .life = 1};
  const std::string its = root + "/nodes/" + busy.name();
  ASSERT_TRUE(io::ensure_private_path(its + "/socket"));  // where none can listen
  const io::FileDescriptor held = io::lock_directory(its);
  const auto worker = sleeper(busy.name());
  ASSERT_TRUE(worker) << worker.error().message;
  testing::internal::CaptureStdout();
  EXPECT_EQ(connect(root, busy, false), 1);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("busy its agent does not take"));
  testing::internal::CaptureStdout();
  EXPECT_EQ(connect(root, busy, true), 1);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("busy the previous agent"));
  EXPECT_FALSE(io::end_process((*worker)->pid(), 0, Duration{})) << "it lives";
}

TEST_F(ConnectTest, ADirectoryWithoutADaemonIsRemoved) {
  ASSERT_TRUE(io::ensure_private_path(directory));
  EXPECT_TRUE(io::lock_file(directory + "/lock", kPatience));
  testing::internal::CaptureStdout();
  EXPECT_EQ(connect(root, daemon, false), 1);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("gone"));
  EXPECT_EQ(end_daemons(root, "abc."), 0);
  EXPECT_FALSE(fs::exists(directory));
}

}  // namespace
}  // namespace skyward::agent
