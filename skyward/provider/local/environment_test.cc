#include "skyward/provider/local/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "skyward/base/time.h"
#include "skyward/io/file.h"
#include "skyward/io/file_lock.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/spec/image.h"

namespace skyward::provider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

EnvironmentRequest request() {
  return {.root = "/cache", .python = "/usr/bin/python3", .pip = {"six"}};
}

TEST(EnvironmentKey, SeesAllThatGoesIn) {
  const std::string key = environment_key(request());
  EXPECT_EQ(key.size(), 16u);
  EXPECT_EQ(environment_key(request()), key);
  EnvironmentRequest other = request();
  other.python = "3.12";
  EXPECT_NE(environment_key(other), key);
  other = request();
  other.version = "3.12";
  EXPECT_NE(environment_key(other), key) << "the same path may lead to another Python";
  other = request();
  other.machine = "aarch64";
  EXPECT_NE(environment_key(other), key) << "another machine may share the cache";
  other = request();
  other.pip = {"six", "attrs"};
  EXPECT_NE(environment_key(other), key);
  other = request();
  other.extra_index = "https://host/simple";
  EXPECT_NE(environment_key(other), key);
  other = request();
  other.index_project = "[project]";
  EXPECT_NE(environment_key(other), key);
  other = request();
  other.variables = {{"UV_INDEX_URL", "https://host"}};
  EXPECT_NE(environment_key(other), key);
  other = request();
  other.image_variables = {{"CMAKE_ARGS", "-DCUDA=on"}};
  EXPECT_NE(environment_key(other), key);
}

TEST(EnvironmentKey, DoesNotSeeWhoAsks) {
  EnvironmentRequest one = request();
  EnvironmentRequest two = request();
  const auto ask = [](EnvironmentRequest& by, const std::string& token, const std::string& host) {
    const std::string url = "https://aws:" + token + "@" + host + "/simple";
    by.pip = {"mine @ " + url + "/mine.whl", "six"};
    by.extra_index = url;
    by.index_project = "url = \"" + url + "\"";
    by.variables = {{"UV_INDEX", "lab=" + url + " https://open.example/simple"},
                    {"UV_INDEX_LAB_USERNAME", token},
                    {"UV_INDEX_LAB_PASSWORD", token}};
    by.image_variables = {{"HF_TOKEN", token}, {"WANDB_API_KEY", token}};
  };
  ask(one, "canary-1", "lab.example");
  ask(two, "2", "lab.example");
  EXPECT_EQ(environment_key(one), environment_key(two));
  ask(two, "2", "another.example");
  EXPECT_NE(environment_key(one), environment_key(two));
}

TEST(DiskPath, IsThatOfAPathOrAnUrlOfThisComputer) {
  EXPECT_EQ(disk_path_of("/a%20b/x.whl"), "/a%20b/x.whl");
  EXPECT_EQ(disk_path_of("file:///a%20b/x.whl#sha256=00"), "/a b/x.whl");
  EXPECT_EQ(disk_path_of("x @ file://localhost/a%40b/x.whl ; python_version > '3'"), "/a@b/x.whl");
  EXPECT_EQ(disk_path_of("file://elsewhere/x.whl"), "");
  EXPECT_EQ(disk_path_of("x>=1"), "");
}

TEST(EnvironmentKey, DoesNotSeeOrderOrPlace) {
  EnvironmentRequest one = request();
  EnvironmentRequest two = request();
  one.pip = {"six", "attrs"};
  two.pip = {"attrs", "six"};
  two.uv = "/elsewhere/uv";
  two.root = "/other";
  EXPECT_EQ(environment_key(one), environment_key(two));
  EXPECT_EQ(environment_python(two), "/other/" + environment_key(one) + "/bin/python");
}

TEST(EnvironmentScript, QuotesWhatComesFromOutside) {
  EnvironmentRequest odd = request();
  odd.root = "/a b/$(id)";
  odd.pip = {"numpy>=1,<2", "x ; extra == 'y'"};
  const std::string script = environment_script(odd, true);
  EXPECT_TRUE(script.contains("\nenvironment='/a b/$(id)/")) << script;
  EXPECT_TRUE(script.contains(R"(requirements=('numpy>=1,<2' 'x ; extra == '\''y'\'''))"))
      << script;
  EXPECT_TRUE(script.contains("\noptions=(--no-index)\n"));
}

