#include "skyward/provider/first_boot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/machine.h"
#include "skyward/io/polling.h"
#include "skyward/io/process.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

FirstBoot boot() {
  FirstBoot made;
  made.end_timer.expires_s = 2'000'000'000;
  made.end_timer.lifetime = 1h;
  made.end_timer.unclaimed = 900s;
  made.host_key =
      "-----BEGIN OPENSSH PRIVATE KEY-----\nsecret\n-----END OPENSSH PRIVATE KEY-----\n";
  made.host_key_public = "ssh-ed25519 AAAA host";
  made.login_key = "ssh-ed25519 BBBB login";
  return made;
}

TEST(FirstBoot, TheTimerComesFirstAndNothingElseIsTold) {
  const std::string text = user_data(boot());
  ASSERT_TRUE(text.starts_with("#cloud-config\n"));
  const auto document = nlohmann::ordered_json::parse(text.substr(text.find('\n')));
  EXPECT_EQ(document.begin().key(), "bootcmd");
  EXPECT_EQ(document["bootcmd"][0][2], end_timer_script(boot().end_timer));
  EXPECT_EQ(document["ssh_keys"]["ed25519_private"], boot().host_key);
  EXPECT_EQ(document["ssh_authorized_keys"][0], boot().login_key);
  EXPECT_EQ(document["ssh_deletekeys"], true);
  EXPECT_LT(text.size(), 16384U) << "Amazon takes no more";
  EXPECT_THAT(text, Not(HasSubstr("AKIA")));
}

TEST(FirstBoot, RootIsLetInOnlyWhereItLogsIn) {
  EXPECT_THAT(user_data(boot()), Not(HasSubstr("disable_root")));
  FirstBoot as_root = boot();
  as_root.root_login = true;
  EXPECT_THAT(user_data(as_root), HasSubstr("\"disable_root\": false"));
}

TEST(FirstBoot, AUserIsCreatedBesideThoseOfTheImage) {
  FirstBoot with_user = boot();
  with_user.new_user = "skyward";
  const std::string text = user_data(with_user);
  const auto document = nlohmann::ordered_json::parse(text.substr(text.find('\n')));
  EXPECT_EQ(document.begin().key(), "bootcmd");
  ASSERT_EQ(document["users"].size(), 2U);
  EXPECT_EQ(document["users"][0], "default") << "else the image's own is not made";
  const auto& user = document["users"][1];
  EXPECT_EQ(user["name"], "skyward");
  EXPECT_EQ(user["sudo"], "ALL=(ALL) NOPASSWD:ALL");
  EXPECT_EQ(user["ssh_authorized_keys"][0], boot().login_key);
  EXPECT_THAT(user_data(boot()), Not(HasSubstr("users")));
}

// The timer itself, in a directory that stands for a machine. What would end a machine is in a
// folder of its own, which outlives the watch: without it, the watch would find the real programs.
class EndTimerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(root_);
    std::filesystem::create_directories(programs_);
    write_program("shutdown", "echo \"$@\" >>" + root_ + "/ended\n");
    write_program("systemctl", "");
    write_program("poweroff", "");
  }
  void TearDown() override {
    // The watch ends when it no longer finds its machine.
    std::filesystem::rename(root_, root_ + "-over");
    watched_.write.reset();
    // Nobody writes: the pipe ends with the last one who has inherited it.
    ASSERT_GT(io::poll_until(watched_.read.get(), POLLIN, io::EventLoop::now() + 60s), 0)
        << "the watch still runs: its programs stay";
    std::filesystem::remove_all(root_ + "-over");
    std::filesystem::remove_all(programs_);
  }

  // Before arm(): while a watch runs, none of them may be missing even for a moment.
  void write_program(const std::string& name, const std::string& script) {
    const std::string path = programs_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" + script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    ASSERT_TRUE(io::is_program(path));
  }

  EndTimer end_timer() {
    EndTimer made;
    made.expires_s = io::EventLoop::wall_us() / 1'000'000 + 3600;
    made.lifetime = 1h;
    made.unclaimed = 1h;
    made.look_every = 20ms;
    made.root = root_;
    return made;
  }
  // On the machine.
  Result<io::CommandResult> run(const std::vector<std::string>& command) const {
    io::SpawnOptions options;
    options.command = command;
    options.environment = {{"PATH", programs_ + ":/usr/bin:/bin"}};
    options.descriptors = {{watched_.write.get(), 9}};
    return io::run_command(options, 60s);
  }
  void arm(const EndTimer& how) {
    const auto ran = run({"/bin/sh", "-c", end_timer_script(how)});
    ASSERT_TRUE(ran);
    ASSERT_EQ(ran->status.code, 0) << ran->err;
  }
  void claim() const {
    std::filesystem::create_directories(root_ + "/run/skyward");
    std::ofstream(root_ + kClaimFile) << "";
  }
  bool ended(Duration within = 60s) const {
    const Time until = io::EventLoop::now() + within;
    while (io::EventLoop::now() < until) {
      if (std::filesystem::exists(root_ + "/ended")) return true;
      io::pause_thread(10ms);
    }
    return std::filesystem::exists(root_ + "/ended");
  }

  const std::string root_ = ::testing::TempDir() + "end-timer-" + io::random_hex(8);
  const std::string programs_ = root_ + "-programs";
  io::Pipe watched_ = io::make_pipe().value();  // held open by all that runs on the machine
};

TEST_F(EndTimerTest, EndsTheMachineWhenItsTimeIsOver) {
  EndTimer how = end_timer();
  how.expires_s = 1;
  arm(how);
  EXPECT_TRUE(ended());
}

