#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/provider/pip_settings.h"
#include "skyward/provider/remote_image_fixture.h"
#include "skyward/spec/pip_index.h"

namespace skyward::provider {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Runs the scripts for real, in the folder that stands for a node's home.
class RemoteImageTest : public RemoteImageFixture {
 protected:
  // A folder for PATH that has no Python.
  std::string bare_path() {
    const std::string folder = root_ + "/bare";
    fs::create_directory(folder);
    for (const char* program : {"chmod", "find", "flock", "grep", "ln", "mkdir", "mktemp", "mv",
                                "readlink", "rm", "tar", "touch", "uname"}) {
      const auto place = io::find_program(program, "/usr/bin:/bin");
      EXPECT_TRUE(place) << program;
      fs::create_symlink(place.value_or(""), folder + "/" + program);
    }
    return folder;
  }

  struct Run {
    int code = -1;
    std::string steps;
    std::string err;
  };
  // As the agent does, after the uploads.
  Run run(const RemoteImage& image, const std::string& path = "/usr/local/bin:/usr/bin:/bin") {
    const std::string files = root_ + "/home/.cache/skyward/files";
    fs::create_directories(files);
    for (const Upload& upload : image.uploads) {
      fs::copy_file(upload.path, files + "/" + upload.sha256, fs::copy_options::overwrite_existing);
      fs::permissions(files + "/" + upload.sha256, fs::perms::owner_all);
    }
    std::ofstream(root_ + "/script") << image.bootstrap.script;
    io::SpawnOptions options;
    options.command = {"/bin/bash", "-c", "exec /bin/bash \"$0/script\" 3>\"$0/steps\"", root_};
    options.environment = image.bootstrap.environment;
    options.environment.insert(options.environment.end(),
                               {{"HOME", root_ + "/home"},
                                {"SKYWARD_ROOT", root_ + "/home/.cache/skyward"},
                                {"PATH", path},
                                {"UV_OFFLINE", "1"},
                                {"PIP_NO_INDEX", "1"}});
    options.unset = {"XDG_CACHE_HOME", "PYTHONPATH"};
    const auto ran = io::run_command(options, kScriptTimeout);
    EXPECT_TRUE(ran) << ran.error().message;
    if (!ran) return {};
    return {.code = ran->status.code, .steps = content(root_ + "/steps"), .err = ran->err};
  }

  // As workers know them.
  std::vector<fs::path> environments() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(root_ + "/home/.cache/skyward/environments")) {
      if (entry.is_symlink()) all.push_back(entry.path());
    }
    return all;
  }

  // Folders of environments to which no link leads.
  std::vector<fs::path> builds() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(root_ + "/home/.cache/skyward/environments")) {
      const fs::path& path = entry.path();
      if (!entry.is_symlink() && entry.is_directory() && path.extension().native().size() == 11) {
        all.push_back(path);
      }
    }
    std::erase_if(all, [&](const fs::path& build) {
      return std::ranges::any_of(environments(), [&](const fs::path& link) {
        return fs::read_symlink(link) == build.filename();
      });
    });
    return all;
  }

  const std::string path_ = io::environment_variable("PATH").value_or("/usr/bin:/bin");
};

TEST_F(RemoteImageTest, ItsFilesStayReadableWhenTheyAreRemoved) {
  const PoolSpec wanted = spec();
  const RemoteImage image = plan(wanted);
  const auto before = io::read_file(wanted.runtime.archives.at(0));
  ASSERT_TRUE(io::remove_tree(wanted.runtime.archives[0]));
  EXPECT_EQ(io::read_file(*image.uploads.at(0).file, ""), before);
}

TEST_F(RemoteImageTest, IsPreparedOnceAndAWorkerRunsInIt) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(image.uploads.size(), 1u);
  EXPECT_EQ(image.uploads[0].sha256.size(), 64u);
  const Run first = run(image, path_);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(first.steps, "uv\napt\ndeps\nskyward\n");
  const std::string archives = root_ + "/home/.cache/skyward/archives/" + image.uploads[0].sha256;
  EXPECT_EQ(output(image.bootstrap.worker_command), "it's me " + archives + "\n");

  // A second pool needs neither uv nor an interpreter on PATH, and the packed files no more.
  (void)io::remove_tree(root_ + "/home/.cache/skyward/files");
  const Run second = run({.uploads = {}, .bootstrap = image.bootstrap}, "/usr/bin:/bin");
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(second.steps, first.steps);
}

