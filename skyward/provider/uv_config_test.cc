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

UvVariables parsed(std::string_view text) {
  auto found = parse_uv_config(text, "uv.toml");
  EXPECT_TRUE(found) << found.error().message;
  return found.value_or(UvVariables{});
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
  EXPECT_THAT(parsed("index-url = \"https://a\"\n[pip]\nindex-url = \"https://b\"\n"),
              ElementsAre(Pair("UV_DEFAULT_INDEX", "https://b")));
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
  EXPECT_THAT(files(), ElementsAre("/h/.config/uv/uv.toml", "/etc/uv/uv.toml"));
  variables["XDG_CONFIG_HOME"] = "/config";
  EXPECT_THAT(files(), ElementsAre("/config/uv/uv.toml", "/etc/uv/uv.toml"));
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
      << "extra-index-url = [\"https://c\"]\nindex-url = \"https://d\"\n";
  const auto found = read_uv_config({root + "/user", root + "/system", root + "/none"});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_THAT(*found, ElementsAre(Pair("UV_DEFAULT_INDEX", "https://b"),
                                  Pair("UV_EXTRA_INDEX_URL", "https://a https://c")));
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace skyward::provider
