#include "skyward/provider/uv_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "skyward/io/machine.h"

namespace skyward::provider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::map<std::string, std::string> parsed(std::string_view text) {
  auto found = parse_uv_config(text, "uv.toml");
  EXPECT_TRUE(found) << found.error().message;
  return found.value_or(UvConfig{}).variables;
}

TEST(UvConfig, SaysWhatTheFileSays) {
  EXPECT_THAT(parsed(""), IsEmpty());
  EXPECT_THAT(parsed("cache-dir = \"/srv\"\n"), IsEmpty());
  EXPECT_THAT(parsed("extra-index-url = [\"https://a\", \"https://b\"]\n"
                     "index-strategy = \"unsafe-first-match\"\n"
                     "allow-insecure-host = [\"h1\", \"h2\"]\n"
                     "[[index]]\nname = \"one\"\nurl = \"https://one\"\n"
                     "[[index]]\nurl = \"https://two\"\n"
                     "[[index]]\nurl = \"https://main\"\ndefault = true\n"
                     "[[index]]\nname = \"torch\"\nurl = \"https://torch\"\nexplicit = true\n"),
              ElementsAre(Pair("UV_DEFAULT_INDEX", "https://main"),
                          Pair("UV_EXTRA_INDEX_URL", "https://a https://b"),
                          Pair("UV_INDEX", "one=https://one https://two"),
                          Pair("UV_INDEX_STRATEGY", "unsafe-first-match"),
                          Pair("UV_INSECURE_HOST", "h1 h2")));
  EXPECT_THAT(parsed("index-url = \"https://a\"\nfind-links = [\"https://c\", \"/d\"]\n"
                     "[pip]\nindex-url = \"https://b\"\nfind-links = [\"https://e\"]\n"),
              ElementsAre(Pair("UV_DEFAULT_INDEX", "https://b"),
                          Pair("UV_FIND_LINKS", "https://e,https://c,/d")));
}

// What keeps uv off the public index here must do so on nodes.
TEST(UvConfig, ADefaultIndexIsKeptEvenIfItIsExplicit) {
  EXPECT_THAT(parsed("[[index]]\nname = \"own\"\nurl = \"https://own\"\ndefault = true\n"
                     "explicit = true\n"),
              ElementsAre(Pair("UV_DEFAULT_INDEX", "own=https://own")));
}

TEST(UvConfig, SaysWhetherThereIsAnIndexAtAll) {
  const auto no_index = [](std::string_view text) {
    return parse_uv_config(text, "uv.toml").value_or(UvConfig{}).no_index;
  };
  EXPECT_EQ(no_index("[pip]\n"), std::nullopt);
  EXPECT_EQ(no_index("no-index = true\n"), true);
  EXPECT_EQ(no_index("[pip]\nno-index = true\n"), true);
  EXPECT_EQ(no_index("no-index = true\n[pip]\nno-index = false\n"), false);
}

TEST(UvConfig, ErrorsNameTheFileAndTheLineAndNoPassword) {
  const auto found = parse_uv_config("\nindex-url = \"https://me:canary@host\n", "/h/uv.toml");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message,
            "the settings of uv in /h/uv.toml cannot be read: line 2 is not TOML");
}

TEST(UvConfig, FilesAreTheUsersAndThisComputers) {
  std::map<std::string, std::string> variables = {{"HOME", "/h"}};
  const auto files = [&] {
    return uv_config_files([&](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  };
  variables["XDG_CONFIG_DIRS"] = "/nowhere";
  EXPECT_THAT(files(), ElementsAre("/h/.config/uv/uv.toml", "/etc/uv/uv.toml"));
  variables["XDG_CONFIG_HOME"] = "/config";
  EXPECT_THAT(files(), ElementsAre("/config/uv/uv.toml", "/etc/uv/uv.toml"));
  const std::string root = ::testing::TempDir() + "skyward-uv-" + io::random_hex(8);
  for (const char* folder : {"/first/uv", "/second/uv"}) {
    std::filesystem::create_directories(root + folder);
    std::ofstream(root + folder + "/uv.toml") << "";
  }
  variables["XDG_CONFIG_DIRS"] = "/nowhere:" + root + "/first:" + root + "/second";
  EXPECT_THAT(files(), ElementsAre("/config/uv/uv.toml", root + "/first/uv/uv.toml"));
  std::filesystem::remove_all(root);
  variables["UV_CONFIG_FILE"] = "/my/uv.toml";
  EXPECT_THAT(files(), ElementsAre("/my/uv.toml"));
  variables["UV_NO_CONFIG"] = "1";
  EXPECT_THAT(files(), IsEmpty());
}

TEST(UvConfig, FilesAreReadTogether) {
  const std::string root = ::testing::TempDir() + "skyward-uv-" + io::random_hex(8);
  std::filesystem::create_directories(root);
  std::ofstream(root + "/user") << "extra-index-url = [\"https://a\"]\nindex-url = \"https://b\"\n";
  std::ofstream(root + "/system")
      << "extra-index-url = [\"https://c\"]\nindex-url = \"https://d\"\nno-index = true\n";
  const auto found = read_uv_config({root + "/user", root + "/system", root + "/none"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(found->variables, ElementsAre(Pair("UV_DEFAULT_INDEX", "https://b"),
                                            Pair("UV_EXTRA_INDEX_URL", "https://a https://c")));
  EXPECT_EQ(found->no_index, true);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace skyward::provider