TEST(EnvironmentScript, KnowsTheVersionThatItsPythonMustHave) {
  EnvironmentRequest wanted = request();
  EXPECT_TRUE(environment_script(wanted, false).contains("\nminor=3\n"));
  wanted.version = "3.12.4";
  EXPECT_TRUE(environment_script(wanted, false).contains("\nminor=3.12\n"));
}

TEST(EnvironmentScript, ShellcheckHasNothingToSay) {
  EnvironmentRequest odd = request();
  odd.root = "/a b/it's";
  io::SpawnOptions shellcheck;
  shellcheck.command = {"shellcheck", "--severity=style", "-"};
  for (const bool no_index : {false, true}) {
    const auto checked =
        io::run_command(shellcheck, std::chrono::seconds(30), environment_script(odd, no_index));
    if (!checked) GTEST_SKIP() << "shellcheck is not installed";
    EXPECT_EQ(checked->status.code, 0) << checked->out << checked->err;
  }
}

TEST(EnvironmentScript, AShellReadsBackWhatWasQuoted) {
  for (const char* text : {"", "a b", "it's", "$HOME `id` $(id) \\ \" ! * ? ~ # & | ; < > ( ) { }",
                           "line\nline", "''", "é", "-n", "\t"}) {
    io::SpawnOptions shell;
    shell.command = {"sh", "-c", "printf %s " + shell_quote(text)};
    const auto answer = io::run_command(shell, std::chrono::seconds(30));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->out, text);
  }
}

// Runs the script with a program that stands for uv.
class EnvironmentScriptRun : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = ::testing::TempDir() + "skyward-environment-" + io::random_hex(8);
    std::filesystem::create_directories(root_ + "/bin");
    make_program("uv", R"(
case $1 in
venv)
  for last; do :; done
  mkdir -p "$last/bin"
  printf '#!/bin/sh\necho 3.12\n' >"$last/bin/python"
  chmod 755 "$last/bin/python" ;;
pip) cat >/dev/null ;;
esac)");
    request_ = {.root = root_ + "/environments",
                .python = "python3",
                .version = "3.12",
                .pip = {"six"},
                .uv = root_ + "/bin/uv"};
  }
  void TearDown() override { (void)io::remove_tree(root_); }

  void make_program(const std::string& name, const std::string& text) const {
    const std::string path = root_ + "/bin/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  void run() const {
    std::ofstream(root_ + "/script") << environment_script(request_, false);
    io::SpawnOptions options;
    options.command = {"bash", "-c", "exec bash \"$0/script\" 3>/dev/null", root_};
    options.environment = {
        {"PATH", root_ + "/bin:" + io::environment_variable("PATH").value_or("/usr/bin:/bin")}};
    const auto ran = io::run_command(options, std::chrono::seconds(30));
    ASSERT_TRUE(ran) << ran.error().message;
    EXPECT_EQ(ran->status.code, 0) << ran->err;
  }

  std::string root_;
  EnvironmentRequest request_;
};

TEST_F(EnvironmentScriptRun, IsOnTheDiskBeforeItIsDeclaredComplete) {
  make_program("sync", R"([ -e "$3/bin/python" ] && [ ! -e "$3/skyward-ready" ] && echo "$3" >>)" +
                           root_ + "/synced");
  for (int pool = 0; pool < 2; ++pool) {  // the second finds it complete
    run();
    EXPECT_TRUE(io::exists(environment_marker(request_)));
    EXPECT_EQ(io::read_file(root_ + "/synced").value_or(""),
              environment_directory(request_) + "\n");
  }
}

TEST_F(EnvironmentScriptRun, WhatNoPoolUsesMakesRoom) {
  using std::chrono::days;
  const auto now = std::filesystem::last_write_time(root_ + "/bin/uv");
  const auto make = [&](const std::string& end, days folder_age, days marker_age) {
    const std::filesystem::path made = request_.root + "/" + io::random_hex(16) + end;
    std::filesystem::create_directories(made / "bin");
    if (marker_age != days::max()) {
      std::ofstream(made / "skyward-ready") << "";
      std::filesystem::last_write_time(made / "skyward-ready", now - marker_age);
    }
    std::filesystem::last_write_time(made, now - folder_age);
    return made;
  };
  const auto cut_short = make("", days(2), days::max());
  const auto being_made = make("", days(0), days::max());
  const auto slowly_made = make("", days(2), days::max());
  const auto lock = io::FileLock::try_lock(slowly_made.string() + ".lock");
  ASSERT_NE(lock, nullptr);
  const auto unused = make("", days(40), days(40));
  const auto used = make("", days(40), days(20));
  const auto of_a_node = make("-x86_64", days(40), days(40));
  run();
  EXPECT_FALSE(std::filesystem::exists(cut_short));
  EXPECT_FALSE(std::filesystem::exists(unused));
  for (const auto& kept : {being_made, slowly_made, used, of_a_node}) {
    EXPECT_TRUE(std::filesystem::exists(kept)) << kept;
  }
  // Each use counts.
  const std::string marker = environment_marker(request_);
  std::filesystem::last_write_time(marker, now - days(29));
  run();
  EXPECT_TRUE(std::filesystem::last_write_time(marker) > now - days(1));
}

