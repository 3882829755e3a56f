#include "skyward/provider/local/local.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "skyward/io/ignored_children_fixture.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/spec/accelerator_script.h"

namespace skyward::provider {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Duration kNodeTimeout = std::chrono::seconds(60);

Result<io::CommandResult> run_program(std::vector<std::string> command) {
  io::SpawnOptions options;
  options.command = std::move(command);
  return io::run_command(options, kNodeTimeout);
}

class Local : public testing::Test {
 protected:
  Local() : root_(testing::TempDir() + "skyward-" + io::random_hex(8)) {
    EXPECT_TRUE(io::make_private_directory(root_));
    std::ofstream(root_ + "/agent") << "#!/bin/sh\n";
    fs::permissions(root_ + "/agent", fs::perms::owner_all);
    variables_["PATH"] = io::environment_variable("PATH").value_or("/usr/bin:/bin");
    variables_["HOME"] = root_;
  }
  ~Local() override { EXPECT_TRUE(io::remove_tree(root_)); }

  std::unique_ptr<Provider> make(std::map<std::string, std::string> settings = {}) {
    return make_local({.name = "local", .settings = std::move(settings)},
                      {.state_root = root_ + "/state",
                       .environment_root = root_ + "/cache/environments",
                       .variable = [this](const char* name) -> std::optional<std::string> {
                         const auto found = variables_.find(name);
                         if (found == variables_.end()) return std::nullopt;
                         return found->second;
                       }});
  }

  PoolSpec spec() const {
    PoolSpec made;
    made.image.python = "auto";
    made.runtime.command = {"{python}"};
    made.runtime.python = "/opt/python/bin/python3";
    made.runtime.environment = {{"SKYWARD_CLIENT_PYTHON", "3.11"}};
    made.agent_path = root_ + "/agent";
    return made;
  }

  static Cluster prepared(Provider& provider, const PoolSpec& spec) {
    const auto offers = provider.offers(spec, kNever);
    EXPECT_TRUE(offers);
    const auto cluster = provider.prepare(spec, offers->at(0), kNever);
    EXPECT_TRUE(cluster) << cluster.error().message;
    return *cluster;
  }

  static std::string detail(const Cluster& cluster, std::string_view key) {
    for (const auto& [name, value] : cluster.details) {
      if (name == key) return value;
    }
    return "";
  }

