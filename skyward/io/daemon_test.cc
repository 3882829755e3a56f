#include "skyward/io/daemon.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <string>
#include <thread>

#include "skyward/io/descriptors_fixture.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/forbidden_calls_fixture.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/process.h"
#include "skyward/io/process_entry.h"

namespace skyward::io {
namespace {

namespace fs = std::filesystem;
class DaemonTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory); }
  void TearDown() override { fs::remove_all(directory); }
  std::string text_of(const std::string& name) {
    std::ifstream file(fs::path(directory) / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string directory = fs::temp_directory_path() / ("daemon-" + random_hex(12));
};

// Kernels of old, on which many clusters still run.
constexpr unsigned kNewCalls[] = {SYS_close_range, SYS_pidfd_open};
constexpr int kNoFilters = 77;

class OnEachKernel : public DaemonTest, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Daemon, OnEachKernel, testing::Bool(),
                         [](const auto& old) { return old.param ? "Linux4" : "ThisOne"; });

TEST_P(OnEachKernel, ADaemonLivesOnInItsDirectoryWithItsLock) {
  // A child of ours splits and ends; what it left behind is nobody's child.
  const pid_t child = ::fork();
  if (child == 0) {
    for (const unsigned call : kNewCalls) {
      if (GetParam() && !forbid_call(call)) ::_exit(kNoFilters);
    }
    auto lock = lock_file(directory + "/lock", Duration{});
    auto other = lock_file(directory + "/other", Duration{});
    const auto split = split_daemon(directory, {lock->get()});
    if (!split || !*split) ::_exit(0);
    note_holder(lock->get());
    const std::string words = "here: " + fs::current_path().string() + "\n";
    (void)!::write(STDOUT_FILENO, words.data(), words.size());
    while (true) ::pause();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == kNoFilters) GTEST_SKIP() << "this system filters no calls";
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  std::optional<pid_t> daemon;
  while ((!daemon || text_of("log").empty()) && std::chrono::steady_clock::now() < limit) {
    daemon = holder_of(directory + "/lock");
  }
  ASSERT_TRUE(daemon);
  EXPECT_NE(*daemon, child);
  EXPECT_EQ(text_of("log"), "here: " + fs::canonical(directory).string() + "\n");
  EXPECT_FALSE(lock_file(directory + "/lock", Duration{})) << "the daemon holds it";
  EXPECT_TRUE(lock_file(directory + "/other", Duration{})) << "the daemon kept none but that";
  std::thread([&] {
    if (GetParam()) {
      ASSERT_TRUE(forbid_call(SYS_pidfd_open));
    }
    EXPECT_FALSE(end_process(*daemon, 0, Duration{}));
    EXPECT_TRUE(end_process(*daemon, kKillSignal, kPatience));
    EXPECT_TRUE(end_process(*daemon, kKillSignal, Duration{})) << "it has ended";
  }).join();
  EXPECT_FALSE(holder_of(directory + "/lock"));
  EXPECT_TRUE(lock_file(directory + "/lock", Duration{}));
}

TEST_F(DaemonTest, ALockOfSomebodyElseNamesNobody) {
  const std::string path = directory + "/lock";
  const auto lock = lock_file(path, Duration{});
  ASSERT_TRUE(lock);
  note_holder(lock->get());
  // Held already, as seen through another opening of the file.
  EXPECT_EQ(holder_of(path), ::getpid());
  ASSERT_EQ(::fchmod(lock->get(), 0666), 0);
  EXPECT_FALSE(holder_of(path)) << "anybody may have written that";
  ASSERT_EQ(::fchmod(lock->get(), 0600), 0);
  constexpr uid_t kStranger = 4242;
  if (::fchown(lock->get(), kStranger, static_cast<gid_t>(-1)) != 0) return;  // for root alone
  EXPECT_FALSE(holder_of(path));
}

TEST_F(DaemonTest, ANumberOfAnotherContainerNamesNobodyHere) {
  const std::string path = directory + "/lock";
  const auto lock = lock_file(path, Duration{});
  ASSERT_TRUE(lock);
  note_holder(lock->get());
  const std::string note = text_of("lock");
  const FileDescriptor look(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(noted_holder(look.get()), ::getpid());
  const std::string number = note.substr(0, note.find(' '));
  EXPECT_EQ(number, std::to_string(::getpid())) << "older versions read as far as that";
  std::ofstream(path) << number << " 1\n";
  EXPECT_EQ(noted_holder(look.get()), 0);
  std::ofstream(path) << number << "\n";
  EXPECT_EQ(noted_holder(look.get()), ::getpid()) << "an older version wrote it";
}

TEST_F(DaemonTest, ALockOfAFileThatWasRemovedMeanwhileIsNone) {
  const std::string path = fs::canonical(directory) / "lock";
  auto former = lock_file(path, Duration{});
  ASSERT_TRUE(former);
  auto next = std::async(std::launch::async, [&] { return lock_file(path, kPatience); });
  const auto times_open = [&] {
    int count = 0;
    std::error_code closed;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      if (fs::read_symlink(entry.path(), closed) == path) ++count;
    }
    return count;
  };
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (times_open() < 2 && std::chrono::steady_clock::now() < limit) {
  }
  fs::remove(path);
  former.reset();
  const auto lock = next.get();
  ASSERT_TRUE(lock);
  EXPECT_FALSE(lock_file(path, Duration{})) << "it is the lock of the file that is there";
}

}  // namespace
}  // namespace skyward::io
