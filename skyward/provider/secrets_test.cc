#include "skyward/provider/secrets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::array<const char*, 2> kVariables = {"SOME_TOKEN", "SOME_OTHER_TOKEN"};
constexpr std::array<SecretFile, 2> kFiles = {{
    {.path = ".config/some/config.yaml", .format = SecretFormat::yaml, .key = "access-token"},
    {.path = ".some_key"},
}};
constexpr SecretSheet kSheet = {.cloud = "Some Cloud",
                                .setting = "token",
                                .variables = kVariables,
                                .files = kFiles,
                                .advice = "make one in its console"};

class SecretsTest : public ::testing::Test {
 protected:
  Result<Secret> find() { return find_secret(fixture_.world, spec_, kSheet); }

  WorldFixture fixture_;
  ProviderSpec spec_{.name = "some", .settings = {}};
};

TEST_F(SecretsTest, TheProgramThenTheVariablesThenTheToolsFiles) {
  fixture_.files["/home/.some_key"] = "from-the-file\n";
  EXPECT_EQ(find()->value, "from-the-file");
  EXPECT_EQ(find()->origin, "~/.some_key");
  fixture_.files["/home/.config/some/config.yaml"] = "access-token: from-yaml\n";
  EXPECT_EQ(find()->origin, "~/.config/some/config.yaml");
  fixture_.variables["SOME_OTHER_TOKEN"] = "second";
  EXPECT_EQ(find()->origin, "$SOME_OTHER_TOKEN");
  fixture_.variables["SOME_TOKEN"] = "first";
  EXPECT_EQ(find()->value, "first");
  spec_.settings["token"] = "said";
  EXPECT_EQ(find()->value, "said");
  EXPECT_EQ(find()->origin, "the setting token");
}

TEST_F(SecretsTest, NoFileIsReadForOneHalfOfAPair) {
  constexpr std::array<const char*, 1> kIdVariables = {"SOME_ID"};
  SecretSheet sheet = kSheet;
  sheet.other_half = "id";
  sheet.other_variables = kIdVariables;
  const auto found = [&] { return find_secret(fixture_.world, spec_, sheet); };
  fixture_.files["/home/.some_key"] = "from-the-file\n";
  EXPECT_EQ(found()->value, "from-the-file");
  fixture_.variables["SOME_ID"] = "of-another-account";
  ASSERT_FALSE(found());
  EXPECT_THAT(found().error().message, Not(HasSubstr(".some_key")));
  EXPECT_THAT(found().error().message, HasSubstr("token is not taken from a file: set both"));
  fixture_.variables.erase("SOME_ID");
  spec_.settings["id"] = "of-another-account";
  EXPECT_FALSE(found());
  fixture_.variables["SOME_TOKEN"] = "its-secret";
  EXPECT_EQ(found()->value, "its-secret");
}

TEST_F(SecretsTest, AFileWithoutTheKeyIsPassedOver) {
  fixture_.files["/home/.config/some/config.yaml"] = "context: default\n";
  fixture_.files["/home/.some_key"] = "k";
  EXPECT_EQ(find()->value, "k");
}

TEST_F(SecretsTest, AFileOfTwoKeysIsNamedOnce) {
  constexpr std::array<SecretFile, 2> kTwice = {
      {{.path = ".some.toml", .format = SecretFormat::toml, .key = "default/key"},
       {.path = ".some.toml", .format = SecretFormat::toml, .key = "key"}}};
  SecretSheet sheet = kSheet;
  sheet.files = kTwice;
  EXPECT_EQ(find_secret(fixture_.world, spec_, sheet).error().message,
            "Some Cloud: no token found in the setting token, $SOME_TOKEN, $SOME_OTHER_TOKEN, "
            "~/.some.toml");
  fixture_.files["/home/.some.toml"] = "key = \"k\"";
  EXPECT_EQ(find_secret(fixture_.world, spec_, sheet)->origin, "~/.some.toml");
}

