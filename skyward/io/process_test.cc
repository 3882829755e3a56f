#include "skyward/io/process.h"
#include "skyward/io/descriptors_fixture.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "skyward/io/close_descriptors.h"
#include "skyward/io/daemon.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/forbidden_calls_fixture.h"
#include "skyward/io/ignored_children_fixture.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/own_process.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }

SpawnOptions shell(std::string script) { return {.command = {"sh", "-c", std::move(script)}}; }

class ProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    loop_.start_timer(EventLoop::now() + 60s, [this] {
      ADD_FAILURE() << "the test waited too long";
      loop_.stop();
    });
  }

  // Whether a child is gone once its Process is. Of three: one is left if this machine stands still
  // for two seconds between its end and the look for it.
  bool destroying_reaps() {
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto process =
          Process::spawn(loop_, {.command = {"sleep", "1000"}}, [](ExitStatus) { FAIL(); });
      EXPECT_TRUE(process);
      if (!process) return false;
      const pid_t pid = (*process)->pid();
      EXPECT_TRUE(exists(pid));
      process->reset();
      if (!exists(pid)) return true;
    }
    return false;
  }

  // Runs a command to its end on the loop.
  ExitStatus run(const SpawnOptions& options) {
    ExitStatus answer{.code = -2};
    auto process = Process::spawn(loop_, options, [&](ExitStatus status) {
      answer = status;
      loop_.stop();
    });
    EXPECT_TRUE(process.has_value()) << (process ? "" : process.error().message);
    loop_.run();
    return answer;
  }

  EventLoop loop_;
};

TEST_F(ProcessTest, TellsExitCodes) {
  const ExitStatus status = run(shell("exit 3"));
  EXPECT_EQ(status.code, 3);
  EXPECT_EQ(status.signal, 0);
  EXPECT_GT(status.max_rss_bytes, 100'000);
  EXPECT_EQ(status.describe(), "exit code 3");
}

TEST_F(ProcessTest, TellsSignals) {
  const ExitStatus status = run(shell("kill -SEGV $$"));
  EXPECT_EQ(status.signal, SIGSEGV);
  EXPECT_EQ(status.describe(), "killed by signal 11 (SIGSEGV)");
}

TEST_F(ProcessTest, AMissingProgramIsAnError) {
  const int before = count_descriptors();
  const auto by_name = Process::spawn(loop_, {.command = {"no-such-program"}}, [](ExitStatus) {});
  ASSERT_FALSE(by_name);
  EXPECT_EQ(by_name.error().kind, ErrorKind::invalid);
  EXPECT_THAT(by_name.error().message, HasSubstr("'no-such-program': there is no such program"));
  EXPECT_FALSE(by_name.error().hint.empty());
  const auto by_path = Process::spawn(loop_, {.command = {"/nowhere/at/all"}}, [](ExitStatus) {});
  ASSERT_FALSE(by_path);
  EXPECT_EQ(by_path.error().kind, ErrorKind::invalid);
  const auto no_program = Process::spawn(loop_, {.command = {"/etc/passwd"}}, [](ExitStatus) {});
  ASSERT_FALSE(no_program);
  EXPECT_THAT(no_program.error().message, HasSubstr("Permission denied"));
  EXPECT_THAT(no_program.error().hint, HasSubstr("chmod"));
  const auto nothing = Process::spawn(loop_, {}, [](ExitStatus) {});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::invalid);
  EXPECT_EQ(count_descriptors(), before);
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "the failed children were reaped";
}

