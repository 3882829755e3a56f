// What is planned for a node before anything runs there: which uv, which indexes, which secrets.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "skyward/provider/local/environment.h"
#include "skyward/provider/remote_image_fixture.h"

namespace skyward::provider {
namespace {

namespace fs = std::filesystem;
using ::testing::_;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

using RemoteImagePlanTest = RemoteImageFixture;

// Where nodes share a disk with this computer.
TEST_F(RemoteImagePlanTest, AFolderThatHasChangedGetsAnotherEnvironment) {
  fs::create_directory(root_ + "/folder");
  std::ofstream(root_ + "/folder/module.py") << "one\n";
  PoolSpec wanted = spec();
  wanted.image.pip = {"mine @ file://" + root_ + "/folder"};
  const std::string before = plan(wanted).bootstrap.script;
  EXPECT_EQ(plan(wanted).bootstrap.script, before);
  EXPECT_THAT(before, HasSubstr("options+=(--refresh)"));
  std::ofstream(root_ + "/folder/module.py") << "another\n";
  EXPECT_NE(plan(wanted).bootstrap.script, before);
}

TEST(NamesImage, IsTrueForTheSettingsThatDo) {
  EXPECT_TRUE(names_image({.name = "aws", .settings = {{"ami", "ami-1"}}}));
  EXPECT_TRUE(names_image({.name = "vastai", .settings = {{"docker_image", "pytorch"}}}));
  EXPECT_TRUE(names_image({.name = "container", .settings = {{"image", "pytorch"}}}));
  EXPECT_FALSE(names_image({.name = "container", .settings = {{"image", ""}, {"host", "h"}}}));
}

TEST_F(RemoteImagePlanTest, MachinesOfAnotherArchitectureGetTheirOwnUv) {
  const std::string other = own_architecture() == "arm64" ? "x86_64" : "arm64";
  PoolSpec wanted = spec();
  wanted.runtime.uv = make_uv();
  wanted.runtime.python = root_ + "/python";
  const auto uv_for = [&](const std::string& architecture) -> std::string {
    const auto image = plan_remote_image(wanted, [](const char*) { return std::nullopt; },
                                         {.architecture = architecture});
    EXPECT_TRUE(image) << image.error().message;
    return image->uploads.size() == 2 ? image->uploads[1].path : "";
  };
  const auto python_prints = [&](const std::string& line) {
    std::ofstream(wanted.runtime.python)
        << "#!/bin/sh\n[ \"$*\" = '-m skyward.base.uv_for " << other << "' ] || exit 1\n"
        << line << "\n";
    fs::permissions(wanted.runtime.python, fs::perms::owner_all);
  };
  std::ofstream(root_ + "/other-uv") << "x";
  python_prints("echo " + root_ + "/other-uv");
  EXPECT_EQ(uv_for(other), root_ + "/other-uv");
  EXPECT_EQ(uv_for(std::string(own_architecture())), wanted.runtime.uv);
  EXPECT_EQ(uv_for(""), wanted.runtime.uv);
  wanted.architecture = other;
  EXPECT_EQ(uv_for(""), root_ + "/other-uv");
  python_prints("echo");
  EXPECT_EQ(uv_for(other), "") << "this computer's does not start there";
}

TEST_F(RemoteImagePlanTest, UvIsSentUnlessANodeHasAllThatItNeeds) {
  PoolSpec wanted = spec();
  std::ofstream(root_ + "/uv") << "#!/bin/sh\n";
  wanted.runtime.uv = root_ + "/uv";
  const RemoteImage image = plan(wanted);
  ASSERT_EQ(image.uploads.size(), 2u);
  EXPECT_EQ(image.uploads[0].unless, "");
  EXPECT_EQ(image.uploads[1].unless,
            fmt::format("{{ python{} -ISc \"import venv\" || uv --version; }}", version_));
  wanted.image.python = version_ + ".1";
  EXPECT_EQ(plan(wanted).uploads.at(1).unless, "uv --version") << "its own may be another one";
  wanted.image.pip = {"six"};
  EXPECT_EQ(plan(wanted).uploads.at(1).unless, "");
  wanted.runtime.archives.push_back(root_ + "/none");
  const auto refused = plan_remote_image(wanted, [](const char*) { return std::nullopt; });
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(root_ + "/none"));
}

TEST_F(RemoteImagePlanTest, SecretsAreInTheEnvironmentAlone) {
  PoolSpec wanted = spec();
  wanted.image.pip = {"six"};
  wanted.image.pip_extra_index_url = "https://me:canary-1@extra.example/simple";
  wanted.image.pip_indexes = {{"https://me:canary-6@own.example/simple", {"six"}}};
  wanted.image.env = {{"UV_INDEX_PRIVATE_PASSWORD", "canary-2"}, {"TOKEN", "canary-3"}};
  variables_["PIP_INDEX_URL"] = "https://me:canary-4@mirror.example/simple";
  variables_["HTTPS_PROXY"] = "http://me:canary-5@proxy.example:3128";
  const RemoteImage image = plan(wanted);
  EXPECT_THAT(image.bootstrap.script, Not(HasSubstr("canary")));
  for (const std::string& word : image.bootstrap.worker_command) {
    EXPECT_THAT(word, Not(HasSubstr("canary")));
  }
  EXPECT_THAT(image.bootstrap.environment, Contains(Pair("UV_INDEX_PRIVATE_PASSWORD", "canary-2")));
  EXPECT_THAT(image.bootstrap.environment,
              Contains(Pair("SKYWARD_INDEX_PROJECT", HasSubstr("canary-6"))));
}

TEST_F(RemoteImagePlanTest, ProxiesOfThisComputerAloneStayHere) {
  PoolSpec wanted = spec();
  wanted.image.pip = {"six"};
  wanted.runtime.python = root_ + "/python";
  const auto pip_uses = [&](const std::string& proxy) {
    std::ofstream(wanted.runtime.python) << "#!/bin/sh\necho \"global.proxy='" + proxy + "'\"\n";
    fs::permissions(wanted.runtime.python, fs::perms::owner_all);
  };
  pip_uses("");
  for (const char* proxy : {"http://127.0.0.1:3128", "LOCALHOST:3128", "http://me:p@localhost/",
                            "socks5://[::1]:1080", "127.1.2.3"}) {
    variables_ = {{"https_proxy", proxy}, {"NO_PROXY", ".example"}};
    const RemoteImage image = plan(wanted);
    EXPECT_THAT(image.bootstrap.environment, Not(Contains(Pair("https_proxy", _)))) << proxy;
    EXPECT_THAT(image.bootstrap.environment, Not(Contains(Pair("NO_PROXY", _)))) << proxy;
  }
  for (const char* proxy : {"http://127.example:3128", "http://localhost.example", "[::2]:1"}) {
    variables_ = {{"https_proxy", proxy}, {"NO_PROXY", "localhost"}};
    const RemoteImage image = plan(wanted);
    EXPECT_THAT(image.bootstrap.environment, Contains(Pair("https_proxy", proxy)));
    EXPECT_THAT(image.bootstrap.environment, Contains(Pair("NO_PROXY", "localhost")));
  }
  variables_ = {{"HTTPS_PROXY", "http://localhost:3128"}};
  wanted.env = {{"HTTPS_PROXY", "http://127.0.0.1:4000"}};
  EXPECT_THAT(plan(wanted).bootstrap.environment,
              Contains(Pair("HTTPS_PROXY", "http://127.0.0.1:4000")))
      << "of the pool's own variables";
  wanted.env.clear();
  variables_.clear();
  pip_uses("http://localhost:3128");
  EXPECT_THAT(plan(wanted).bootstrap.environment, Not(Contains(Pair("ALL_PROXY", _))));
  pip_uses("http://proxy.example:3128");
  EXPECT_THAT(plan(wanted).bootstrap.environment,
              Contains(Pair("ALL_PROXY", "http://proxy.example:3128")));
}

TEST_F(RemoteImagePlanTest, IndexesOfUvsOwnFilesGoAlong) {
  fs::create_directories(root_ + "/config/uv");
  std::ofstream(root_ + "/config/uv/uv.toml")
      << "index-url = \"https://mirror.example/simple\"\n"
         "[[index]]\nname = \"inner-1\"\nurl = \"https://inner.example/simple\"\n";
  variables_ = {{"XDG_CONFIG_HOME", root_ + "/config"},
                {"UV_INDEX", "https://first.example/simple"},
                {"UV_INDEX_INNER_1_USERNAME", "me"},
                {"UV_INDEX_INNER_1_PASSWORD", "canary"},
                {"UV_INDEX_ANOTHER_PASSWORD", "stays here"}};
  PoolSpec wanted = spec();
  wanted.image.pip = {"six"};
  const auto mirror = Pair("UV_DEFAULT_INDEX", "https://mirror.example/simple");
  const RemoteImage image = plan(wanted);
  EXPECT_THAT(image.bootstrap.environment, Contains(mirror));
  EXPECT_THAT(image.bootstrap.environment, Contains(Pair("UV_INDEX",
                                                         "https://first.example/simple "
                                                         "inner-1=https://inner.example/simple")));
  EXPECT_THAT(image.bootstrap.environment, Contains(Pair("UV_INDEX_INNER_1_USERNAME", "me")));
  EXPECT_THAT(image.bootstrap.environment, Contains(Pair("UV_INDEX_INNER_1_PASSWORD", "canary")));
  EXPECT_THAT(image.bootstrap.environment, Not(Contains(Pair(_, "stays here"))));
  EXPECT_THAT(image.bootstrap.script, Not(HasSubstr("canary")));
  variables_["UV_INDEX_URL"] = "https://own.example/simple";
  EXPECT_THAT(plan(wanted).bootstrap.environment, Not(Contains(mirror)));
  wanted.image.pip.clear();  // uv installs nothing there
  EXPECT_THAT(plan(wanted).bootstrap.environment,
              Contains(Pair("UV_INDEX", "https://first.example/simple")));
}

// It may have another variant of a package: torch for another version of CUDA.
TEST_F(RemoteImagePlanTest, OtherIndexesMakeAnotherEnvironment) {
  PoolSpec wanted = spec();
  const auto planned_with = [&](const std::string& index) {
    variables_["UV_EXTRA_INDEX_URL"] = index;
    return plan(wanted).bootstrap.script;
  };
  EXPECT_EQ(planned_with("https://host/cpu"), planned_with("https://host/cu124"));
  wanted.image.pip = {"torch"};
  EXPECT_NE(planned_with("https://host/cpu"), planned_with("https://host/cu124"));
  EXPECT_EQ(planned_with("https://me:1@host/cpu"), planned_with("https://me:2@host/cpu"));
  const std::string before = planned_with("https://host/cpu");
  std::ofstream(root_ + "/uv.toml") << "index-url = \"https://mirror.example/simple\"\n";
  variables_["UV_CONFIG_FILE"] = root_ + "/uv.toml";
  EXPECT_NE(planned_with("https://host/cpu"), before);
}

TEST_F(RemoteImagePlanTest, AFileOfUvThatCannotBeReadIsRefused) {
  variables_["UV_CONFIG_FILE"] = root_ + "/uv.toml";
  std::ofstream(root_ + "/uv.toml") << "index = [\n";
  PoolSpec wanted = spec();
  wanted.image.pip = {"six"};
  const auto planned = plan_remote_image(wanted, [this](const char* name) {
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::nullopt : std::optional(found->second);
  });
  ASSERT_FALSE(planned);
  EXPECT_EQ(planned.error().kind, ErrorKind::invalid);
  EXPECT_THAT(planned.error().message, HasSubstr("the settings of uv in " + root_ + "/uv.toml"));
}

TEST_F(RemoteImagePlanTest, PackagesOnThisComputerAreRefused) {
  const std::string wheel = root_ + "/six-1-py3-none-any.whl";
  std::ofstream(wheel) << "x";
  for (const std::string& package :
       {wheel, root_, "file://" + wheel, "six @ file://" + wheel + "#sha256=00",
        "git+file://" + root_, std::string("six[x]@./six.whl"), wheel + "[gpu]",
        "six @ file://" + wheel + " ; python_version >= '3.11'", "git+file://" + root_ + "@v1",
        "six @ git+file://" + root_ + "@v1#subdirectory=six"}) {
    const Status refused = check_packages({.pip = {"attrs", package}});
    ASSERT_FALSE(refused) << package;
    EXPECT_THAT(refused.error().message, HasSubstr("\"" + package + "\"")) << package;
  }
  EXPECT_TRUE(check_packages(
      {.pip = {"six", "six>=1; python_version > '3'", "/nowhere/six.whl",
               "six @ https://host/six.whl", "git+https://host/six", "git+ssh://git@host/six"}}));
}

// Nodes must not ask the public index for packages that come from the user's own folders.
TEST_F(RemoteImagePlanTest, WherePipMayUseNoIndexNodesUseNone) {
  const std::string python = root_ + "/python";
  const auto configure = [&](const std::string& lines) {
    std::ofstream(python) << "#!/bin/sh\ncat <<'EOF'\nglobal.no-index='true'\n" + lines + "EOF\n";
    fs::permissions(python, fs::perms::owner_all);
  };
  PoolSpec asked = spec();
  asked.runtime.python = python;
  asked.image.pip = {"our-models"};
  const auto none = [](const char*) { return std::optional<std::string>(); };
  configure("global.find-links='/srv/wheels'\n");
  const auto refused = plan_remote_image(asked, none);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("no-index"));
  configure("global.find-links='https://wheels.example/'\n");
  EXPECT_THAT(plan(asked).bootstrap.script, HasSubstr("\noptions=(--no-index)\n"));
  variables_ = {{"UV_DEFAULT_INDEX", "https://mirror.example/simple"}};
  EXPECT_THAT(plan(asked).bootstrap.script, HasSubstr("\noptions=()\n"));
}