  const std::string root_;
  std::map<std::string, std::string> variables_;
};

TEST_F(Local, OffersThisMachineForNothing) {
  const auto offers = make()->offers(spec(), kNever);
  ASSERT_TRUE(offers);
  ASSERT_EQ(offers->size(), 1u);
  EXPECT_EQ(offers->at(0).instance_type, "local");
  EXPECT_EQ(offers->at(0).region, "localhost");
  EXPECT_EQ(offers->at(0).price_on_demand, 0.0);
  EXPECT_GE(offers->at(0).cpus, 1);
  EXPECT_GT(offers->at(0).memory_gb, 0.0);
}

TEST_F(Local, APoolsLifeLeavesNothingBehind) {
  const auto provider = make();
  const Cluster cluster = prepared(*provider, spec());
  EXPECT_THAT(cluster.id, testing::MatchesRegex("local-[0-9a-f]{8}"));
  const std::string directory = detail(cluster, "directory");
  EXPECT_EQ(directory, root_ + "/state/" + cluster.id);
  EXPECT_EQ(fs::status(directory).permissions(), fs::perms::owner_all);
  EXPECT_GE(cluster.head_port, 1024);

  const auto instances = provider->provision(cluster, 2, 0, kNever);
  ASSERT_TRUE(instances) << instances.error().message;
  ASSERT_EQ(instances->size(), 2u);
  EXPECT_EQ(instances->at(0).id, cluster.id + "-0");
  EXPECT_EQ(instances->at(1).id, cluster.id + "-1");
  EXPECT_EQ(instances->at(1).private_ip, "127.0.0.1");
  EXPECT_FALSE(instances->at(1).spot);

  const Connection connection = provider->connection(cluster, instances->at(1));
  EXPECT_THAT(connection.command, ElementsAre(root_ + "/agent", "run"));
  EXPECT_EQ(connection.directory, directory + "/" + cluster.id + "-1");
  EXPECT_TRUE(io::is_directory(connection.directory));

  ASSERT_TRUE(provider->terminate(cluster, {cluster.id + "-0", "unknown"}, kNever));
  EXPECT_FALSE(provider->get_instance(cluster, cluster.id + "-0", kNever)->has_value());
  ASSERT_TRUE(provider->get_instance(cluster, cluster.id + "-1", kNever)->has_value());

  // The instance that takes an ended one's place has a name of its own.
  const auto replacement = provider->provision(cluster, 1, 0, kNever);
  ASSERT_TRUE(replacement);
  EXPECT_EQ(replacement->at(0).id, cluster.id + "-0-r1");

  ASSERT_TRUE(provider->teardown(cluster, kNever));
  EXPECT_TRUE(io::list_directory(root_ + "/state").empty());
  EXPECT_TRUE(provider->teardown(cluster, kNever)) << "twice does no harm";
}

TEST_F(Local, RemovesOnlyWhatIsItsOwn) {
  const auto provider = make();
  const Cluster cluster = prepared(*provider, spec());
  std::ofstream(root_ + "/precious") << "x";
  fs::create_directory(root_ + "/state/" + cluster.id + "x");

  ASSERT_TRUE(provider->terminate(
      cluster, {"../../precious", cluster.id + "-/../../../precious", "", ".", cluster.id},
      kNever));
  Cluster forged = cluster;
  forged.details = {{"directory", root_}};
  EXPECT_EQ(provider->teardown(forged, kNever).error().kind, ErrorKind::invalid);
  forged = {.id = "..", .details = {{"directory", root_ + "/state/.."}}};
  EXPECT_EQ(provider->teardown(forged, kNever).error().kind, ErrorKind::invalid);
  EXPECT_TRUE(fs::exists(root_ + "/precious"));
  EXPECT_TRUE(fs::exists(root_ + "/state/" + cluster.id));

  // A node that a task replaced by a link out of the pool.
  const auto instances = provider->provision(cluster, 1, 0, kNever);
  ASSERT_TRUE(instances);
  const std::string node = provider->connection(cluster, instances->at(0)).directory;
  fs::remove(node);
  fs::create_directory_symlink(root_, node);
  ASSERT_TRUE(provider->terminate(cluster, {instances->at(0).id}, kNever));
  EXPECT_FALSE(fs::exists(fs::symlink_status(node)));
  EXPECT_TRUE(fs::exists(root_ + "/precious"));
}

TEST_F(Local, CleansUpAfterADriverThatDiedAndNoOther) {
  auto dead = make();
  const Cluster abandoned = prepared(*dead, spec());
  ASSERT_TRUE(dead->provision(abandoned, 1, 0, kNever));
  const auto alive = make();
  const Cluster kept = prepared(*alive, spec());
  EXPECT_TRUE(io::is_directory(detail(abandoned, "directory")));
  fs::remove(detail(kept, "directory") + "/lock");  // it was old, and lay in /tmp

  dead.reset();  // its lock goes, as at the death of a process
  const auto next = make();
  const Cluster cluster = prepared(*next, spec());
  EXPECT_FALSE(io::is_directory(detail(abandoned, "directory")));
  EXPECT_TRUE(io::is_directory(detail(kept, "directory")));
  EXPECT_TRUE(io::is_directory(detail(cluster, "directory")));
}

TEST_F(Local, RefusesAStateDirectoryThatOthersCanWrite) {
  fs::create_directory(root_ + "/state");
  fs::permissions(root_ + "/state", fs::perms::all);
  const auto provider = make();
  const auto cluster = provider->prepare(spec(), Offer{}, kNever);
  ASSERT_FALSE(cluster);
  EXPECT_EQ(cluster.error().kind, ErrorKind::denied);
}

TEST_F(Local, CheckRefusesAnotherPython) {
  PoolSpec other = spec();
  for (const char* python : {"auto", "", "3.11", "3.11.4"}) {
    other.image.python = python;
    // A patch release needs an environment, and that needs uv: any program will do for the check.
    EXPECT_TRUE(make({{"uv", root_ + "/agent"}})->check(other)) << python;
  }
  other.image.python = "3.12";
  const Status refused = make()->check(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr("Image(python=\"3.12\")"));
  EXPECT_THAT(refused.error().message, HasSubstr("Python 3.11"));
  EXPECT_THAT(refused.error().hint, HasSubstr("python=\"3.11\""));
}

TEST_F(Local, CheckRefusesSystemPackagesThatAreNotThere) {
  PoolSpec with = spec();
  with.image.apt = {"no-such-package-1", "no-such-package-2=1.0"};
  const Status refused = make()->check(with);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().message, HasSubstr(": no-such-package-1 no-such-package-2=1.0"));
  EXPECT_THAT(refused.error().hint,
              HasSubstr("sudo apt-get install no-such-package-1 no-such-package-2=1.0"));

