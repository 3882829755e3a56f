#include "skyward/cli/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"

namespace skyward::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> paths_of(const std::vector<io::TreeEntry>& entries) {
  std::vector<std::string> paths;
  for (const io::TreeEntry& entry : entries) paths.push_back(entry.path);
  return paths;
}

class RunFiles : public testing::Test {
 protected:
  RunFiles() : root_(testing::TempDir() + "skyward-" + io::random_hex(8)) {
    fs::create_directory(root_);
  }
  ~RunFiles() override { EXPECT_TRUE(io::remove_tree(root_)); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + "/" + path).parent_path());
    std::ofstream(root_ + "/" + path) << text;
  }
  void git(std::vector<std::string> words) const {
    words.insert(words.begin(), {"git", "-C", root_, "-c", "user.name=a", "-c", "user.email=a@b"});
    io::SpawnOptions options;
    options.command = words;
    const auto done = io::run_command(options, std::chrono::seconds(30));
    ASSERT_TRUE(done) << done.error().message;
    ASSERT_EQ(done->status.code, 0) << done->err;
  }

  const std::string root_;
};

TEST_F(RunFiles, AreThoseThatGitWouldTrack) {
  git({"init", "-q"});
  write(".gitignore", "*.bin\n/cache/\n");
  write("tracked.py", "1");
  write("gone.py", "1");
  git({"add", "."});
  git({"commit", "-qm", "first"});
  fs::remove(root_ + "/gone.py");
  write("new file.py", "2");
  write("data.bin", "3");
  write("cache/x", "4");
  write("results/old", "5");
  write("results.py", "6");
  const auto chosen = choose_files(root_, "results", false);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_THAT(paths_of(chosen->entries),
              ElementsAre(".gitignore", "new file.py", "results.py", "tracked.py"));
  EXPECT_THAT(chosen->notes, IsEmpty());
}

TEST_F(RunFiles, AreAllButHiddenOnesWithoutARepository) {
  write("a/b.py", "1");
  write(".env", "secret");
  write("a/.hidden/x", "2");
  write("a/__pycache__/b.pyc", "3");
  const auto chosen = choose_files(root_, "", false);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_THAT(paths_of(chosen->entries), ElementsAre("a", "a/b.py"));
  EXPECT_THAT(chosen->notes, ElementsAre(HasSubstr("not a git repository")));
}

TEST_F(RunFiles, FailWithTheWordsOfGit) {
  git({"init", "-q"});
  write(".git/config", "[broken");
  const auto chosen = choose_files(root_, "", false);
  ASSERT_FALSE(chosen);
  EXPECT_THAT(chosen.error().message, HasSubstr("config"));
}

TEST(AdviceOfGit, IsToTrustARepositoryOfAnotherUser) {
  EXPECT_EQ(advice_of_git("fatal: detected dubious ownership in repository at '/w/my repo'\n"
                          "To add an exception for this directory, call:\n\n"
                          "\tgit config --global --add safe.directory '/w/my repo'\n"),
            "if you trust this repository, run: git config --global --add safe.directory "
            "'/w/my repo'");
  EXPECT_EQ(advice_of_git("fatal: unsafe repository ('/w' is owned by someone else)\n"
                          "To add an exception for this directory, call:\n\n"
                          "\tgit config --global --add safe.directory /w\n"),
            "if you trust this repository, run: git config --global --add safe.directory /w");
  EXPECT_EQ(advice_of_git("fatal: bad config line 1 in file .git/config\n"), "");
}

// To list a directory of which the index has only the name, git needs its tree, which this
// repository says a program provides.
TEST_F(RunFiles, AreListedWithoutProgramsThatARepositoryNames) {
  write("folder/a", "1");
  write("b", "2");
  constexpr const char* kHostile = R"sh(
    set -e; cd "$0"
    git init -q . && git add folder b && git -c user.name=a -c user.email=a@b commit -qm first
    git sparse-checkout init --cone --sparse-index && git sparse-checkout set
    tree=$(git rev-parse HEAD:folder)
    rm -f ".git/objects/$(echo "$tree" | cut -c 1-2)/$(echo "$tree" | cut -c 3-)"
    git config core.repositoryformatversion 1
    git config core.fsmonitor "touch $0/ran; false"
    git config extensions.partialClone origin
    git config remote.origin.promisor true
    git config remote.origin.url .
    git config remote.origin.uploadpack "touch $0/ran; false"
    git config protocol.file.allow always
  )sh";
  io::SpawnOptions options;
  options.command = {"sh", "-c", kHostile, root_};
  const auto made = io::run_command(options, std::chrono::seconds(30));
  ASSERT_TRUE(made && made->status.code == 0) << (made ? made->err : made.error().message);
  fs::remove(root_ + "/ran");
  const auto chosen = choose_files(root_, "", false);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_THAT(paths_of(chosen->entries), ElementsAre("b"));
  EXPECT_FALSE(fs::exists(root_ + "/ran"));
}