TEST_F(RemoteImagePlanTest, WhereUvMayUseNoIndexNodesUseNone) {
  variables_["UV_CONFIG_FILE"] = root_ + "/uv.toml";
  const auto configure = [&](const std::string& text) {
    std::ofstream(root_ + "/uv.toml") << text;
  };
  PoolSpec asked = spec();
  asked.image.pip = {"our-models"};
  const auto planned = [&] {
    return plan_remote_image(asked, [this](const char* name) {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    });
  };
  configure("no-index = true\nfind-links = [\"/srv/wheels\", \"file:///srv/wheels\"]\n");
  const auto refused = planned();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("of uv forbids indexes (no-index)"));
  configure(
      "find-links = [\"/srv/wheels\", \"https://wheels.example/\"]\n[pip]\nno-index = true\n");
  variables_["UV_DEFAULT_INDEX"] = "https://mirror.example/simple";  // uv uses none all the same
  variables_["UV_FIND_LINKS"] = "/srv/more,https://more.example/";
  const auto image = planned();
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_THAT(image->bootstrap.script, HasSubstr("\noptions=(--no-index)\n"));
  EXPECT_THAT(image->bootstrap.environment,
              Contains(Pair("UV_FIND_LINKS", "https://more.example/,https://wheels.example/")));
  asked.image.env = {{"UV_NO_CONFIG", "1"}};  // the image's variables count as this program's
  EXPECT_THAT(plan(asked).bootstrap.script, HasSubstr("\noptions=()\n"));
}

TEST(IndexEnvironment, TakesIndexesAndProxiesAndLeavesFilesHere) {
  const std::map<std::string, std::string> variables = {
      {"UV_INDEX_URL", "https://mirror.example/simple"},
      {"http_proxy", "http://proxy.example:3128"},
      {"UV_CACHE_DIR", "/srv/me/cache"}};
  const Variable variable = [&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? std::nullopt : std::optional(it->second);
  };
  const UvSettings settings =
      uv_settings({{"find-links", "/srv/me/wheels"}, {"cert", "/srv/me/ca.pem"}},
                  "https://extra.example", variable);
  const auto found = index_environment(settings, variable);
  EXPECT_THAT(found, Contains(Pair("UV_INDEX_URL", "https://mirror.example/simple")));
  EXPECT_THAT(found, Contains(Pair("http_proxy", "http://proxy.example:3128")));
  EXPECT_THAT(found, Contains(Pair("UV_EXTRA_INDEX_URL", "https://extra.example")));
  for (const auto& [name, value] : found) {
    EXPECT_THAT(value, Not(HasSubstr("/srv/me"))) << name;
  }
}

}  // namespace
}  // namespace skyward::provider