  if (const auto dpkg = run_program({"dpkg-query", "-W", "-f", "${Version}", "dpkg"})) {
    with.image.apt = {"dpkg", "dpkg=" + dpkg->out, "dpkg/stable"};
    EXPECT_TRUE(make()->check(with));
    with.image.apt = {"dpkg=0.1"};
    EXPECT_THAT(make()->check(with).error().message,
                HasSubstr(": dpkg=0.1; of dpkg, " + dpkg->out + " is installed"));
    const io::IgnoredChildren ignored;
    const Status unknown = make()->check(with);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().kind, ErrorKind::unsupported);
  }
}

// Else a package could come from the public index, whatever pip's settings say.
TEST_F(Local, SettingsOfPipThatCannotBeReadAreAnError) {
  const auto provider = make();
  PoolSpec with = spec();
  with.runtime.python = root_ + "/agent";
  with.image.pip = {"six"};
  const auto offers = provider->offers(with, kNever);
  ASSERT_TRUE(offers);
  {
    const io::IgnoredChildren ignored;
    const auto refused = provider->prepare(with, offers->at(0), kNever);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("ignores SIGCHLD"));
  }
  EXPECT_TRUE(provider->prepare(with, offers->at(0), kNever));
}

TEST_F(Local, CheckMissesUvAndTheAgentBeforeAnythingStarts) {
  PoolSpec with = spec();
  with.image.pip = {"six"};
  variables_["PATH"] = root_ + "/nowhere";
  Status refused = make()->check(with);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_THAT(refused.error().hint, HasSubstr("pip install uv"));

  with = spec();
  with.agent_path = root_ + "/none";
  refused = make()->check(with);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr(root_ + "/none"));
}

TEST_F(Local, AnEmptyImageNeedsNoScript) {
  const auto provider = make();
  PoolSpec plain = spec();
  for (const char* python : {"auto", "", "3.11"}) {
    plain.image.python = python;
    const Cluster cluster = prepared(*provider, plain);
    const auto instances = provider->provision(cluster, 1, 0, kNever);
    ASSERT_TRUE(instances);
    const Bootstrap bootstrap = provider->bootstrap(cluster, instances->at(0));
    EXPECT_EQ(bootstrap.script, "");
    EXPECT_EQ(bootstrap.python, "/opt/python/bin/python3");
    EXPECT_EQ(bootstrap.directory, detail(cluster, "directory") + "/" + cluster.id + "-0");
  }
  // C++ workers: the Python version means nothing.
  plain.runtime.python.clear();
  plain.runtime.environment.clear();
  plain.image.python = "3.13";
  const Cluster cluster = prepared(*provider, plain);
  EXPECT_EQ(provider->bootstrap(cluster, Instance{.id = cluster.id + "-0"}).script, "");
}

TEST_F(Local, OtherIndexesMakeAnotherEnvironment) {
  const auto python = [&](const PoolSpec& pool) {
    const auto provider = make();
    const Cluster cluster = prepared(*provider, pool);
    const auto instances = provider->provision(cluster, 1, 0, kNever);
    return provider->bootstrap(cluster, instances->at(0)).python;
  };
  PoolSpec wanted = spec();
  wanted.image.pip = {"torch"};
  const std::string before = python(wanted);
  for (const char* name : {"UV_EXTRA_INDEX_URL", "UV_TORCH_BACKEND", "PIP_INDEX_URL"}) {
    variables_[name] = "cpu";
    EXPECT_NE(python(wanted), before) << name;
    variables_.erase(name);
  }
  EXPECT_EQ(python(wanted), before);
  wanted.image.pip.clear();
  const std::string bare = python(wanted);
  variables_["UV_EXTRA_INDEX_URL"] = "https://host/cpu";
  EXPECT_EQ(python(wanted), bare);
}