TEST_F(SecretsTest, TheDirectoryOfConfigurationMayBeElsewhere) {
  fixture_.variables["XDG_CONFIG_HOME"] = "/elsewhere";
  fixture_.files["/home/.config/some/config.yaml"] = "access-token: old\n";
  fixture_.files["/elsewhere/some/config.yaml"] = "access-token: new\n";
  EXPECT_EQ(find()->value, "new");
  EXPECT_EQ(find()->origin, "$XDG_CONFIG_HOME/some/config.yaml");
  fixture_.files.erase("/elsewhere/some/config.yaml");
  fixture_.files["/home/.some_key"] = "k";
  EXPECT_EQ(find()->origin, "~/.some_key");
}

// As `doctl auth switch` leaves it.
TEST_F(SecretsTest, TheProfileThatTheToolUsesIsTaken) {
  constexpr std::array<SecretFile, 1> kOfProfiles = {{{.path = ".some/config.yaml",
                                                       .format = SecretFormat::yaml,
                                                       .key = "access-token",
                                                       .profile = {.variable = "SOME_CONTEXT",
                                                                   .path = ".some/config.yaml",
                                                                   .format = SecretFormat::yaml,
                                                                   .key = "context",
                                                                   .secret = "auth-contexts/{}"},
                                                       .variable = "SOME_FILE"}}};
  SecretSheet sheet = kSheet;
  sheet.files = kOfProfiles;
  const auto found = [&] { return find_secret(fixture_.world, spec_, sheet); };
  constexpr const char* kContexts =
      "access-token: first\nauth-contexts:\n  work: second\n  lab: third\n";
  fixture_.files["/home/.some/config.yaml"] = std::string(kContexts) + "context: default\n";
  EXPECT_EQ(found()->value, "first");
  fixture_.files["/home/.some/config.yaml"] = std::string(kContexts) + "context: work\n";
  EXPECT_EQ(found()->value, "second");
  EXPECT_EQ(found()->origin, "~/.some/config.yaml (auth-contexts/work)");
  fixture_.variables["SOME_CONTEXT"] = "lab";
  EXPECT_EQ(found()->value, "third");
  fixture_.variables["SOME_CONTEXT"] = "gone";
  ASSERT_FALSE(found());
  EXPECT_THAT(found().error().message, HasSubstr("config.yaml (auth-contexts/gone)"));
  fixture_.variables["SOME_CONTEXT"] = "default";
  fixture_.variables["SOME_FILE"] = "/other.yaml";
  fixture_.files["/other.yaml"] = "access-token: fourth\n";
  EXPECT_EQ(found()->value, "fourth");
  EXPECT_EQ(found()->origin, "$SOME_FILE");
}

TEST_F(SecretsTest, AToolMayHaveAVariableForItsDirectory) {
  constexpr std::array<SecretFile, 1> kOwnHome = {{{.path = ".some/credentials",
                                                    .format = SecretFormat::ini,
                                                    .key = "default/key",
                                                    .profile = {.variable = "SOME_PROFILE",
                                                                .path = ".some/config.yaml",
                                                                .format = SecretFormat::yaml,
                                                                .key = "profile",
                                                                .secret = "{}/key",
                                                                .home = "SOME_HOME"},
                                                    .home = "SOME_HOME"}}};
  SecretSheet sheet = kSheet;
  sheet.files = kOwnHome;
  const auto found = [&] { return find_secret(fixture_.world, spec_, sheet); };
  fixture_.files["/home/.some/credentials"] = "[default]\nkey = old\n";
  fixture_.files["/elsewhere/credentials"] = "[default]\nkey = one\n[work]\nkey = two\n";
  EXPECT_EQ(found()->value, "old");
  EXPECT_TRUE(found()->in_file);
  fixture_.variables["SOME_HOME"] = "/elsewhere";
  EXPECT_EQ(found()->value, "one");
  EXPECT_EQ(found()->origin, "$SOME_HOME/credentials");
  fixture_.files["/elsewhere/config.yaml"] = "profile: work\n";
  EXPECT_EQ(found()->value, "two");
  fixture_.variables["SOME_TOKEN"] = "three";
  EXPECT_FALSE(found()->in_file);
}