TEST_F(ProcessTest, AFileSystemThatIsMountedNoexecIsNamed) {
  constexpr int kCannotMount = 77;
  const std::string folder = testing::TempDir() + "skyward-noexec-" + random_hex(8);
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/program") << "#!/bin/sh\n";
  std::filesystem::permissions(folder + "/program", std::filesystem::perms::owner_all);
  const pid_t user = ::fork();
  if (user == 0) {
    const char* const place = folder.c_str();
    constexpr unsigned long kFlags = MS_REMOUNT | MS_BIND | MS_NOEXEC | MS_NOSUID | MS_NODEV;
    const bool has_own_mounts =
        ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWNS) == 0;
    if (!has_own_mounts || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount(place, place, nullptr, MS_BIND, nullptr) != 0 ||
        ::mount("none", place, nullptr, kFlags, nullptr) != 0) {
      ::_exit(kCannotMount);
    }
    SpawnOptions options{.command = {"./program"}};
    options.directory = folder;
    const auto relative = run_command(options, 10s);
    const auto absolute = run_command({.command = {folder + "/program"}}, 10s);
    const bool is_named = !relative && !absolute &&
                          relative.error().hint.contains("mounted noexec") &&
                          relative.error().hint.contains("'sh ./program'") &&
                          absolute.error().hint.contains("mounted noexec");
    ::_exit(is_named ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(::waitpid(user, &status, 0), user);
  std::filesystem::remove_all(folder);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotMount) {
    GTEST_SKIP() << "this user may not mount anything";
  }
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

TEST_F(ProcessTest, AMissingDirectoryIsAnError) {
  SpawnOptions options = shell("true");
  options.directory = "/nowhere/at/all";
  const auto process = Process::spawn(loop_, options, [](ExitStatus) {});
  ASSERT_FALSE(process);
  EXPECT_EQ(process.error().kind, ErrorKind::invalid);
  EXPECT_THAT(process.error().message, HasSubstr("cannot enter the directory '/nowhere/at/all'"));
}

TEST_F(ProcessTest, AClosedDescriptorIsAnError) {
  SpawnOptions options = shell("true");
  options.descriptors = {{4000, 1}};
  const auto process = Process::spawn(loop_, options, [](ExitStatus) {});
  ASSERT_FALSE(process);
  EXPECT_THAT(process.error().message, HasSubstr("descriptors"));
}

TEST_F(ProcessTest, LeavesNoDescriptorBehind) {
  run(shell("true"));
  EventLoop loop;
  const int before = count_descriptors();
  int left = 20;
  std::vector<std::unique_ptr<Process>> processes;
  for (int i = 0; i < left; ++i) {
    auto process = Process::spawn(loop, shell("true"), [&](ExitStatus) {
      if (--left == 0) loop.stop();
    });
    ASSERT_TRUE(process);
    processes.push_back(*std::move(process));
  }
  loop.run();
  processes.clear();
  EXPECT_EQ(count_descriptors(), before);
}

TEST_F(ProcessTest, TheChildHasExactlyTheDescriptorsItIsGiven) {
  const FileDescriptor inherited(::open("/dev/null", O_RDONLY));  // not close-on-exec
  const auto out = make_pipe();
  SpawnOptions options{.command = {"ls", "-l", "/proc/self/fd"}};
  options.descriptors = {{out->write.get(), 1}, {out->write.get(), 9}};
  ASSERT_EQ(run(options).code, 0);
  std::string listing(10000, '\0');
  listing.resize(static_cast<std::size_t>(::read(out->read.get(), listing.data(), listing.size())));
  EXPECT_THAT(listing, testing::ContainsRegex("0 -> /dev/null"));
  EXPECT_THAT(listing, testing::ContainsRegex("1 -> pipe"));
  EXPECT_THAT(listing, testing::ContainsRegex("2 -> /dev/null"));
  EXPECT_THAT(listing, testing::ContainsRegex("9 -> pipe"));
  // These, "total", and the directory that ls itself reads.
  EXPECT_EQ(std::ranges::count(listing, '\n'), 6) << listing;
}

TEST_F(ProcessTest, DescriptorNumbersMayOverlap) {
  // a ends up where b is and b where a is, and both once more elsewhere.
  auto a = make_pipe();
  auto b = make_pipe();
  const int a_number = a->write.get();
  const int b_number = b->write.get();
  SpawnOptions options = shell("echo a >&" + std::to_string(b_number) + "; echo b >&" +
                               std::to_string(a_number) + "; echo again >&1");
  options.command[0] = "bash";  // sh takes numbers of one digit only
  options.descriptors = {{a_number, b_number}, {b_number, a_number}, {a_number, 1}};
  EXPECT_EQ(run(options).code, 0);
  a->write.reset();
  b->write.reset();
  EXPECT_EQ(read_all(a->read.get()), "a\nagain\n");
  EXPECT_EQ(read_all(b->read.get()), "b\n");
}

TEST_F(ProcessTest, EnvironmentIsSetOverTheParents) {
  ::setenv("SKYWARD_TEST_KEPT", "kept", 1);
  ::setenv("SKYWARD_TEST_CHANGED", "old", 1);
  ::setenv("SKYWARD_TEST_REMOVED", "old", 1);
  SpawnOptions options = shell(
      "[ \"$SKYWARD_TEST_KEPT\" = kept ] && [ \"$SKYWARD_TEST_CHANGED\" = 'new value' ] && "
      "[ -z \"${SKYWARD_TEST_REMOVED+x}\" ]");
  options.environment = {{"SKYWARD_TEST_CHANGED", "new value"}};
  options.unset = {"SKYWARD_TEST_REMOVED"};
  EXPECT_EQ(run(options).code, 0);
}

TEST_F(ProcessTest, ThePathOfTheChildDecides) {
  SpawnOptions options{.command = {"true"}, .environment = {{"PATH", "/nowhere"}}};
  EXPECT_FALSE(Process::spawn(loop_, options, [](ExitStatus) {}));
  options.environment = {{"PATH", "/nowhere:/bin:/usr/bin"}};
  EXPECT_EQ(run(options).code, 0);
}

TEST_F(ProcessTest, RunsInItsDirectory) {
  SpawnOptions options = shell("[ \"$(pwd)\" = /proc ]");
  options.directory = "/proc";
  EXPECT_EQ(run(options).code, 0);
}

TEST_F(ProcessTest, SignalsAreDefaultAndUnblockedInTheChild) {
  sigset_t blocked;
  sigset_t previous;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &previous);
  const auto before = ::signal(SIGTERM, SIG_IGN);
  const ExitStatus status = run(shell("kill -TERM $$; exit 0"));
  ::signal(SIGTERM, before);
  ::pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  EXPECT_EQ(status.signal, SIGTERM);
}