// `skyward run --python 3.12`: nothing is pickled.
TEST_F(Local, CommandsRunWithAnyPython) {
  PoolSpec other = spec();
  other.image.python = "3.12";
  other.runtime.environment.clear();
  const auto provider = make({{"uv", root_ + "/agent"}});
  EXPECT_TRUE(provider->check(other));
  const Cluster cluster = prepared(*provider, other);
  const auto instances = provider->provision(cluster, 1, 0, kNever);
  ASSERT_TRUE(instances);
  EXPECT_THAT(provider->bootstrap(cluster, instances->at(0)).script, HasSubstr("3.12"));
}

// The script run for real. Packages come from a folder made here: nothing leaves this machine.
TEST_F(Local, GpusAreGivenToTheNodesOneByOne) {
  fs::create_directory(root_ + "/bin");
  std::ofstream(root_ + "/bin/nvidia-smi")
      << "#!/bin/sh\necho '0, Tesla T4, 15360, GPU-1, [N/A], 0'\n"
         "echo '1, Tesla T4, 15360, GPU-2, [N/A], 0'\n";
  fs::permissions(root_ + "/bin/nvidia-smi", fs::perms::owner_all);
  PoolSpec wanted = spec();
  wanted.nodes = 2;
  wanted.accelerator = Accelerator{.name = "T4"};
  const auto provider = make();
  EXPECT_THAT(provider->check(wanted).error().message, HasSubstr("which has none"));

  variables_["PATH"] = root_ + "/bin:" + variables_["PATH"];
  ASSERT_TRUE(provider->check(wanted));
  const Cluster cluster = prepared(*provider, wanted);
  const auto instances = provider->provision(cluster, 2, 0, kNever);
  ASSERT_TRUE(instances);
  for (const int node : {0, 1}) {
    const auto bootstrap =
        provider->bootstrap(cluster, instances->at(static_cast<std::size_t>(node)));
    EXPECT_THAT(bootstrap.environment,
                testing::Contains(testing::Pair("SKYWARD_GPUS", std::to_string(node))));
  }
  const auto again = provider->provision(cluster, 1, 1, kNever);
  EXPECT_THAT(provider->bootstrap(cluster, again->front()).environment,
              testing::Contains(testing::Pair("SKYWARD_GPUS", "1")));
  EXPECT_TRUE(provider->teardown(cluster, kNever));

  wanted.nodes = 3;
  EXPECT_THAT(provider->check(wanted).error().message, HasSubstr("which has 2 T4"));
}

TEST_F(Local, WhatThisMachineDoesNotHaveIsRefused) {
  const auto provider = make();
  PoolSpec wanted = spec();
  wanted.cpus = 100000;
  EXPECT_THAT(provider->check(wanted).error().message, HasSubstr("cpu=100000"));
  wanted = spec();
  wanted.memory_mb = std::int64_t{1} << 40;
  EXPECT_THAT(provider->check(wanted).error().message, HasSubstr("GB may be used here"));
  wanted = spec();
  wanted.machine = "p5.48xlarge";
  EXPECT_THAT(provider->check(wanted).error().message, HasSubstr("p5.48xlarge"));
  wanted = spec();
  wanted.nodes = 10000;
  wanted.concurrency = 1000;
  EXPECT_THAT(provider->check(wanted).error().message, HasSubstr("means 10000000 processes"));
  wanted = spec();
  wanted.architecture = "x86_64";
  const bool is_x86 = provider->check(wanted).has_value();
  wanted.architecture = "arm64";
  EXPECT_NE(provider->check(wanted).has_value(), is_x86);
  wanted = spec();
  wanted.volumes = {{.mount_path = "/data", .bucket = "abc"}};
  EXPECT_THAT(provider->check(wanted).error().message, HasSubstr("/data"));
  wanted = spec();
  wanted.cpus = 1;
  wanted.memory_mb = 1;
  wanted.machine = "local";
  EXPECT_TRUE(provider->check(wanted));
}