TEST_F(RunFiles, AreAllButHiddenOnesWhereGitFailsIfTheUserNamedTheDirectory) {
  write("in/a.py", "1");
  write("in/.env", "secret");
  write(".git", "nothing that git knows");
  const auto refused = choose_files(root_ + "/in", "", false);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().hint, HasSubstr("--sync ."));
  const auto chosen = choose_files(root_ + "/in", "", true);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_THAT(paths_of(chosen->entries), ElementsAre("a.py"));
  EXPECT_THAT(chosen->notes, ElementsAre(HasSubstr("git cannot list")));
}

TEST_F(RunFiles, AreNotReadThroughALinkThatReplacedADirectory) {
  git({"init", "-q"});
  write("folder/a", "1");
  git({"add", "."});
  fs::create_directory(root_ + "/other");
  fs::rename(root_ + "/folder", root_ + "/other/folder");
  fs::create_symlink("/etc", root_ + "/folder");
  write("folder.py", "2");
  const auto chosen = choose_files(root_, "", false);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_THAT(paths_of(chosen->entries), ElementsAre("folder.py", "other/folder/a"));
  EXPECT_THAT(chosen->notes, ElementsAre(HasSubstr("folder, a link to /etc")));
}

TEST(Secrets, AreToldByTheirNames) {
  EXPECT_EQ(secrets_note({{.path = "a.py"}, {.path = "id_rsa.pub"}, {.path = "environment"}}), "");
  EXPECT_THAT(secrets_note({{.path = "a/prod.env"}}), HasSubstr("secrets: a/prod.env"));
  EXPECT_THAT(secrets_note({{.path = ".env.local"}, {.path = "a.py"}}),
              HasSubstr("secrets: .env.local; to keep them here"));
  EXPECT_THAT(
      secrets_note(
          {{.path = "a/x.pem"}, {.path = "b/id_rsa"}, {.path = "id_ed25519"}, {.path = "k.key"}}),
      HasSubstr("a/x.pem, b/id_rsa, id_ed25519 and 1 more"));
}

TEST_F(RunFiles, HaveNoLinksThatLeadOut) {
  const ChosenFiles chosen =
      sendable({{.kind = io::EntryKind::link, .path = "in", .target = "a"},
                {.kind = io::EntryKind::link, .path = "out", .target = "/data"},
                {.kind = io::EntryKind::other, .path = "socket"},
                {.kind = io::EntryKind::directory, .path = "results"},
                {.kind = io::EntryKind::file, .path = "results/a"}},
               "results");
  EXPECT_THAT(paths_of(chosen.entries), ElementsAre("in"));
  EXPECT_THAT(chosen.notes, ElementsAre(HasSubstr("out, a link to /data"), HasSubstr("socket")));
}

TEST_F(RunFiles, HaveALimit) {
  const std::vector<io::TreeEntry> entries = {{.path = "a", .size = 10},
                                              {.path = "big", .size = 3'000'000},
                                              {.path = "b", .size = 20},
                                              {.path = "c", .size = 30}};
  EXPECT_TRUE(check_size(entries, 3'000'060));
  const Status refused = check_size(entries, 3'000'059);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("big (3.0 MB), c (30 bytes), b (20 bytes)"));
}

TEST_F(RunFiles, ArePackedBackToBack) {
  write("a", "one");
  write("b/c", "three");
  const auto entries = io::list_tree(root_);
  ASSERT_TRUE(entries);
  const auto packed = pack(root_, *entries);
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ(std::string(packed->content.begin(), packed->content.end()), "onethree");
  ASSERT_EQ(packed->entries.size(), 3u);
  EXPECT_EQ(packed->entries[2].path, "b/c");
  EXPECT_EQ(packed->entries[2].size, 5u);
  EXPECT_FALSE(pack(root_, {{.path = "missing"}}));
}

TEST(SizeText, HasTwoDigitsOrMore) {
  EXPECT_EQ(size_text(999), "999 bytes");
  EXPECT_EQ(size_text(1500), "1.5 kB");
  EXPECT_EQ(size_text(12'300'000), "12 MB");
  EXPECT_EQ(size_text(2'000'000'000'000'000), "2000 TB");
}

}  // namespace
}  // namespace skyward::cli