TEST_F(ProcessTest, AChildMayBeginWithEndingSignalsIgnored) {
  SpawnOptions options = shell("kill -TERM $$; kill -HUP $$; exit 3");
  options.ignore_ending_signals = true;
  EXPECT_EQ(run(options).code, 3);
}

TEST_F(ProcessTest, ChildrenOfOneThatIgnoresSignalsOfWritesDoNot) {
  const pid_t user = ::fork();
  if (user == 0) {
    ignore_write_signals();
    const rlimit limit{.rlim_cur = 10, .rlim_max = 10};
    const FileDescriptor file(::memfd_create("test", MFD_CLOEXEC));
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    if (::ftruncate(file.get(), 20) == 0 || errno != EFBIG) ::_exit(2);
    const auto child = run_command(shell("kill -XFSZ $$"), 10s);
    ::_exit(child && child->status.signal == SIGXFSZ ? 0 : 3);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(user, &status, 0), user);
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

TEST_F(ProcessTest, ChildrenOfOneThatMayOpenManyFilesMayOpenAsManyAsItCould) {
  // For good: hence in a process of its own.
  const pid_t user = ::fork();
  if (user == 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 100;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    allow_many_files();
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const auto child = run_command(shell("ulimit -Sn"), 10s);
    ::_exit(limit.rlim_cur == limit.rlim_max && child && child->out == "100\n" ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(user, &status, 0), user);
  EXPECT_EQ(status, 0);
}

TEST_F(ProcessTest, AsManyFilesAreAllowedAsAreNeededIfThatIsPossible) {
  constexpr int kTooLow = 77;
  const pid_t user = ::fork();
  if (user == 0) {
    close_descriptors(3, kLastDescriptor);
    rlimit limit{.rlim_cur = 100, .rlim_max = 1000};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::_exit(kTooLow);
    const auto now = [&limit] {
      ::getrlimit(RLIMIT_NOFILE, &limit);
      return limit.rlim_cur;
    };
    if (!allow_more_files(20) || now() != 100) ::_exit(1);
    if (!allow_more_files(300) || now() < 600 || now() > 700) ::_exit(2);
    if (!allow_more_files(20) || now() < 600) ::_exit(3);
    if (!allow_more_files(900) || now() != 1000) ::_exit(4);
    const auto refused = allow_more_files(1000);
    if (refused || now() != 1000) ::_exit(5);
    if (!refused.error().message.contains("may not open more than 1000")) ::_exit(6);
    const auto child = run_command(shell("ulimit -Sn"), 10s);
    ::_exit(child && child->out == "100\n" ? 0 : 7);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(user, &status, 0), user);
  if (WEXITSTATUS(status) == kTooLow) GTEST_SKIP() << "this user may open fewer than 1000 files";
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
}

TEST_F(ProcessTest, SignalReachesTheChildWhileItRuns) {
  ExitStatus answer;
  auto process = Process::spawn(loop_, {.command = {"sleep", "1000"}}, [&](ExitStatus status) {
    answer = status;
    loop_.stop();
  });
  ASSERT_TRUE(process);
  (*process)->signal(SIGTERM);
  loop_.run();
  EXPECT_EQ(answer.signal, SIGTERM);
  (*process)->signal(SIGTERM);  // nobody there
}

TEST_F(ProcessTest, AGroupIsKilledWithItsGrandchildren) {
  auto out = make_pipe();
  SpawnOptions options = shell("sleep 1000 & echo $!; wait");
  options.descriptors = {{out->write.get(), 1}};
  options.new_session = true;
  auto process = Process::spawn(loop_, options, [&](ExitStatus) { loop_.stop(); });
  ASSERT_TRUE(process);
  out->write.reset();
  ASSERT_FALSE(read_line(out->read.get()).empty());
  (*process)->kill_group();
  loop_.run();
  EXPECT_EQ(read_all(out->read.get()), "") << "the pipe closes when the grandchild is dead";
}

TEST_F(ProcessTest, OnExitCanStillReachWhatTheChildLeftBehind) {
  auto out = make_pipe();
  SpawnOptions options = shell("sleep 1000 & echo started");
  options.descriptors = {{out->write.get(), 1}};
  options.new_session = true;
  std::unique_ptr<Process> process;
  auto spawned = Process::spawn(loop_, options, [&](ExitStatus status) {
    EXPECT_EQ(status.code, 0);
    process->kill_group();
    process.reset();
    loop_.stop();
  });
  ASSERT_TRUE(spawned);
  process = *std::move(spawned);
  out->write.reset();
  loop_.run();
  EXPECT_EQ(read_all(out->read.get()), "started\n");
}

TEST_F(ProcessTest, DestroyingKillsAndReaps) { EXPECT_TRUE(destroying_reaps()); }

// In a process of its own, `start` starts a command that writes its number to the descriptor and
// then sleeps, and must come back though the command cannot be reaped: a tracer that does not look
// holds back a process that was killed, as a silent file server does.
template <typename Start>
void come_back_from_a_held_child(Start start) {
  auto number = make_pipe();
  auto go = make_pipe();
  ASSERT_TRUE(number && go);
  for (const int end : {number->read.get(), number->write.get(), go->read.get()}) {
    ASSERT_TRUE(set_non_blocking(end, false));
  }
  const pid_t user = ::fork();
  if (user == 0) {
    start(number->write.get(), [&] {
      char byte = 0;
      (void)!::read(go->read.get(), &byte, 1);
    });
    ::_exit(0);
  }
  number->write.reset();
  char text[16] = {};
  ASSERT_GT(::read(number->read.get(), text, sizeof text - 1), 0);
  const pid_t child = std::atoi(text);
  if (::ptrace(PTRACE_SEIZE, child, nullptr, nullptr) != 0) {
    ::kill(user, SIGKILL);
    ::waitpid(user, nullptr, 0);
    GTEST_SKIP() << "this system allows no tracing";
  }
  ASSERT_TRUE(write_some(go->write.get(), std::array{std::byte{1}}));
  EXPECT_TRUE(end_process(user, 0, 60s)) << "it waits for what cannot end";
  ::kill(user, SIGKILL);
  ::waitpid(user, nullptr, 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, __WALL);
}

SpawnOptions says_its_number_and_sleeps(int descriptor) {
  return {.command = {"sh", "-c", "echo $$ >&3; exec sleep 1000"},
          .descriptors = {{descriptor, 3}},
          .new_session = true};
}

TEST_F(ProcessTest, DestroyingDoesNotWaitForEverForWhatCannotEnd) {
  come_back_from_a_held_child([](int descriptor, const auto& wait_for_the_tracer) {
    EventLoop loop;
    auto process = Process::spawn(loop, says_its_number_and_sleeps(descriptor), [](ExitStatus) {});
    wait_for_the_tracer();
  });
}

TEST(RunCommand, DoesNotWaitForEverForWhatCannotEnd) {
  come_back_from_a_held_child([](int descriptor, const auto&) {
    (void)run_command(says_its_number_and_sleeps(descriptor), 5s);
  });
}

TEST_F(ProcessTest, AChildDiesWithTheThreadThatStartedIt) {
  auto out = make_pipe();
  SpawnOptions options{.command = {"sleep", "1000"}, .descriptors = {{out->write.get(), 1}}};
  options.die_with_parent = true;
  std::unique_ptr<Process> process;
  ExitStatus answer;
  std::thread([&] {
    auto spawned = Process::spawn(loop_, options, [&](ExitStatus status) {
      answer = status;
      loop_.stop();
    });
    ASSERT_TRUE(spawned);
    process = *std::move(spawned);
  }).join();
  loop_.run();
  EXPECT_EQ(answer.signal, SIGKILL);
}

TEST_F(ProcessTest, WorksWithoutPidfd) {
  std::thread([&] {
    ASSERT_TRUE(forbid_call(SYS_pidfd_open));
    EXPECT_EQ(run(shell("exit 7")).code, 7);
    EXPECT_TRUE(destroying_reaps());
    const auto result = run_command(shell("echo out"), 60s);
    ASSERT_TRUE(result);
    EXPECT_EQ(result->out, "out\n");
  }).join();
}

TEST_F(ProcessTest, AChildThatSomebodyElseReapedHasEnded) {
  ExitStatus answer;
  auto process = Process::spawn(loop_, {.command = {"sleep", "1000"}}, [&](ExitStatus status) {
    answer = status;
    loop_.stop();
  });
  ASSERT_TRUE(process);
  const pid_t pid = (*process)->pid();
  ::kill(pid, SIGKILL);
  ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  loop_.run();
  EXPECT_EQ(answer.code, -1);
  EXPECT_THAT(answer.describe(), HasSubstr("unknown"));
}

TEST(RunCommand, ReturnsWhatWasPrinted) {
  const int before = count_descriptors();
  const auto result = run_command(shell("cat; echo oh >&2; exit 4"), 10s, "input");
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->out, "input");
  EXPECT_EQ(result->err, "oh\n");
  EXPECT_EQ(result->status.code, 4);
  EXPECT_EQ(count_descriptors(), before);
}

TEST(RunCommand, AFailureIsToldInTheCommandsWords) {
  const auto text_of = [](const char* script) {
    const auto result = run_command(shell(script), 60s);
    return result ? failure_text(*result) : result.error().message;
  };
  EXPECT_EQ(text_of("echo one; echo two; echo; echo three; echo no >&2; exit 9"), "two; three");
  EXPECT_EQ(text_of("echo no >&2; exit 9"), "no");
  EXPECT_EQ(text_of("exit 9"), "exit code 9");
  EXPECT_EQ(text_of("printf %01000d 0; exit 1").size(), 300U);
}

TEST(RunCommand, AnExitCodeThatIsLostIsAnError) {
  const IgnoredChildren ignored;
  const auto lost = run_command(shell("exit 0"), 60s);
  keep_exit_codes();
  const auto known = run_command(shell("exit 3"), 60s);
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().kind, ErrorKind::unsupported);
  EXPECT_THAT(lost.error().message, HasSubstr("how 'sh' ended is unknown: this program ignores"));
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->status.code, 3);
}