class LocalEnvironment : public Local {
 protected:
  void SetUp() override {
    const auto uv = run_program({"uv", "--version"});
    if (!uv || uv->status.code != 0) GTEST_SKIP() << "uv is not on PATH";
    const auto python =
        run_program({"python3", "-c",
                     "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2])"});
    if (!python || python->status.code != 0) GTEST_SKIP() << "python3 is not on PATH";
    std::istringstream(python->out) >> python_ >> minor_;

    fs::create_directory(root_ + "/wheels");
    fs::create_directory(root_ + "/index");
    make_wheel("skyward_test_package", "4.5");
    variables_["UV_FIND_LINKS"] = root_ + "/wheels";
  }

  void make_wheel(const std::string& name, const std::string& version) {
    constexpr const char* kMake = R"python(
import sys, zipfile
folder, name, version = sys.argv[1:]
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    info = f"{name}-{version}.dist-info"
    wheel.writestr(f"{name}.py", f"version = {version!r}\n")
    facts = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    wheel.writestr(f"{info}/METADATA", facts)
    kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    wheel.writestr(f"{info}/WHEEL", kind)
    wheel.writestr(f"{info}/RECORD", "")
)python";
    const auto made = run_program({python_, "-c", kMake, root_ + "/wheels", name, version});
    ASSERT_TRUE(made && made->status.code == 0) << made->err;
  }

  PoolSpec spec_with(std::vector<std::string> pip) const {
    PoolSpec made = spec();
    made.runtime.python = python_;
    made.runtime.environment = {{"SKYWARD_CLIENT_PYTHON", minor_}};
    made.image.pip = std::move(pip);
    return made;
  }

  struct Run {
    int code = 0;
    std::string steps;
    std::string err;
    Bootstrap bootstrap;
  };
  // Opens a pool far enough to have its script, and runs it as an agent does.
  Run run(const PoolSpec& spec, const std::vector<std::pair<std::string, std::string>>& more = {},
          const std::vector<std::string>& without = {}) {
    Run result;
    const auto provider = make();
    const Status checked = provider->check(spec);
    EXPECT_TRUE(checked) << checked.error().message;
    const Cluster cluster = prepared(*provider, spec);
    const auto instances = provider->provision(cluster, 1, 0, kNever);
    result.bootstrap = provider->bootstrap(cluster, instances->at(0));

    std::ofstream(root_ + "/script") << result.bootstrap.script;
    io::SpawnOptions options;
    options.command = {"bash", "-c", "exec bash \"$0/script\" 3>\"$0/steps\"", root_};
    options.directory = result.bootstrap.directory;
    options.environment = {{"UV_OFFLINE", "1"},
                           {"UV_DEFAULT_INDEX", "file://" + root_ + "/index"},
                           {"UV_FIND_LINKS", root_ + "/wheels"},
                           {"UV_CACHE_DIR", root_ + "/uv-cache"}};
    options.unset = {"UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_INDEX"};
    for (const auto& pair : result.bootstrap.environment) {
      // The test's own index wins over whatever this machine's pip is set to.
      if (!pair.first.starts_with("UV_")) options.environment.push_back(pair);
    }
    options.environment.insert(options.environment.end(), more.begin(), more.end());
    std::erase_if(options.environment, [&](const auto& pair) {
      return std::ranges::find(without, pair.first) != without.end();
    });
    const auto ran = io::run_command(options, kNodeTimeout);
    EXPECT_TRUE(ran) << ran.error().message;
    result.code = ran->status.code;
    result.err = ran->err;
    std::ostringstream steps;
    steps << std::ifstream(root_ + "/steps").rdbuf();
    result.steps = steps.str();
    EXPECT_TRUE(provider->teardown(cluster, kNever));
    return result;
  }

  std::string evaluate(const std::string& python, const std::string& code) {
    const auto ran = run_program({python, "-c", code});
    EXPECT_TRUE(ran && ran->status.code == 0) << ran->err;
    return ran->out;
  }

  std::string python_;
  std::string minor_;
};

