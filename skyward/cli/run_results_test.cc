#include "skyward/cli/run_results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "skyward/io/forbidden_calls_fixture.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::cli {
namespace {

namespace fs = std::filesystem;
using run::Piece;
using run::PieceKind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Piece directory(const std::string& path) {
  return {.kind = PieceKind::directory, .path = path, .mode = 0755, .bytes = {}};
}
Piece file(const std::string& path) {
  return {.kind = PieceKind::file, .path = path, .mode = 0644, .bytes = {}};
}
Piece data(const std::string& bytes) {
  return {.kind = PieceKind::data, .path = {}, .bytes = bytes};
}
Piece note(const std::string& path, const std::string& why) {
  return {.kind = PieceKind::note, .path = path, .bytes = why};
}

class Results : public testing::Test {
 protected:
  Results() : root_(testing::TempDir() + "skyward-" + io::random_hex(8)) {
    fs::create_directory(root_);
  }
  ~Results() override { EXPECT_TRUE(io::remove_tree(root_)); }

  RunResults make(const std::string& directory) {
    return {directory, [this](const std::string& line) { lines_.push_back(line); },
            [this](const std::string&) { return space_; }};
  }
  static void expect_taken(RunResults& results, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
      const Status taken = results.take(piece);
      EXPECT_TRUE(taken) << taken.error().message;
    }
  }
  std::string text_of(const std::string& path) const {
    std::ifstream stream(root_ + "/" + path);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  const std::string root_;
  std::vector<std::string> lines_;
  std::optional<io::DiskSpace> space_;
};

TEST_F(Results, ComeAlthoughOneCannotBeStored) {
  fs::create_directories(root_ + "/a");
  std::ofstream(root_ + "/latest") << "of an earlier run";
  RunResults results = make(root_);
  expect_taken(results, {file("a"), data("lost"), data("too"), directory("latest"),
                         file("latest/log"), data("1"), data("2"), file("model.pt"), data("3")});
  EXPECT_TRUE(results.finish());
  EXPECT_FALSE(results.is_complete());
  results.tell_end(false);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("not brought back: a: cannot replace"),
                                  HasSubstr("2 files in " + root_)));
  EXPECT_EQ(text_of("latest/log"), "12");
  EXPECT_EQ(text_of("model.pt"), "3");
  EXPECT_THAT(io::list_directory(root_ + "/a"), IsEmpty());
}

TEST_F(Results, KeepAnOldFileWhenTheNodeCannotReadTheNewOne) {
  std::ofstream(root_ + "/a") << "old";
  RunResults results = make(root_);
  expect_taken(results, {file("a"), data("ne"), note("a", "I/O error"), file("b"), data("1"),
                         note("c", "gone")});
  EXPECT_TRUE(results.finish());
  EXPECT_FALSE(results.is_complete());
  EXPECT_EQ(text_of("a"), "old");
  EXPECT_EQ(text_of("b"), "1");
  EXPECT_THAT(lines_, ElementsAre("not brought back: a: I/O error", "not brought back: c: gone"));
}

TEST_F(Results, StopBeforeTheDiskIsFull) {
  space_ = io::DiskSpace{.free = 1'000'003, .total = 100'000'000};
  RunResults results = make(root_);
  expect_taken(results, {file("a"), data("123")});
  const Status full = results.take(data("1234"));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(full.error().message, HasSubstr("almost full (1.0 MB free)"));
  EXPECT_THAT(io::list_directory(root_), IsEmpty()) << "half a file";
}

TEST_F(Results, AreStoredOnADiskThatHasBecomeTooFullToStartWith) {
  space_ = io::DiskSpace{.free = 400'000'000, .total = 1'000'000'000'000};
  const auto space = [this](const std::string&) { return space_; };
  const Status full = check_output_space(root_, space);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::exhausted);
  EXPECT_THAT(full.error().message, HasSubstr("almost full (400 MB free): at least 537 MB or 1 %"));
  RunResults results = make(root_);
  expect_taken(results, {file("a"), data(std::string(1000, 'x'))});
  EXPECT_TRUE(results.finish());
  EXPECT_TRUE(results.is_complete());
  space_->free = 600'000'000;
  EXPECT_TRUE(check_output_space(root_, space));
}

TEST_F(Results, StopBeforeTheDiskCanHoldNoMoreFiles) {
  space_ = io::DiskSpace{
      .free = 1'000'000'000, .total = 100'000'000'000, .free_files = 100, .total_files = 10'000};
  RunResults results = make(root_);
  EXPECT_THAT(results.take(file("a")).error().message,
              HasSubstr("almost full (1.0 GB and 100 files free)"));
  EXPECT_EQ(results.take(directory("b")).error().kind, ErrorKind::exhausted);
}

TEST_F(Results, AreCompleteOnlyWhenTheyAreOnTheDisk) {
  bool has_filters = false;
  std::thread([this, &has_filters] {
    has_filters = io::forbid_call(SYS_syncfs);
    if (!has_filters) return;
    RunResults results = make(root_);
    expect_taken(results, {file("a"), data("1")});
    const Status finished = results.finish();
    ASSERT_FALSE(finished) << "nobody knows whether they are";
    EXPECT_THAT(finished.error().message, HasSubstr("cannot store all files in " + root_));
  }).join();
  if (!has_filters) GTEST_SKIP() << "no filters";
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Results, PlantNoRepository) {
  RunResults results = make(root_);
  expect_taken(results, {directory(".git"), directory(".git/hooks"), file(".git/hooks/post-merge"),
                         data("evil"), file("a/.GIT/config"), data("evil"), file("HEAD"),
                         data("ref: refs/heads/main"), file("b.git"), data("good"),
                         file(".gitignore"), data("*")});
  EXPECT_TRUE(results.finish());
  EXPECT_TRUE(results.is_complete());
  EXPECT_THAT(io::list_directory(root_), ElementsAre(".gitignore", "b.git"));
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("left out: files named .git or HEAD")));
}

TEST_F(Results, NeverLeaveTheirDirectory) {
  RunResults results = make(root_ + "/in");
  fs::create_directory(root_ + "/in");
  expect_taken(results, {file("../out"),
                         data("evil"),
                         file("/etc/skyward-test"),
                         data("evil"),
                         {.kind = PieceKind::link, .path = "l", .bytes = "../out"}});
  EXPECT_TRUE(results.finish());
  EXPECT_THAT(io::list_directory(root_), ElementsAre("in"));
  EXPECT_THAT(io::list_directory(root_ + "/in"), IsEmpty());
  EXPECT_THAT(lines_, SizeIs(3));
}

TEST_F(Results, AreNotWantedWithoutADirectory) {
  RunResults results = make("");
  EXPECT_EQ(results.take(file("a")).error().kind, ErrorKind::denied);
  results.tell_end(true);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Results, TellOfManyFailuresInFewLines) {
  RunResults results = make(root_);
  for (int i = 0; i < 1000; ++i) expect_taken(results, {note(std::to_string(i), "gone")});
  results.tell_end(false);
  EXPECT_THAT(lines_, SizeIs(22));
  EXPECT_THAT(lines_[20], HasSubstr("980 more"));
}

TEST_F(Results, MayBeNone) {
  RunResults results = make(root_);
  expect_taken(results, {{.kind = PieceKind::left_out, .path = "s", .bytes = "a socket"}});
  EXPECT_TRUE(results.finish());
  EXPECT_TRUE(results.is_complete());
  results.tell_end(false);
  EXPECT_THAT(lines_,
              ElementsAre("left out: s: a socket",
                          "results: the command wrote no files to the directory of --output"));
}

}  // namespace
}  // namespace skyward::cli