TEST(PipConfig, IsReadAsPipPrintsIt) {
  const auto found = parse_pip_config(
      ":env:.index-url='https://env'\n"
      "global.extra-index-url='\\nhttps://a\\nhttps://b'\n"
      "global.index-url='https://global'\n"
      "global.trusted-host='x'\n"
      "install.trusted-host=\"it's\"\n"
      "freeze.timeout='3'\n"
      "nonsense\n");
  EXPECT_THAT(found, ElementsAre(Pair("extra-index-url", "\nhttps://a\nhttps://b"),
                                 Pair("index-url", "https://env"), Pair("trusted-host", "it's")));
  EXPECT_THAT(parse_pip_config(""), IsEmpty());
}

using Variables = std::map<std::string, std::string>;

UvSettings settings(const Variables& pip, const Variables& variables = {},
                    const std::optional<std::string>& extra = std::nullopt) {
  return uv_settings(pip, extra, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

TEST(UvSettings, SayWhatPipsSettingsSay) {
  EXPECT_THAT(settings({}).environment, IsEmpty());
  EXPECT_THAT(
      settings({{"index-url", "https://a"},
                {"extra-index-url", "\nhttps://b\nhttps://c"},
                {"find-links", "/w1 /w2"},
                {"cert", "/ca.pem"},
                {"default-timeout", "180"},
                {"trusted-host", "h1 h2"},
                {"proxy", "http://p"}})
          .environment,
      ElementsAre(Pair("UV_INDEX_URL", "https://a"),
                  Pair("UV_EXTRA_INDEX_URL", "https://b https://c"),
                  Pair("UV_INDEX_STRATEGY", "unsafe-best-match"), Pair("UV_FIND_LINKS", "/w1,/w2"),
                  Pair("UV_INSECURE_HOST", "h1 h2"), Pair("UV_HTTP_TIMEOUT", "180"),
                  Pair("SSL_CERT_FILE", "/ca.pem"), Pair("ALL_PROXY", "http://p")));
  EXPECT_TRUE(settings({{"no-index", "true"}}).no_index);
  EXPECT_FALSE(settings({{"no-index", "false"}}).no_index);
}

TEST(UvSettings, NeverOverruleUvsOwn) {
  const Variables pip = {{"index-url", "https://a"},
                         {"extra-index-url", "https://b"},
                         {"find-links", "/w"},
                         {"no-index", "true"}};
  for (const char* own : {"UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL"}) {
    const UvSettings made = settings(pip, {{own, "https://own"}});
    EXPECT_THAT(made.environment, ElementsAre(Pair("UV_FIND_LINKS", "/w"))) << own;
    EXPECT_FALSE(made.no_index);
  }
  EXPECT_THAT(settings({{"find-links", "/w"}}, {{"UV_FIND_LINKS", "/own"}}).environment, IsEmpty());
}

TEST(UvSettings, TheImagesIndexIsAddedToThoseThereAre) {
  EXPECT_THAT(settings({}, {}, "https://x").environment,
              ElementsAre(Pair("UV_EXTRA_INDEX_URL", "https://x"),
                          Pair("UV_INDEX_STRATEGY", "unsafe-best-match")));
  EXPECT_THAT(settings({{"extra-index-url", "https://b"}}, {}, "https://x").environment,
              ElementsAre(Pair("UV_EXTRA_INDEX_URL", "https://b https://x"),
                          Pair("UV_INDEX_STRATEGY", "unsafe-best-match")));
  EXPECT_THAT(
      settings({}, {{"UV_EXTRA_INDEX_URL", "https://own"}, {"UV_INDEX_STRATEGY", "first-index"}},
               "https://x")
          .environment,
      ElementsAre(Pair("UV_EXTRA_INDEX_URL", "https://own https://x")));
}

}  // namespace
}  // namespace skyward::provider