TEST_F(RemoteImageTest, AWorkerRunsInItWhateverItsHomeIs) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  for (const char* name : {"HOME", "XDG_CACHE_HOME"}) {
    EXPECT_THAT(output(image.bootstrap.worker_command, {{name, "/elsewhere"}}),
                HasSubstr("it's me"));
  }
}

TEST_F(RemoteImageTest, WhatNoPoolHasUsedForAMonthMakesRoom) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  const fs::path cache = root_ + "/home/.cache/skyward";
  const auto make = [&](const std::string& name, std::chrono::days age) {
    fs::create_directories(cache / "archives" / name / "folder");
    std::ofstream(cache / "files" / name) << "x";
    const auto time = fs::last_write_time(cache / "files" / name) - age;
    fs::last_write_time(cache / "archives" / name, time);
    fs::last_write_time(cache / "files" / name, time);
  };
  const std::string mark = io::random_hex(8);
  make("old-" + mark, std::chrono::days(32));
  make("young-" + mark, std::chrono::days(29));
  make("busy-" + mark, std::chrono::days(400));
  const fs::path used = cache / "archives" / image.uploads[0].sha256;
  fs::last_write_time(used, fs::last_write_time(used) - std::chrono::days(400));
  // Stands for a worker's: the script's own process is as good as another.
  RemoteImage beside = image;
  beside.bootstrap.environment.emplace_back("SKYWARD_SYS_PATH",
                                            cache / "archives" / ("busy-" + mark));

  const Run again = run(beside, path_);
  ASSERT_EQ(again.code, 0) << again.err;
  for (const char* kind : {"archives", "files"}) {
    EXPECT_FALSE(fs::exists(cache / kind / ("old-" + mark)));
    EXPECT_TRUE(fs::exists(cache / kind / ("young-" + mark)));
    EXPECT_TRUE(fs::exists(cache / kind / ("busy-" + mark)));
  }
  EXPECT_EQ(output(image.bootstrap.worker_command),
            fmt::format("it's me {}/archives/{}\n", cache.string(), image.uploads[0].sha256));
}

TEST_F(RemoteImageTest, AfterAWeekTheNewestTwentyAreKept) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  const fs::path cache = root_ + "/home/.cache/skyward";
  const auto now = fs::last_write_time(cache);  // just now
  // How many of forty stay when the `young` newest are of this week.
  const auto kept = [&](const std::string& kind, int young) {
    const std::string mark = io::random_hex(8);
    const auto place = [&](int i) { return cache / kind / fmt::format("{}-{}", mark, i); };
    for (int i = 0; i < 40; ++i) {
      const auto time = now - std::chrono::days(i < young ? 3 : 10) - std::chrono::minutes(i);
      fs::create_directories(place(i));
      std::ofstream(place(i) / "skyward-agent") << "x";
      fs::last_write_time(place(i) / "skyward-agent", time);
      if (kind != "agents") fs::last_write_time(place(i), time);
    }
    const Run again = run(image, path_);
    EXPECT_EQ(again.code, 0) << again.err;
    int count = 0;
    while (count < 40 && fs::exists(place(count))) ++count;
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(fs::exists(place(i)), i < count) << kind << " " << i;
      fs::remove_all(place(i));
    }
    return count;
  };
  EXPECT_EQ(kept("files", 10), 19) << "the pool's own is the twentieth";
  EXPECT_EQ(kept("archives", 10), 19);
  EXPECT_EQ(kept("agents", 10), 20);
  for (const char* kind : {"files", "archives", "agents"}) EXPECT_EQ(kept(kind, 30), 30);
}

TEST_F(RemoteImageTest, FilesAreOnTheDiskBeforeTheyAreDeclaredComplete) {
  fs::create_directory(root_ + "/bin");
  std::ofstream(root_ + "/bin/sync")
      << "#!/bin/sh\ncd \"$3\" && ls -d archives/* environments/*/* >>'" << root_ << "/synced'\n";
  fs::permissions(root_ + "/bin/sync", fs::perms::owner_all);
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, root_ + "/bin:" + path_).code, 0);
  const std::string synced = content(root_ + "/synced");
  EXPECT_THAT(synced, AllOf(HasSubstr("archives/new-"), HasSubstr("/pyvenv.cfg\n"),
                            Not(HasSubstr(image.uploads.at(0).sha256)),
                            Not(HasSubstr("/skyward-ready\n"))));
  EXPECT_TRUE(fs::exists(environments().at(0) / "skyward-ready"));
  ASSERT_EQ(run(image, root_ + "/bin:" + path_).code, 0);
  EXPECT_EQ(content(root_ + "/synced"), synced) << "nothing is new";
}

