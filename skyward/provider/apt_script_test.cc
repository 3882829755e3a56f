#include "skyward/spec/apt_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"

namespace skyward::provider {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Duration kAptTimeout = std::chrono::seconds(60);

// Runs the function as root of a machine whose dpkg and apt are scripts.
class AptScript : public ::testing::Test {
 protected:
  AptScript() : root_(::testing::TempDir() + "skyward-apt-" + io::random_hex(8)) {
    fs::create_directories(root_ + "/bin");
    program("id", "echo 0");
    program("sleep", "echo \"sleep $*\" >>\"$ROOT/calls\"");
    program("dpkg-query",
            "for name; do :; done\n"
            "case $name in git) echo 'installed 1:2.39-1' ;; gone) echo 'config-files 1' ;;\n"
            "libc6) echo 'installed 2.36'; echo 'installed 2.36' ;;\n*) exit 1 ;; esac");
    program("apt-get", "echo \"$*\" >>\"$ROOT/calls\"");
  }
  ~AptScript() override { (void)io::remove_tree(root_); }

  void program(const std::string& name, const std::string& lines) {
    const std::string path = root_ + "/bin/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << lines << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }

  io::CommandResult run(const std::string& packages,
                        std::vector<std::pair<std::string, std::string>> environment = {}) {
    fs::remove(root_ + "/calls");
    io::SpawnOptions options;
    options.command = {
        "/bin/bash", "-c",
        "set -euo pipefail\n" + std::string(kInstallPackages) + "install_packages " + packages};
    options.unset = {"http_proxy", "https_proxy", "all_proxy", "no_proxy",
                     "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"};
    options.environment = std::move(environment);
    options.environment.emplace_back("PATH", root_ + "/bin:/usr/bin:/bin");
    options.environment.emplace_back("ROOT", root_);
    const auto ran = io::run_command(options, kAptTimeout);
    EXPECT_TRUE(ran) << ran.error().message;
    return ran ? *ran : io::CommandResult{};
  }

  std::string calls() const {
    std::stringstream text;
    text << std::ifstream(root_ + "/calls").rdbuf();
    return text.str();
  }

  const std::string root_;
};

constexpr const char* kInstall =
    "-q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends ";

TEST_F(AptScript, InstallsWhatIsMissing) {
  EXPECT_EQ(run("git libc6").status.code, 0);
  EXPECT_EQ(run("").status.code, 0);
  EXPECT_EQ(calls(), "");
  EXPECT_EQ(run("git gone other").status.code, 0);
  EXPECT_EQ(calls(), std::string("-q update\n") + kInstall + "-- gone other\n");
}

TEST_F(AptScript, AnotherVersionIsInstalled) {
  EXPECT_EQ(run("git=1:2.39-1").status.code, 0);
  EXPECT_EQ(calls(), "");
  EXPECT_EQ(run("git=1:2.39").status.code, 0);
  EXPECT_EQ(calls(), std::string("-q update\n") + kInstall + "--allow-downgrades -- git=1:2.39\n");
}

TEST_F(AptScript, AptKnowsTheVersionOfARelease) {
  program("apt-get",
          "echo \"$*\" >>\"$ROOT/calls\"\n"
          "case \"$*\" in -qs*/new) echo; echo 'Inst git' ;; -qs*/unknown) exit 100 ;; esac");
  const std::string asked = "-qs --allow-downgrades install -- ";
  EXPECT_EQ(run("git/stable").status.code, 0);
  EXPECT_EQ(calls(), asked + "git/stable\n");
  for (const std::string package : {"git/new", "git/unknown"}) {
    EXPECT_EQ(run(package).status.code, 0);
    EXPECT_EQ(calls(), asked + package + "\n-q update\n" + kInstall + "--allow-downgrades -- " +
                           package + "\n");
  }
}

TEST_F(AptScript, WaitsForTheLockOfTheLists) {
  program("apt-get",
          "case $* in *update*) echo x >>\"$ROOT/updates\"\n"
          "if [ \"$(wc -l <\"$ROOT/updates\")\" -lt 3 ]; then\n"
          "echo 'E: Could not get lock /var/lib/apt/lists/lock' >&2; exit 100; fi ;; esac\n"
          "echo \"$*\" >>\"$ROOT/calls\"");
  const io::CommandResult ran = run("other");
  EXPECT_EQ(ran.status.code, 0) << ran.err;
  EXPECT_EQ(calls(), std::string("sleep 2\nsleep 2\n-q update\n") + kInstall + "-- other\n");
}

TEST_F(AptScript, AnUpdateThatFailsOtherwiseIsNotRepeated) {
  program("apt-get", "echo \"$*\" >>\"$ROOT/calls\"; echo 'E: no space left' >&2; exit 100");
  const io::CommandResult ran = run("other");
  EXPECT_EQ(ran.status.code, 100);
  EXPECT_THAT(ran.err, HasSubstr("E: no space left"));
  EXPECT_EQ(calls(), "-q update\n");
}

TEST_F(AptScript, UsesProxiesOfEitherCase) {
  program("apt-get",
          "echo \"${http_proxy-none} ${https_proxy-none} ${no_proxy-none}\" >>\"$ROOT/calls\"");
  const auto proxies = [&](const std::vector<std::pair<std::string, std::string>>& environment) {
    EXPECT_EQ(run("other", environment).status.code, 0);
    return calls();
  };
  EXPECT_THAT(proxies({}), StartsWith("none none none\n"));
  EXPECT_THAT(proxies({{"HTTP_PROXY", "a"}, {"NO_PROXY", "n"}}), StartsWith("a none n\n"));
  EXPECT_THAT(proxies({{"HTTPS_PROXY", "b"}, {"http_proxy", "c"}, {"HTTP_PROXY", "a"}}),
              StartsWith("c b none\n"));
  EXPECT_THAT(proxies({{"ALL_PROXY", "d"}, {"https_proxy", ""}}), StartsWith("d d none\n"));
}

TEST_F(AptScript, WithoutRootItSaysWhatIsMissing) {
  program("id", "echo 1000");
  program("sudo", "exit 1");
  const io::CommandResult ran = run("git gone other");
  EXPECT_EQ(ran.status.code, 1);
  EXPECT_THAT(ran.err, HasSubstr("the system packages gone other are missing, and only root can "
                                 "install them: log in as root"));
  EXPECT_EQ(calls(), "");
}

}  // namespace
}  // namespace skyward::provider
