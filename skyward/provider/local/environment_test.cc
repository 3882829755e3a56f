#include "skyward/provider/local/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/base/time.h"
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