TEST(RunCommand, CarriesMuchInBothDirections) {
  const std::string much(3'000'000, 'x');
  const auto result = run_command(shell("cat; head -c 1000000 /dev/zero >&2"), 60s, much);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->out == much);
  EXPECT_EQ(result->err.size(), 1'000'000U);
}

TEST(RunCommand, InputThatNobodyReadsIsNoError) {
  const auto result = run_command(shell("exit 0"), 60s, std::string(1'000'000, 'x'));
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->status.code, 0);
}

TEST(RunCommand, EndsWhenItIsStopped) {
  std::stop_source stop;
  SpawnOptions options = shell("trap 'exit 0' TERM; sleep 1000 & wait");
  options.new_session = true;  // with its sleep
  options.stop = stop.get_token();
  const Time begun = EventLoop::now();
  const std::jthread later([&] {
    pause_thread(50ms, {});
    stop.request_stop();
  });
  const auto result = run_command(options, 60s);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::cancelled);
  EXPECT_LT(EventLoop::now() - begun, 30s);
}

TEST(RunCommand, KillsAfterTheTimeout) {
  SpawnOptions options = shell("echo waiting >&2; sleep 1000 & sleep 1000");
  options.new_session = true;
  auto result = run_command(options, 2s);
  // On a busy machine, not even its first word may come in time.
  for (int again = 0; again < 2; ++again) {
    if (result || result.error().message.contains("waiting")) break;
    result = run_command(options, 2s);
  }
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::timeout);
  EXPECT_THAT(result.error().message, HasSubstr("'sh' did not end within 2.0 s"));
  EXPECT_THAT(result.error().message, HasSubstr("waiting"));
}

