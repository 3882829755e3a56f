// Real programs that end with a pool open: this very one, started again.

#include "skyward/pool/program_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "skyward/engine/loop.h"
#include "skyward/io/no_threads_fixture.h"
#include "skyward/spec/limits.h"

int parent_here();
int parent_here() { return getppid(); }

namespace skyward {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
namespace fs = std::filesystem;

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class ProgramEndTest : public testing::Test {
 protected:
  ProgramEndTest() {
    int number = 0;
    do {
      folder_ = fs::path(testing::TempDir()) / ("skyward-program-end-" + std::to_string(++number));
    } while (!fs::create_directory(folder_));
  }
  ~ProgramEndTest() override {
    for (const pid_t left : processes()) kill(left, SIGKILL);
    fs::remove_all(folder_);
  }

  // Its wait status.
  int run(const std::string& way) {
    const pid_t child = fork();
    if (child == 0) {
      const int output = open((folder_ / "stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      dup2(output, STDERR_FILENO);
      alarm(120);  // for a program that hangs
      execl("/proc/self/exe", "face_test", "--end", way.c_str(), folder_.c_str(), nullptr);
      _exit(127);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  }

  // All that runs on the nodes of that program's pool: what began there has this folder in its
  // environment.
  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator("/proc", gone)) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string environment = text_of(entry.path() / "environ");
      if (environment.find("XDG_CACHE_HOME=" + folder_.string()) != std::string::npos) {
        found.push_back(std::stoi(name));
      }
    }
    return found;
  }

  // An agent has told of its end a moment before it is gone.
  std::vector<pid_t> processes_in_the_end() const {
    const auto limit = engine::EngineLoop::now() + 30s;
    std::vector<pid_t> left = processes();
    while (!left.empty() && engine::EngineLoop::now() < limit) {
      std::this_thread::yield();
      left = processes();
    }
    return left;
  }

  fs::path folder_;
};

TEST_F(ProgramEndTest, AnUncaughtExceptionIsToldAndLeavesNothing) {
  for (const char* way : {"exception", "thread"}) {
    const int status = run(way);
    ASSERT_TRUE(WIFSIGNALED(status)) << way << text_of(folder_ / "stderr");
    EXPECT_EQ(WTERMSIG(status), SIGABRT);
    EXPECT_THAT(text_of(folder_ / "stderr"),
                HasSubstr(std::string_view(way) == "thread" ? "nor this" : "nobody catches this"));
    EXPECT_THAT(processes_in_the_end(), IsEmpty()) << way;
  }
}

TEST_F(ProgramEndTest, ExitLeavesNothing) {
  for (const char* way : {"exit", "exit in a callback", "exit beside a callback"}) {
    const int status = run(way);
    ASSERT_TRUE(WIFEXITED(status)) << way << text_of(folder_ / "stderr");
    EXPECT_EQ(WEXITSTATUS(status), 3);
    EXPECT_THAT(text_of(folder_ / "stderr"), Not(HasSubstr("before its pools have closed")));
    EXPECT_THAT(processes_in_the_end(), IsEmpty());
  }
}

TEST_F(ProgramEndTest, SignalsEndItByThemselvesAndLeaveNothing) {
  for (const int number : {SIGINT, SIGTERM}) {
    const int status = run(number == SIGINT ? "interrupt" : "terminate");
    ASSERT_TRUE(WIFSIGNALED(status)) << text_of(folder_ / "stderr");
    EXPECT_EQ(WTERMSIG(status), number);
    EXPECT_THAT(processes_in_the_end(), IsEmpty());
  }
}

// The agent of its node is stopped. The program says what closing waits for, and has the second
// signal then.
TEST_F(ProgramEndTest, TheSecondSignalShortensTheWait) {
  fs::file_time_type::duration took{};
  std::vector<pid_t> left;
  // A machine that stands still for a while makes a run late; without a second signal, all are.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const int status = run("twice");
    std::ofstream(folder_ / "ended") << "now";
    took = fs::last_write_time(folder_ / "ended") - fs::last_write_time(folder_ / "signalled");
    ASSERT_TRUE(WIFSIGNALED(status)) << text_of(folder_ / "stderr");
    EXPECT_EQ(WTERMSIG(status), SIGTERM) << "the first one is what it dies of";
    left = processes_in_the_end();
    if (took < kCloseTimeout && left.empty()) break;
    for (const pid_t process : left) kill(process, SIGKILL);
  }
  EXPECT_LT(took, kCloseTimeout);
  EXPECT_THAT(left, IsEmpty());
}

TEST_F(ProgramEndTest, ASignalThatComesWhileItOpensEndsTheOpening) {
  const int status = run("while it opens");
  ASSERT_TRUE(WIFSIGNALED(status)) << text_of(folder_ / "stderr");
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_THAT(processes_in_the_end(), IsEmpty());
}

// A call finds its pool closed, nobody catches that, and the closing goes on.
TEST_F(ProgramEndTest, ASignalBetweenCallsEndsItToo) {
  const int status = run("between calls");
  ASSERT_TRUE(WIFSIGNALED(status)) << text_of(folder_ / "stderr");
  EXPECT_THAT(WTERMSIG(status), testing::AnyOf(SIGTERM, SIGABRT));
  EXPECT_THAT(processes_in_the_end(), IsEmpty());
}

// A cloud does not answer, say.
TEST_F(ProgramEndTest, WhatDoesNotCloseIsNotAwaitedForEver) {
  const int status = run("hang");
  ASSERT_TRUE(WIFSIGNALED(status)) << text_of(folder_ / "stderr");
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
  EXPECT_THAT(text_of(folder_ / "stderr"), HasSubstr("before its pools have closed"));
}

TEST_F(ProgramEndTest, TheProgramsOwnHandlerStays) {
  const int status = run("own handler");
  ASSERT_TRUE(WIFEXITED(status)) << text_of(folder_ / "stderr");
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

#ifndef __SANITIZE_THREAD__  // which needs threads of its own
TEST_F(ProgramEndTest, WithoutNewThreadsAProgramEndsAllTheSame) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    const EndsWithProgram first([&] { (void)!write(ends[1], "1", 1); }, [] {});
    const EndsWithProgram second([&] { (void)!write(ends[1], "2", 1); }, [] {});
    const io::NoThreads none;
    std::raise(SIGTERM);
    while (true) pause();
  }
  close(ends[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << "status " << status;
  std::array<char, 8> text{};
  EXPECT_EQ(read(ends[0], text.data(), text.size()), 2);
  close(ends[0]);
}
#endif

TEST_F(ProgramEndTest, SignalsAreTheProgramsAgainWhenAllIsClosed) {
  const auto handler = [] {
    struct sigaction now{};
    EXPECT_EQ(sigaction(SIGHUP, nullptr, &now), 0);
    return now.sa_handler;
  };
  ASSERT_EQ(handler(), SIG_DFL);
  {
    const EndsWithProgram first([] {}, [] {});
    {
      const EndsWithProgram second([] {}, [] {});
    }
    EXPECT_NE(handler(), SIG_DFL);
#ifndef __SANITIZE_THREAD__  // which keeps back what a handler raises
    // A forked child dies of a signal as it would have died.
    const pid_t child = fork();
    if (child == 0) {
      std::raise(SIGHUP);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP);
#endif
  }
  EXPECT_EQ(handler(), SIG_DFL);
}

}  // namespace
}  // namespace skyward