TEST_F(LocalEnvironment, IsBuiltOnceAndReused) {
  const PoolSpec wanted = spec_with({"skyward-test-package>=4"});
  const Run first = run(wanted);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.steps, "uv\napt\ndeps\nskyward\n");
  EXPECT_EQ(evaluate(first.bootstrap.python,
                     "import skyward_test_package as p, sys;"
                     "print(p.version, '%d.%d' % sys.version_info[:2])"),
            "4.5 " + minor_ + "\n");

  // A broken uv and no packages at all: nothing of them is needed any more.
  ASSERT_TRUE(io::remove_tree(root_ + "/wheels"));
  const Run second = run(wanted, {{"PATH", "/usr/bin:/bin"}});
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.steps, first.steps);
  EXPECT_EQ(second.bootstrap.python, first.bootstrap.python);
}

// The folder builds itself: a wheel of its one module, without any package from elsewhere.
constexpr const char* kBackend = R"python(
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "skyward_test_folder-1-py3-none-any.whl"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("skyward_test_folder.py")
        wheel.writestr("skyward_test_flag.py", f"flag = {os.environ.get('FLAG')!r}\n")
        info = "skyward_test_folder-1.dist-info"
        facts = "Metadata-Version: 2.1\nName: skyward-test-folder\nVersion: 1\n"
        wheel.writestr(f"{info}/METADATA", facts)
        kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", kind)
        wheel.writestr(f"{info}/RECORD", "")
    return name
)python";

std::string make_folder(const std::string& folder) {
  fs::create_directories(folder);
  std::ofstream(folder + "/backend.py") << kBackend;
  std::ofstream(folder + "/pyproject.toml")
      << "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";
  return folder;
}

TEST_F(LocalEnvironment, PackagesAreBuiltWithTheImagesVariables) {
  const std::string folder = make_folder(root_ + "/folder");
  std::ofstream(folder + "/skyward_test_folder.py") << "";
  PoolSpec wanted = spec_with({"skyward-test-folder @ file://" + folder});
  wanted.env = {{"FLAG", "of the tasks"}};
  for (const std::string flag : {"one", "two"}) {
    wanted.image.env = {{"FLAG", flag}};
    const Run ran = run(wanted, {}, {"UV_OFFLINE"});
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_EQ(evaluate(ran.bootstrap.python, "import skyward_test_flag as f; print(f.flag)"),
              flag + "\n");
  }
}

TEST_F(LocalEnvironment, AFolderIsInstalledAgainWhenItsFilesChange) {
  const std::string folder = make_folder(root_ + "/folder");
  const PoolSpec wanted = spec_with({"skyward-test-folder @ file://" + folder});
  for (const std::string content : {"one", "three"}) {
    std::ofstream(folder + "/skyward_test_folder.py") << "content = '" << content << "'\n";
    for (int pool = 0; pool < 2; ++pool) {
      const Run ran = run(wanted, {}, {"UV_OFFLINE"});
      ASSERT_EQ(ran.code, 0) << ran.err;
      EXPECT_EQ(evaluate(ran.bootstrap.python, "import skyward_test_folder as f; print(f.content)"),
                content + "\n");
    }
  }
}

TEST_F(LocalEnvironment, ABuildThatWasCutShortIsDoneAgain) {
  const PoolSpec wanted = spec_with({"skyward-test-package"});
  const Run first = run(wanted);
  ASSERT_EQ(first.code, 0) << first.err;
  const fs::path environment = fs::path(first.bootstrap.python).parent_path().parent_path();
  ASSERT_TRUE(fs::remove(environment / "skyward-ready"));
  std::ofstream(environment / "leftover") << "x";

  const Run second = run(wanted);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_FALSE(fs::exists(environment / "leftover"));
  EXPECT_TRUE(fs::exists(environment / "skyward-ready"));
}