// Its credentials may hold whatever a shell would take for something else.
TEST_F(EndTimerTest, FirstDoesWhatEndsTheCost) {
  EndTimer how = end_timer();
  how.expires_s = 1;
  how.end_first = "printf '%s' '$HOME `id` \"' >" + root_ + "/deleted";
  arm(how);
  ASSERT_TRUE(ended());
  std::ifstream deleted(root_ + "/deleted");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(deleted), {}), "$HOME `id` \"");
  const auto rights = std::filesystem::status(root_ + kEndProgram).permissions();
  EXPECT_EQ(rights, std::filesystem::perms::owner_all) << "it may hold a secret";
}

// In a container, /run is on the disk that tasks fill.
TEST_F(EndTimerTest, EndsAMachineWhoseDiskIsFull) {
  std::filesystem::create_directories(root_ + "/run/skyward-over");  // no file can be created there
  EndTimer how = end_timer();
  how.expires_s = 1;
  how.end_first = "echo deleted >" + root_ + "/deleted";
  arm(how);
  ASSERT_TRUE(ended());
  EXPECT_TRUE(std::filesystem::exists(root_ + "/deleted"));
}

TEST(FirstBoot, TheScriptBringsTheHostKeyAndTheLogin) {
  const std::string text = boot_script(boot());
  EXPECT_TRUE(text.starts_with("#!/bin/sh\n"));
  EXPECT_THAT(text, HasSubstr(end_timer_script(boot().end_timer)));
  EXPECT_THAT(text, HasSubstr(boot().host_key + "KEY\n"));
  EXPECT_THAT(text, HasSubstr("echo '" + boot().login_key + "' >>~root/.ssh/authorized_keys"));
}

TEST(FirstBoot, TheScriptBringsTheWayInWhereAnImageHasNone) {
  FirstBoot bare = boot();
  EXPECT_THAT(boot_script(bare), Not(HasSubstr("openssh-server")));
  bare.install_sshd = true;
  EXPECT_THAT(boot_script(bare), HasSubstr("openssh-server"));
}

// Later, its disk may be full. A mirror that does not answer delays no way in.
TEST(FirstBoot, WhatItsEndNeedsIsInstalledAtBoot) {
  FirstBoot deleted = boot();
  EXPECT_THAT(boot_script(deleted), Not(HasSubstr("curl")));
  deleted.end_timer.end_first = "ask for it";
  const std::string text = boot_script(deleted);
  EXPECT_TRUE(text.ends_with("\ncommand -v curl >/dev/null || add curl ca-certificates\n"));
  EXPECT_LT(text.find("restart ssh"), text.find("add curl"));
  EXPECT_THAT(text, Not(HasSubstr("openssh-server")));
  EXPECT_THAT(text, Not(HasSubstr("set -e")));
}

TEST_F(EndTimerTest, EndsAMachineWhoseClockIsWrong) {
  EndTimer how = end_timer();
  how.lifetime = 0s;
  arm(how);
  EXPECT_TRUE(ended());
}

TEST_F(EndTimerTest, EndsAMachineThatNobodyBeganToUse) {
  EndTimer how = end_timer();
  how.unclaimed = 0s;
  arm(how);
  EXPECT_TRUE(ended());
}

TEST_F(EndTimerTest, LeavesAMachineInUseAlone) {
  EndTimer how = end_timer();
  how.unclaimed = 1s;
  claim();
  arm(how);
  EXPECT_FALSE(ended(2s));
  // And its end still comes.
  how.lifetime = 0s;
  arm(how);
  EXPECT_TRUE(ended());
}

// The agent was killed, or ended without ending its machine.
TEST_F(EndTimerTest, EndsAMachineWhoseAgentIsGone) {
  EndTimer how = end_timer();
  how.unclaimed = 0s;
  how.lease = 1s;
  claim();
  arm(how);
  // Most looks find nothing new, and all of them together take longer than the lease.
  const Time until = io::EventLoop::now() + 3s;
  while (io::EventLoop::now() < until) {
    claim();
    ASSERT_FALSE(ended(100ms)) << "its agent lives";
  }
  EXPECT_TRUE(ended());
}

TEST_F(EndTimerTest, EndsAMachineWhoseAgentIsGoneWithItsFile) {
  EndTimer how = end_timer();
  how.unclaimed = 1h;
  how.lease = 500ms;
  claim();
  arm(how);
  EXPECT_FALSE(ended(100ms));
  std::filesystem::remove(root_ + kClaimFile);
  EXPECT_TRUE(ended());
}

TEST_F(EndTimerTest, WithoutALeaseAnAgentMayBeSilent) {
  EndTimer how = end_timer();
  how.unclaimed = 0s;
  claim();
  arm(how);
  EXPECT_FALSE(ended(1s));
}

TEST_F(EndTimerTest, AsksForTheEndUntilItComes) {
  write_program("shutdown", "echo x >>" + root_ +
                                "/asked\n"
                                "[ $(wc -l <" +
                                root_ + "/asked) -lt 4 ] || echo \"$@\" >>" + root_ + "/ended\n");
  arm(end_timer());
  // As an agent does, once.
  ASSERT_TRUE(run({root_ + kEndProgram}));
  EXPECT_TRUE(ended());
}

TEST_F(EndTimerTest, TheEndProgramIsWhereTheAgentLooksForIt) {
  arm(end_timer());
  EXPECT_TRUE(std::filesystem::exists(root_ + kEndProgram));
  const auto directory =
      std::filesystem::status(std::filesystem::path(root_ + kClaimFile).parent_path());
  EXPECT_TRUE(std::filesystem::is_directory(directory));
  EXPECT_EQ(directory.permissions(),
            std::filesystem::perms::all | std::filesystem::perms::sticky_bit)
      << "an agent is not always root";
}

}  // namespace
}  // namespace skyward::provider