TEST_F(SecretsTest, WhereThereIsNoneAllPlacesAreNamed) {
  const auto none = find();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::denied);
  EXPECT_EQ(none.error().message,
            "Some Cloud: no token found in the setting token, $SOME_TOKEN, "
            "$SOME_OTHER_TOKEN, ~/.config/some/config.yaml, ~/.some_key");
  EXPECT_EQ(none.error().hint, "make one in its console");
}

TEST_F(SecretsTest, WhatCouldEndAHeaderIsNoKeyAndIsNotShown) {
  for (const char* bad : {"two words", "line\r\nX-Evil: 1", "caf\xc3\xa9"}) {
    spec_.settings["token"] = bad;
    const auto refused = find();
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().kind, ErrorKind::denied);
    EXPECT_THAT(refused.error().message, Not(HasSubstr(bad)));
  }
}

TEST_F(SecretsTest, AFileThatOthersMayHaveWrittenIsRefused) {
  fixture_.files["/home/.some_key"] = "theirs";
  fixture_.unsafe.insert("/home/.some_key");
  const auto refused = find();
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("belongs to another user"));
}

TEST(SecretFormats, AreReadAtAKey) {
  const auto read = [](const char* text, SecretFormat format, const char* key) {
    return read_secret(text, format, key).value_or("none");
  };
  constexpr const char* kYaml =
      "# doctl\naccess-token: \"dop 1\"\nauth-contexts:\n  work: dop_w\n  home: 'dop_h'\n"
      "context: work\n";
  EXPECT_EQ(read(kYaml, SecretFormat::yaml, "access-token"), "dop 1");
  EXPECT_EQ(read(kYaml, SecretFormat::yaml, "auth-contexts/home"), "dop_h");
  EXPECT_EQ(read(kYaml, SecretFormat::yaml, "context"), "work");
  EXPECT_EQ(read(kYaml, SecretFormat::yaml, "work"), "none");
  constexpr const char* kIni = "top = 0\n[default]\nverda_client_id = a=b\n; x = y\n[other]\nx=1\n";
  EXPECT_EQ(read(kIni, SecretFormat::ini, "default/verda_client_id"), "a=b");
  EXPECT_EQ(read(kIni, SecretFormat::ini, "other/x"), "1");
  EXPECT_EQ(read(kIni, SecretFormat::ini, "top"), "0");
  EXPECT_EQ(read(kIni, SecretFormat::ini, "default/x"), "none");
  EXPECT_EQ(read("[default]\napi_key = \"k\"\n", SecretFormat::toml, "default/api_key"), "k");
  EXPECT_EQ(read("apikey = 'k'\n", SecretFormat::toml, "apikey"), "k");
  EXPECT_EQ(read("apikey = 7\n", SecretFormat::toml, "apikey"), "none");
  EXPECT_EQ(read("not toml [", SecretFormat::toml, "apikey"), "none");
  EXPECT_EQ(read(R"({"client_id":"c"})", SecretFormat::json, "client_id"), "c");
  EXPECT_EQ(read("{", SecretFormat::json, "client_id"), "none");
  EXPECT_EQ(read(" k \n", SecretFormat::plain, ""), "k");
  EXPECT_EQ(read("\n", SecretFormat::plain, ""), "none");
  for (const SecretFormat format : {SecretFormat::ini, SecretFormat::yaml}) {
    for (const char* text : {"", "\n", "[", "[]", "=", ":", " : ", "[a\nb", "\0"}) {
      EXPECT_EQ(read(text, format, "b"), "none") << text;
    }
  }
}

}  // namespace
}  // namespace skyward::provider