TEST_F(RemoteImageTest, AnInterruptedStartIsMadeAgain) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  for (const fs::path& made : environments()) fs::remove(made / "skyward-ready");
  EXPECT_EQ(run(image, path_).code, 0);
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
}

TEST_F(RemoteImageTest, MachinesOfTwoSystemsMayShareAHome) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  RemoteImage elsewhere = image;
  std::string& script = elsewhere.bootstrap.script;
  script.replace(script.find("/etc/os-release ]"), 15, root_ + "/release");
  script.replace(script.find(". /etc/os-release") + 2, 15, root_ + "/release");
  std::ofstream(root_ + "/release") << "ID=another\nVERSION_ID=\"9.5\"\n";
  ASSERT_EQ(run(elsewhere, path_).code, 0);
  const std::vector<fs::path> made = environments();
  ASSERT_EQ(made.size(), 2u);
  const bool is_first = made[0].string().ends_with("-another-9.5");
  const fs::path& other = made[is_first ? 0 : 1];
  EXPECT_TRUE(other.string().ends_with("-another-9.5")) << other;
  EXPECT_TRUE(fs::remove(other));
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
}

// It stays as it is: workers of the other machine import from it.
TEST_F(RemoteImageTest, AnEnvironmentWhosePythonIsOnAnotherMachineIsLeftToThat) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  const fs::path first = environments().at(0);
  const fs::path python = first / "bin/python";
  const fs::path there = fs::read_symlink(python);
  fs::remove(python);
  fs::create_symlink(root_ + "/python-of-another-machine", python);
  for (int pool = 0; pool < 2; ++pool) {
    ASSERT_EQ(run(image, path_).code, 0);
    EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
    EXPECT_EQ(environments().size(), 2u);
  }
  EXPECT_TRUE(fs::exists(first / "skyward-ready"));
  EXPECT_TRUE(fs::is_symlink(python));
  // There, it is used as before.
  fs::remove(python);
  fs::create_symlink(there, python);
  fs::remove(environments().at(environments()[0] == first ? 1 : 0));
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
}

TEST_F(RemoteImageTest, MachinesMayBuildTheSameEnvironmentAtOnce) {
  const RemoteImage image = plan(spec());
  // Another machine has finished in the meantime, where file systems lock nothing between them.
  RemoteImage slower = image;
  std::string& script = slower.bootstrap.script;
  const std::size_t built = script.find("    ln -s -- \"${new##*/}\"");
  ASSERT_NE(built, std::string::npos);
  script.insert(built,
                "mkdir -p $root/environments/winner/bin\ntouch $root/environments/winner/mine\n"
                "ln -s winner \"$environment\"\n");
  ASSERT_EQ(run(slower, path_).code, 0);
  EXPECT_TRUE(fs::exists(root_ + "/home/.cache/skyward/environments/winner/mine"));
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
}

TEST_F(RemoteImageTest, WhatAnotherMachineHasFinishedMeanwhileIsUsed) {
  const RemoteImage image = plan(spec());
  RemoteImage slower = image;
  std::string& script = slower.bootstrap.script;
  const std::size_t built = script.find("  # Another machine may have been faster");
  ASSERT_NE(built, std::string::npos);
  script.insert(
      built,
      "mkdir -p $root/environments/winner/bin\ntouch $root/environments/winner/skyward-ready\n"
      "ln -s \"$(readlink -f \"$new/bin/python\")\" $root/environments/winner/bin/python\n"
      "ln -s winner \"$environment\"\n");
  ASSERT_EQ(run(slower, path_).code, 0);
  ASSERT_EQ(environments().size(), 1u);
  EXPECT_EQ(fs::read_symlink(environments()[0]), "winner");
  EXPECT_THAT(builds(), IsEmpty());
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
}

