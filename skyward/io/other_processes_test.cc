#include "skyward/io/other_processes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "skyward/io/descriptors_fixture.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/forbidden_calls_fixture.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"
#include "skyward/io/process_entry.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;

SpawnOptions sh(std::string script) { return {.command = {"sh", "-c", std::move(script)}}; }

// With and without descriptors of processes (Linux before 5.3).
class EndProcess : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Kernels, EndProcess, testing::Bool(),
                         [](const auto& old) { return old.param ? "Linux4" : "ThisOne"; });

TEST_P(EndProcess, AProcessLivesUntilItsLastThreadHasExited) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([] {
      while (true) ::pause();
    }).detach();
    ::syscall(SYS_exit, 0);  // ends this thread alone
  }
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  const auto entry = [child] { return read_process_entry(child).value_or(ProcessEntry{}); };
  while (entry().state != 'Z' && std::chrono::steady_clock::now() < limit) {
  }
  ASSERT_EQ(entry().state, 'Z');
  EXPECT_FALSE(entry().is_dead());
  std::thread([&] {
    if (GetParam()) static_cast<void>(forbid_call(SYS_pidfd_open));
    EXPECT_FALSE(end_process(child, 0, Duration{}));
    EXPECT_TRUE(end_process(child, kKillSignal, kPatience));
  }).join();
  EXPECT_TRUE(entry().is_dead());
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_P(EndProcess, NeedsNoPatienceForOneThatHasExited) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(end_process(child, kTerminateSignal, Duration{}));
}

TEST_P(EndProcess, WhatCarriesTheMarkIsKilledAndNothingElse) {
  const std::string mark = random_hex(16);
  const auto start = [&](const std::string& value) {
    const pid_t child = ::fork();
    if (child == 0) {
      set_variable("SKYWARD_TEST_MARK", value);
      // The environment that counts is that of the program's start.
      ::execl("/bin/sleep", "sleep", "600", nullptr);
      ::_exit(127);
    }
    return child;
  };
  const pid_t marked = start(mark + ".1.");
  const pid_t other = start("x" + mark);
  EXPECT_FALSE(end_process(marked, 0, Duration{}));
  int killed = 0;
  std::thread([&] {
    if (GetParam()) static_cast<void>(forbid_call(SYS_pidfd_open));
    // Until the program has started it is this one.
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (killed == 0 && std::chrono::steady_clock::now() < limit) {
      killed = kill_marked("SKYWARD_TEST_MARK", {mark + "."}, kPatience);
    }
  }).join();
  EXPECT_EQ(killed, 1);
  int status = 0;
  ASSERT_EQ(::waitpid(marked, &status, 0), marked);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(::waitpid(other, &status, WNOHANG), 0) << "still there";
  ::kill(other, SIGKILL);
  ::waitpid(other, &status, 0);
}

// Runs `body` in a process of its own, because adopting orphans is for ever. Its return value is
// the exit code.
template <typename Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(Descendants, AreKilledThoughTheyLeftTheirSession) {
  EXPECT_EQ(in_child([] {
              adopt_orphans();
              EventLoop loop;
              auto out = make_pipe();
              // A daemon of two processes: a session of its own, and its parent ends.
              SpawnOptions options =
                  sh("setsid sh -c 'sleep 1000 & echo up; exec sleep 1000' & exit 0");
              options.descriptors = {{out->write.get(), 1}};
              auto parent = Process::spawn(loop, options, [&](ExitStatus) { loop.stop(); });
              if (!parent) return 100;
              loop.run();
              if (read_line(out->read.get()) != "up") return 101;
              const int killed = kill_descendants(20s);
              // All adopted ones are reaped: no child of any kind is left.
              if (::waitpid(-1, nullptr, WNOHANG) != -1) return 102;
              return killed;
            }),
            2);
}

TEST(Descendants, WithACommandThatIsSparedGoOn) {
  EXPECT_EQ(in_child([] {
              adopt_orphans();
              EventLoop loop;
              auto out = make_pipe();
              // The shell goes on to be the second sleep, when the first one has its command.
              SpawnOptions options =
                  sh("/bin/sleep 1001 & until grep -qzx /bin/sleep /proc/$!/cmdline; do :; done; "
                     "echo up; exec sleep 1002");
              options.descriptors = {{out->write.get(), 1}};
              auto parent = Process::spawn(loop, options, [](ExitStatus) {});
              if (!parent || read_line(out->read.get()) != "up") return 100;
              const int killed = kill_descendants(20s, {"sleep", "1001"});
              return 10 * killed + kill_descendants(20s);
            }),
            11);
}

TEST(Descendants, OrphansAreReapedAndOwnChildrenAreNot) {
  EXPECT_EQ(in_child([] {
              adopt_orphans();
              EventLoop loop;
              auto gate = make_pipe();
              if (!set_non_blocking(gate->read.get(), false)) return 104;
              SpawnOptions options = sh("cat <&3 & exit 0");
              options.descriptors = {{gate->read.get(), 3}};
              int running = 2;
              const auto wait_for = [&](int code) {
                return [&loop, &running, code](ExitStatus status) {
                  if (status.code != code) ::_exit(100);
                  if (--running == 0) loop.stop();  // the orphan has been left before that
                };
              };
              auto parent = Process::spawn(loop, options, wait_for(0));
              auto own = Process::spawn(loop, sh("exit 5"), wait_for(5));
              if (!parent || !own) return 101;
              // Neither has been waited for: both may be zombies, and must stay.
              if (reap_orphans() != 0) return 102;
              loop.run();
              parent->reset();
              gate->read.reset();
              gate->write.reset();  // the orphan ends
              // Not even /proc can be read: that would take longer the more processes there are.
              const rlimit no_files{};
              if (::setrlimit(RLIMIT_NOFILE, &no_files) != 0) return 105;
              const Time deadline = EventLoop::now() + 60s;
              int reaped = 0;
              while (reaped == 0 && EventLoop::now() < deadline) reaped += reap_orphans();
              if (reaped == 0) reaped = reap_orphans();
              return reaped == 1 ? 0 : 103;
            }),
            0);
}

}  // namespace
}  // namespace skyward::io
