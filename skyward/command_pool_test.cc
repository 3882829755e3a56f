// C++ pools over nodes that a command reaches: this program is brought there, and its workers
// outlive the connection.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "skyward/skyward.h"

namespace skyward {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

int triple_there(int x) { return 3 * x; }
constexpr auto triple = compute<triple_there>;

// What is brought to a node goes to a directory of the test's own.
class CommandPool : public testing::Test {
 protected:
  CommandPool() {
    int number = 0;
    do {
      folder_ = fs::path(testing::TempDir()) / ("skyward-command-" + std::to_string(++number));
    } while (!fs::create_directory(folder_));
  }
  ~CommandPool() override { fs::remove_all(folder_); }

  // A node of this machine, reached through `more` words.
  std::vector<std::string> shell(std::vector<std::string> more = {"sh", "-c"}) const {
    std::vector<std::string> command = {"env", "XDG_CACHE_HOME=" + folder_.string()};
    std::ranges::move(more, std::back_inserter(command));
    return command;
  }

  fs::path folder_;
};

PoolOptions over(std::vector<std::vector<std::string>> commands) {
  const int nodes = static_cast<int>(commands.size());
  return {.provider = Command{std::move(commands)}, .nodes = nodes, .display = Display::quiet};
}

TEST_F(CommandPool, TheProgramIsBroughtThereOnce) {
  {
    ComputePool pool(over({shell(), shell()}));
    EXPECT_THAT(broadcast(triple(5), pool), testing::ElementsAre(15, 15));
  }
  const auto files = [this] {
    return std::distance(fs::directory_iterator(folder_ / "skyward/files"),
                         fs::directory_iterator());
  };
  const auto stored = files();
  EXPECT_GE(stored, 1);
  ComputePool pool(over({shell()}));
  EXPECT_EQ(triple(2) >> pool, 6);
  EXPECT_EQ(files(), stored);
}

TEST_F(CommandPool, AConnectionThatEndsIsMadeAnew) {
  {
    ComputePool warm(over({shell()}));
  }
  std::ofstream(folder_ / "way.sh") << "echo $$ >$(dirname $0)/connection\n"
                                       "exec sh -c \"$1\"\n";
  PoolOptions options = over({shell({"sh", folder_ / "way.sh"})});
  options.heartbeat_timeout = 1s;
  options.lease = 30s;
  std::mutex mutex;
  std::condition_variable changed;
  std::string troubles;
  bool recovered = false;
  options.on_event = [&](const Event& event) {
    const std::scoped_lock lock(mutex);
    match(
        event, [&](const ErrorEvent& error) { troubles += "error: " + error.message + "\n"; },
        [&](const Notice& notice) {
          troubles += notice.level + ": " + notice.message + "\n";
          recovered = recovered || notice.message.contains("connected again after");
        });
    changed.notify_all();
  };
  ComputePool pool(options);
  EXPECT_EQ(triple(4) >> pool, 12);
  pid_t connection = 0;
  std::ifstream(folder_ / "connection") >> connection;
  ASSERT_GT(connection, 1);
  ASSERT_EQ(kill(-connection, SIGKILL), 0) << "it leads a group of its own";
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 60s, [&] { return recovered; })) << troubles;
  }
  EXPECT_EQ(triple(5) >> pool, 15);
  const std::scoped_lock lock(mutex);
  EXPECT_THAT(troubles, testing::HasSubstr("; connecting again"));
  EXPECT_THAT(troubles, testing::StartsWith("warning: node 0: "));
  EXPECT_THAT(troubles, testing::HasSubstr("info: node 0: connected again after "));
  EXPECT_THAT(troubles, testing::Not(testing::HasSubstr("error: "))) << "nothing was lost";
}

TEST_F(CommandPool, SenselessLimitsOfSilenceAreRefused) {
  const auto check = [&](auto limit) {
    PoolOptions options = over({shell()});
    options.*limit = 0s;
    EXPECT_THROW(ComputePool{options}, ConfigurationError);
    options.*limit = std::chrono::duration<double>(std::nan(""));
    EXPECT_THROW(ComputePool{options}, ConfigurationError);
  };
  check(&PoolOptions::lease);
  check(&PoolOptions::heartbeat_timeout);
  check(&PoolOptions::reconnect_timeout);
}

}  // namespace
}  // namespace skyward