TEST_F(RemoteImageTest, ABuildThatFailsLeavesNothing) {
  PoolSpec wanted = spec();
  wanted.image.pip = {"six"};
  wanted.runtime.uv = make_uv("exit 1");
  EXPECT_NE(run(plan(wanted), path_).code, 0);
  EXPECT_THAT(content(root_ + "/installed"), HasSubstr("six"));
  EXPECT_THAT(builds(), IsEmpty());
}

TEST_F(RemoteImageTest, WhatWasInterruptedADayAgoMakesRoom) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  const fs::path ready = environments().at(0);
  const auto age = [](const fs::path& build) {
    fs::last_write_time(build, fs::last_write_time(build) - std::chrono::hours(25));
  };
  const auto make = [](const fs::path& build) {
    fs::create_directories(build / "bin");
    return build;
  };
  const fs::path young = make(ready.string() + ".abcdefghij");
  const fs::path used = ready.parent_path() / fs::read_symlink(ready);
  age(used);
  // A pool that builds nothing, and one that replaces its environment, which others may use.
  for (const bool replaces : {false, true}) {
    const fs::path old = make(ready.string() + ".0123456789");
    const fs::path of_another_image = make(ready.parent_path() / "another-system.0123456789");
    age(old);
    age(of_another_image);
    if (replaces) fs::remove(ready / "skyward-ready");
    if (replaces) age(used);
    ASSERT_EQ(run(image, path_).code, 0);
    EXPECT_FALSE(fs::exists(old));
    EXPECT_FALSE(fs::exists(of_another_image));
    EXPECT_TRUE(fs::exists(young));
    EXPECT_TRUE(fs::exists(used));
  }
  EXPECT_NE(ready.parent_path() / fs::read_symlink(ready), used);
}

TEST_F(RemoteImageTest, AnEnvironmentWhosePythonBecameAnotherIsMadeAnew) {
  const RemoteImage image = plan(spec());
  ASSERT_EQ(run(image, path_).code, 0);
  for (const fs::path& made : environments()) {
    const fs::path python = made / "bin/python";
    fs::remove(python);
    std::ofstream(python) << "#!/bin/sh\necho 3.99\n";
    fs::permissions(python, fs::perms::owner_all);
  }
  ASSERT_EQ(run(image, path_).code, 0);
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
}

TEST_F(RemoteImageTest, AFolderThatOnlyTheMachineHasIsInstalledAgainWhenItChanges) {
  const std::string folder = root_ + "/folder";
  PoolSpec wanted = spec();
  wanted.image.pip = {folder};
  wanted.runtime.uv = make_uv();
  const RemoteImage image = plan(wanted);
  fs::create_directories(folder + "/build");
  std::ofstream(folder + "/module.py") << "one\n";
  std::string installed;
  const auto open = [&] {
    const Run ran = run(image, path_);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return content(root_ + "/installed");
  };
  EXPECT_EQ(open(), installed += folder + "\n");
  EXPECT_EQ(open(), installed);
  std::ofstream(folder + "/build/module.py") << "one\n";
  EXPECT_EQ(open(), installed) << "building has left that there";
  std::ofstream(folder + "/module.py") << "another\n";
  EXPECT_EQ(open(), installed += folder + "\n");
  EXPECT_EQ(open(), installed);
}

TEST_F(RemoteImageTest, APackageThatCannotBeHadSaysSo) {
  io::SpawnOptions uv;
  uv.command = {"uv", "--version"};
  if (!io::run_command(uv, kScriptTimeout)) GTEST_SKIP() << "uv is not on PATH";
  PoolSpec wanted = spec();
  wanted.image.pip = {"skyward-no-such-package==1.0"};
  variables_["UV_INDEX_URL"] = "file:///nowhere";
  const Run failed = run(plan(wanted), path_);
  EXPECT_NE(failed.code, 0);
  EXPECT_EQ(failed.steps, "uv\napt\n");
  EXPECT_THAT(failed.err, HasSubstr("skyward-no-such-package"));
  EXPECT_THAT(failed.err, HasSubstr("could not install the image's packages"));
}