TEST_F(LocalEnvironment, AnInterpreterThatWentAwayIsReplaced) {
  const PoolSpec wanted = spec_with({"skyward-test-package"});
  const Run first = run(wanted);
  ASSERT_EQ(first.code, 0) << first.err;
  fs::remove(first.bootstrap.python);
  fs::create_symlink("/nowhere/python", first.bootstrap.python);
  const Run second = run(wanted);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(evaluate(second.bootstrap.python, "print(1)"), "1\n");
}

TEST_F(LocalEnvironment, APackageThatDoesNotExistFailsAndLeavesNoEnvironment) {
  const PoolSpec wanted = spec_with({"skyward-test-package-that-is-not-there"});
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Run failed = run(wanted);
    EXPECT_EQ(failed.code, 1);
    EXPECT_EQ(failed.steps, "uv\napt\n");
    EXPECT_THAT(failed.err, HasSubstr("skyward-test-package-that-is-not-there"));
    EXPECT_THAT(failed.err, HasSubstr("skyward: could not install the image's packages"));
    const fs::path environment = fs::path(failed.bootstrap.python).parent_path().parent_path();
    EXPECT_FALSE(fs::exists(environment / "skyward-ready"));
  }
}

TEST_F(LocalEnvironment, FilesAboveTheNodesDirectoryDoNotSteerUv) {
  std::ofstream(root_ + "/uv.toml") << "this is no TOML";
  const Run ran = run(spec_with({"skyward-test-package"}));
  EXPECT_EQ(ran.code, 0) << ran.err;
}

TEST_F(LocalEnvironment, AUvThatWentAwayIsNamed) {
  if (fs::exists("/usr/bin/uv") || fs::exists("/bin/uv")) GTEST_SKIP() << "uv is a system program";
  const PoolSpec wanted = spec_with({"skyward-test-package"});
  const Run failed = run(wanted, {{"PATH", "/usr/bin:/bin"}});
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.steps, "");
  EXPECT_THAT(failed.err, HasSubstr("the program 'uv' was not found"));
}

TEST_F(LocalEnvironment, ShellSyntaxInAPackageNameNeverReachesAShell) {
  const std::string evil = "x; touch " + root_ + "/evil";
  EXPECT_FALSE(validate(spec_with({evil})));
  // Even unchecked it is one quoted word.
  const Run failed = run(spec_with({evil, "$(touch " + root_ + "/evil)"}));
  EXPECT_NE(failed.code, 0);
  EXPECT_FALSE(fs::exists(root_ + "/evil"));
}

// A program in nvidia-smi's place that has one partition, and notes what else it is told to do.
TEST_F(Local, PartitionsOfOthersAreNotDestroyed) {
  fs::create_directory(root_ + "/bin");
  std::ofstream(root_ + "/bin/nvidia-smi")
      << "#!/bin/sh\ncase $* in\n*mig.mode.current*) echo Enabled ;;\n"
         "-L) echo 'GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)'\n"
         "  echo '  MIG 2g.20gb     Device  0: (UUID: MIG-a)' ;;\n"
         "*) echo \"$*\" >>\"$0.log\" ;;\nesac\n";
  fs::permissions(root_ + "/bin/nvidia-smi", fs::perms::owner_all);
  const auto split = [&](const std::string& gpus) {
    io::SpawnOptions options;
    options.command = {
        "bash", "-e", "-c",
        "exec 3>&1\n" + accelerator_script({.name = "H100", .mig = std::string("3g.40gb")})};
    options.environment = {{"PATH", root_ + "/bin:" + variables_["PATH"]}, {kGpusVariable, gpus}};
    const auto result = io::run_command(options, kNodeTimeout);
    EXPECT_TRUE(result && result->status.code == 1);
    return result ? result->err : std::string();
  };
  EXPECT_THAT(split("0"), HasSubstr("GPU 0 is split into 2g.20gb and not into 3g.40gb,3g.40gb. "));
  EXPECT_FALSE(fs::exists(root_ + "/bin/nvidia-smi.log"));
  split("");
  std::stringstream told;
  told << std::ifstream(root_ + "/bin/nvidia-smi.log").rdbuf();
  EXPECT_EQ(told.str(), "mig -i 0 -dci\nmig -i 0 -dgi\nmig -i 0 -cgi 3g.40gb,3g.40gb -C\n");
}

}  // namespace
}  // namespace skyward::provider
