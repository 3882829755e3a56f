#include "skyward/spec/pip_index.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace skyward {
namespace {

Image with_index(std::vector<std::string> pip, std::vector<std::string> packages) {
  return {.pip = std::move(pip), .pip_indexes = {{"https://host/simple", std::move(packages)}}};
}

TEST(PipIndex, NamesItsPackagesAsPipDoes) {
  EXPECT_TRUE(validate(with_index({"torch"}, {"torch"})));
  EXPECT_TRUE(validate(with_index({"My.Own_pkg[x]>=1 ; python_version>'3'"}, {"my-own.pkg"})));
  EXPECT_TRUE(validate(with_index({"torch==2", "torch<3"}, {"torch", "torch"})));
}

TEST(PipIndex, RefusesWhatPinsNothing) {
  const auto refusal = [](const Image& image) {
    const Status status = validate(image);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(refusal(with_index({"torch"}, {})), "PipIndex(packages=[]) names no package");
  EXPECT_EQ(refusal(with_index({"numpy"}, {"torch"})),
            "Image(pip_indexes=…) lists \"torch\", but Image(pip=…) does not");
  EXPECT_EQ(refusal(with_index({"torch @ https://host/torch.whl"}, {"torch"})),
            "Image(pip_indexes=…) lists \"torch\", but Image(pip=…) does not");
  EXPECT_EQ(refusal(with_index({"https://host/torch.whl"}, {"https"})),
            "Image(pip_indexes=…) lists \"https\", but Image(pip=…) does not");
  for (const char* name : {"", "torch==2", "torch[x]", "-torch", "torch\n", "a b"}) {
    EXPECT_FALSE(validate(with_index({"torch"}, {name}))) << name;
  }
  Image two = with_index({"torch"}, {"torch"});
  two.pip_indexes.push_back({"https://other/simple", {"Torch"}});
  EXPECT_EQ(refusal(two), "Image(pip_indexes=…): two indexes list \"Torch\"");
}

TEST(PipIndex, ARefusedAddressIsNotShown) {
  Image image = with_index({"torch"}, {"torch"});
  image.pip_indexes[0].url = "https://user:CANARY @host";
  const Status status = validate(image);
  ASSERT_FALSE(status);
  EXPECT_FALSE(status.error().message.contains("CANARY")) << status.error().message;
}

TEST(PipIndex, TheProjectPinsRequirementsAsTheyStand) {
  EXPECT_EQ(index_project(Image{.pip = {"torch"}}), "");
  Image image = with_index({"numpy", "My_pkg>=1; sys_platform == \"linux\""}, {"my-pkg"});
  EXPECT_EQ(index_project(image),
            "[project]\nname = \"image\"\nversion = \"0\"\ndependencies = [\n"
            "  \"My_pkg>=1; sys_platform == \\\"linux\\\"\",\n]\n\n"
            "[tool.uv.sources]\n\"my-pkg\" = { index = \"index-0\" }\n\n"
            "[[tool.uv.index]]\nname = \"index-0\"\nurl = \"https://host/simple\"\n"
            "explicit = true\n");
}

TEST(PipIndex, IsPartOfTheHashWhateverTheOrder) {
  Image image = with_index({"a", "b"}, {"a", "b"});
  const std::string hash = image.content_hash();
  EXPECT_NE(hash, (Image{.pip = {"a", "b"}}).content_hash());
  image.pip_indexes[0].packages = {"b", "a"};
  EXPECT_EQ(image.content_hash(), hash);
  image.pip_indexes = {{"https://1", {"a"}}, {"https://2", {"b"}}};
  const std::string two = image.content_hash();
  std::swap(image.pip_indexes[0], image.pip_indexes[1]);
  EXPECT_EQ(image.content_hash(), two);
}

TEST(Logins, AreTakenOutOfAllAddresses) {
  const auto same = [](const char* text) { EXPECT_EQ(without_logins(text), text); };
  same("");
  same("six>=1");
  same("a@b");
  same("git+ssh://git@host/six");
  same("https://host/a@b://");
  EXPECT_EQ(without_logins("a=https://me:p%40w@h:1/x https://t@i/y@1 \"ssh://n:@k\""),
            "a=https://h:1/x https://i/y@1 \"ssh://k\"");
}

}  // namespace
}  // namespace skyward