TEST_F(RemoteImageTest, UvFindsNoSettingsAboveTheDirectoryOfANode) {
  fs::create_directory(root_ + "/bin");
  std::ofstream(root_ + "/bin/uv") << "#!/bin/sh\npwd >>" + root_ + "/places\nexec false\n";
  fs::permissions(root_ + "/bin/uv", fs::perms::owner_all);
  PoolSpec wanted = spec();
  wanted.image.pip = {"six"};
  EXPECT_NE(run(plan(wanted), root_ + "/bin:" + path_).code, 0);
  EXPECT_THAT(content(root_ + "/places"), MatchesRegex("(/\n)+"));
}

TEST(PipConfig, IsNotAskedOfAModuleInTheWorkingDirectory) {
  const std::string folder = ::testing::TempDir() + "skyward-pip-" + io::random_hex(8);
  fs::create_directory(folder);
  std::ofstream(folder + "/pip.py") << "open('ran', 'w')\n";
  const fs::path before = fs::current_path();
  fs::current_path(folder);
  (void)pip_config(io::find_program("python3", io::environment_variable("PATH")).value_or(""));
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(folder + "/ran"));
  EXPECT_TRUE(io::remove_tree(folder));
}

TEST_F(RemoteImageTest, AnotherPythonWithoutUvIsNamed) {
  PoolSpec wanted = spec();
  wanted.image.python = "3.99";
  wanted.runtime.environment = {{"SKYWARD_CLIENT_PYTHON", "3.99"}};
  fs::create_directory(root_ + "/bin");
  for (const char* program : {"mkdir", "mktemp", "flock", "dirname", "rm", "id", "uname"}) {
    const fs::path place = fs::exists(fs::path("/usr/bin") / program) ? "/usr/bin" : "/bin";
    fs::create_symlink(place / program, root_ + "/bin/" + program);
  }
  const Run failed = run(plan(wanted), root_ + "/bin");
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("no uv and no Python 3.99 were found here"));
}

TEST_F(RemoteImageTest, UvBringsThePythonThatAMachineLacks) {
  PoolSpec wanted = spec();
  wanted.runtime.uv = make_uv();
  const RemoteImage image = plan(wanted);
  const Run ran = run(image, bare_path());
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
}

// The image's Python may be a virtual environment.
TEST_F(RemoteImageTest, WhatANamedImageHasInstalledIsVisible) {
  const PoolSpec wanted = spec();
  const std::string base = root_ + "/image";
  output({"/usr/bin/env", "python3", "-m", "venv", "--without-pip", base});
  const std::string place = base + "/lib/python" + version_ + "/site-packages/";
  std::ofstream(place + "module_of_the_image.py") << "number = 42\n";
  const std::vector<std::string> import = {"-c",
                                           "import module_of_the_image as m; print(m.number)"};
  const RemoteImage isolated = plan(wanted);
  const RemoteImage image = plan(wanted, {.image_is_named = true});
  const Run ran = run(image, base + "/bin:" + path_);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.steps, "uv\napt\ndeps\nskyward\n");
  const fs::path made = environments().at(0);
  EXPECT_EQ(output({made / "bin/python", import[0], import[1]}), "42\n");
  EXPECT_THAT(content(made / "pyvenv.cfg"), HasSubstr("include-system-site-packages = true"));
  EXPECT_THAT(output(image.bootstrap.worker_command), HasSubstr("it's me"));
  fs::remove(made);
  ASSERT_EQ(run(isolated, base + "/bin:" + path_).code, 0);
  EXPECT_NE(environments().at(0), made);
  EXPECT_THAT(content(environments().at(0) / "pyvenv.cfg"),
              HasSubstr("include-system-site-packages = false"));
}

TEST_F(RemoteImageTest, AnImageWithAnotherPythonKeepsItsPackagesAndSaysSo) {
  PoolSpec wanted = spec();
  wanted.runtime.uv = make_uv();
  const RemoteImage image = plan(wanted, {.image_is_named = true});
  const std::string path = bare_path();
  const Run without_python = run(image, path);
  ASSERT_EQ(without_python.code, 0) << without_python.err;
  EXPECT_EQ(without_python.steps, "uv\napt\ndeps\nskyward\n");
  fs::remove(environments().at(0));
  std::ofstream(path + "/python3") << "#!/bin/sh\necho 3.2\n";
  fs::permissions(path + "/python3", fs::perms::owner_all);
  const Run other = run(image, path);
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.steps, HasSubstr("\nsay the Python of the machine's image is 3.2, and tasks "
                                     "need " +
                                     version_ + ":"));
  EXPECT_THAT(content(environments().at(0) / "pyvenv.cfg"),
              HasSubstr("include-system-site-packages = false"));
}