TEST(RunCommand, MayPrintAsMuchAsItsCallerAllows) {
  SpawnOptions options = shell("head -c 3000000 /dev/zero; head -c 1000000 /dev/zero >&2");
  options.max_output = 4'000'000;
  ASSERT_TRUE(run_command(options, 60s));
  --options.max_output;
  const auto result = run_command(options, 60s);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("'sh' wrote more than 3 MiB"));
}

TEST(RunCommand, StopsWhatWritesWithoutEnd) {
  for (const char* command : {"exec yes", "exec yes >&2", "yes & sleep 1000"}) {
    SpawnOptions options = shell(command);
    options.new_session = true;
    const auto result = run_command(options, 60s);
    ASSERT_FALSE(result) << command;
    EXPECT_EQ(result.error().kind, ErrorKind::exhausted) << command;
    EXPECT_THAT(result.error().message, HasSubstr("'sh' wrote more than 64 MiB"));
  }
}

TEST(RunCommand, DoesNotWaitForADaemonThatHoldsItsStreams) {
  const auto result = run_command(shell("sleep 1000 & echo $!"), 30s);
  ASSERT_TRUE(result) << result.error().message;
  const pid_t daemon = std::atoi(result->out.c_str());
  ASSERT_GT(daemon, 1);
  EXPECT_EQ(::kill(daemon, SIGKILL), 0);
}

TEST(RunCommand, MayRunOnManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 25; ++i) {
        const auto result = run_command(shell("exit " + std::to_string(t)), 60s);
        ASSERT_TRUE(result) << result.error().message;
        EXPECT_EQ(result->status.code, t);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace skyward::io