TEST_F(RemoteImageTest, ACppWorkerIsTheProgramItself) {
  PoolSpec wanted;
  std::ofstream(root_ + "/program") << "#!/bin/sh\necho \"$1\"\n";
  wanted.runtime.command = {root_ + "/program", "--skyward worker"};
  const RemoteImage image = plan(wanted);
  const Run ran = run(image);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(output(image.bootstrap.worker_command), "--skyward worker\n");
}

// Building a package runs its code, which must not find the user's keys in its environment; s3fs,
// later, does.
TEST_F(RemoteImageTest, ThePackagesAreBuiltWithoutTheKeysOfTheVolumes) {
  const std::string seen = root_ + "/seen";
  fs::create_directory(root_ + "/bin");
  std::ofstream(root_ + "/bin/uv") << "#!/bin/sh\nenv >>" + seen + "\nexec false\n";
  fs::permissions(root_ + "/bin/uv", fs::perms::owner_all);
  PoolSpec wanted = spec();
  wanted.image.pip = {"six"};
  wanted.volumes = {{.mount_path = root_ + "/data", .bucket = "models"}};
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) {
    variables_[name] = std::string("CANARY-OF-") + name;
  }
  RemoteImage image = plan(wanted);
  EXPECT_NE(run(image, root_ + "/bin:" + path_).code, 0);
  EXPECT_THAT(content(seen), AllOf(HasSubstr("PATH="), Not(HasSubstr("CANARY"))));
  // The mounting gets them all the same.
  const std::size_t mount = image.bootstrap.script.find("\nforget_keys() {");
  ASSERT_NE(mount, std::string::npos);
  image.bootstrap.script = image.bootstrap.script.substr(0, image.bootstrap.script.find("root=")) +
                           image.bootstrap.script.substr(
                               image.bootstrap.script.find("s3_keys=\n"),
                               image.bootstrap.script.find("# The machine's role by its name") -
                                   image.bootstrap.script.find("s3_keys=\n")) +
                           "keep_keys\n\"${s3_start[@]}\" env >&2\nenv >&2\n";
  const std::string err = run(image, path_).err;
  for (const auto& [name, value] : variables_) {
    EXPECT_THAT(err, HasSubstr(name + "=" + value + "\n"));
    EXPECT_EQ(err.find(value), err.rfind(value)) << "what comes later does not get them";
  }
}

TEST_F(RemoteImageTest, ThePackagesAreBuiltWithTheImagesVariables) {
  PoolSpec wanted = spec();
  wanted.runtime.uv = make_uv();
  wanted.image.pip = {"six"};
  wanted.image.env = {{"CMAKE_ARGS", "-DCUDA=on '$x'\n"},
                      {"PATH", "/opt/cuda/bin"},
                      {"UID", "a name that bash has"},
                      {"UV_HTTP_TIMEOUT", "7"},
                      {"uv", "a name that the script has"}};
  wanted.env = {{"CMAKE_ARGS", "of the tasks"}, {"UV_HTTP_TIMEOUT", "9"}};
  const RemoteImage image = plan(wanted);
  EXPECT_THAT(image.bootstrap.script, Not(HasSubstr("CUDA")));
  const Run ran = run(image, path_);
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(content(root_ + "/installed"), "six\n");
  const std::string seen = "\n" + content(root_ + "/seen");
  EXPECT_THAT(seen, HasSubstr("\nCMAKE_ARGS=-DCUDA=on '$x'\n\n"));
  EXPECT_THAT(seen, HasSubstr("\nPATH=/opt/cuda/bin:" + path_ + "\n"));
  EXPECT_THAT(seen, HasSubstr("\nUV_HTTP_TIMEOUT=9\n"));
  EXPECT_THAT(seen, HasSubstr("\nuv=a name that the script has\n"));
  EXPECT_THAT(seen, Not(HasSubstr(kImageVariable)));
  wanted.image.env["CMAKE_ARGS"] = "-DCUDA=off";
  EXPECT_NE(plan(wanted).bootstrap.script, image.bootstrap.script) << "it is another environment";
}

}  // namespace
}  // namespace skyward::provider
