#include "skyward/io/file_tree.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::io {
namespace {

namespace fs = std::filesystem;

TEST(InnerPath, IsMadeOfNames) {
  for (const char* path : {"a", "a/b", "a/..b/c", "...", ".hidden", "a b/\n"}) {
    EXPECT_TRUE(is_inner_path(path)) << path;
  }
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "./a", "a/.", "..", "../a", "a/../b", "a/.."}) {
    EXPECT_FALSE(is_inner_path(path)) << path;
  }
  EXPECT_FALSE(is_inner_path(std::string_view("a\0b", 3)));
}

TEST(InnerLink, StaysBelowTheRoot) {
  EXPECT_TRUE(is_inner_link("a", "b"));
  EXPECT_TRUE(is_inner_link("a/b", "../c"));
  EXPECT_TRUE(is_inner_link("a/b", ".."));
  EXPECT_TRUE(is_inner_link("a/b/c", "../../d/e"));
  EXPECT_FALSE(is_inner_link("a", "../b"));
  EXPECT_FALSE(is_inner_link("a", ".."));
  EXPECT_FALSE(is_inner_link("a/b", "../../c"));
  EXPECT_FALSE(is_inner_link("a", "/etc/passwd"));
  EXPECT_FALSE(is_inner_link("a", ""));
  // Through a link b -> c/d, this would be another place than it seems.
  EXPECT_FALSE(is_inner_link("a", "b/../../x"));
  EXPECT_FALSE(is_inner_link("../a", "b"));
}

class FileTree : public testing::Test {
 protected:
  FileTree() : top_(testing::TempDir() + "skyward-" + random_hex(8)), root_(top_ + "/root") {
    fs::create_directories(root_);
    std::ofstream(top_ + "/outside") << "mine";
  }
  ~FileTree() override { EXPECT_TRUE(remove_tree(top_)); }

  static std::string text_of(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Status write(TreeWriter& writer, const std::string& path, std::string_view text) const {
    if (Status begun = writer.begin_file(path, 0644); !begun) return begun;
    if (Status written = writer.write(std::as_bytes(std::span(text))); !written) return written;
    return writer.end_file();
  }
  // Nothing but the root and the file beside it, which is as it was.
  void expect_untouched() const {
    EXPECT_EQ(list_directory(top_), (std::vector<std::string>{"outside", "root"}));
    EXPECT_EQ(text_of(top_ + "/outside"), "mine");
  }

  const std::string top_;
  const std::string root_;
};

TEST_F(FileTree, IsTheSameAfterTheWay) {
  fs::create_directories(root_ + "/a/empty");
  std::ofstream(root_ + "/a/program") << "#!/bin/sh\n";
  fs::permissions(root_ + "/a/program", fs::perms(0755));
  std::ofstream(root_ + "/none") << "";
  fs::create_symlink("a/program", root_ + "/link");
  const auto entries = list_tree(root_);
  ASSERT_TRUE(entries) << entries.error().message;

  const std::string copy = top_ + "/copy";
  fs::create_directory(copy);
  auto writer = TreeWriter::open(copy);
  ASSERT_TRUE(writer);
  for (const TreeEntry& entry : *entries) {
    if (entry.kind == EntryKind::directory) {
      EXPECT_TRUE(writer->make_directory(entry.path, entry.mode));
    } else if (entry.kind == EntryKind::link) {
      EXPECT_TRUE(writer->make_link(entry.path, entry.target));
    } else {
      auto file = TreeFile::open(root_, entry.path);
      ASSERT_TRUE(file);
      std::array<std::byte, 4> part{};
      ASSERT_TRUE(writer->begin_file(entry.path, entry.mode));
      for (auto count = file->read(part); count && *count > 0; count = file->read(part)) {
        EXPECT_TRUE(writer->write(std::span(part).first(*count)));
      }
      EXPECT_TRUE(writer->end_file());
    }
  }
  EXPECT_TRUE(writer->sync());
  const auto again = list_tree(copy);
  ASSERT_TRUE(again);
  ASSERT_EQ(again->size(), 5u);
  for (std::size_t i = 0; i < again->size(); ++i) {
    EXPECT_EQ((*again)[i].path, (*entries)[i].path);
    EXPECT_EQ((*again)[i].kind, (*entries)[i].kind);
    EXPECT_EQ((*again)[i].mode, (*entries)[i].mode);
    EXPECT_EQ((*again)[i].target, (*entries)[i].target);
  }
  EXPECT_EQ(text_of(copy + "/link"), "#!/bin/sh\n");
}

TEST_F(FileTree, RefusesWhatLeadsOut) {
  auto writer = TreeWriter::open(root_);
  ASSERT_TRUE(writer);
  for (const char* path : {"../outside", "/etc/skyward-test", "a/../../outside", "..", ""}) {
    EXPECT_EQ(write(*writer, path, "evil").error().kind, ErrorKind::denied) << path;
    EXPECT_FALSE(writer->make_directory(path, 0755)) << path;
    EXPECT_FALSE(writer->make_link(path, "x")) << path;
  }
  EXPECT_FALSE(writer->make_link("link", "../outside"));
  EXPECT_FALSE(writer->make_link("link", top_ + "/outside"));
  expect_untouched();
  EXPECT_TRUE(list_directory(root_).empty());
}

TEST_F(FileTree, DoesNotWriteThroughLinks) {
  fs::create_symlink("..", root_ + "/up");
  fs::create_symlink("../outside", root_ + "/file");
  auto writer = TreeWriter::open(root_);
  ASSERT_TRUE(writer);
  EXPECT_FALSE(write(*writer, "up/outside", "evil"));
  EXPECT_FALSE(writer->make_directory("up/new", 0755));
  EXPECT_TRUE(writer->make_directory("up", 0755));  // replaces the link
  EXPECT_TRUE(fs::is_directory(fs::symlink_status(root_ + "/up")));
  EXPECT_TRUE(write(*writer, "file", "good"));  // replaces the link
  EXPECT_EQ(text_of(root_ + "/file"), "good");
  expect_untouched();
}

TEST_F(FileTree, ReplacesAFileInsteadOfWritingIntoIt) {
  fs::create_hard_link(top_ + "/outside", root_ + "/file");
  auto writer = TreeWriter::open(root_);
  ASSERT_TRUE(writer);
  EXPECT_TRUE(write(*writer, "file", "good"));
  expect_untouched();
}

TEST_F(FileTree, ReplacesAFileByADirectoryAndNeverADirectory) {
  std::ofstream(root_ + "/latest") << "old";
  fs::create_directory(root_ + "/kept");
  auto writer = TreeWriter::open(root_);
  ASSERT_TRUE(writer);
  EXPECT_TRUE(writer->make_directory("latest", 0755));
  EXPECT_TRUE(write(*writer, "latest/new", "good"));
  EXPECT_FALSE(writer->make_link("kept", "latest"));
  EXPECT_FALSE(write(*writer, "kept", "evil"));
  EXPECT_TRUE(write(*writer, "next", "good")) << "a failure must not stop what follows";
  EXPECT_EQ(list_directory(root_), (std::vector<std::string>{"kept", "latest", "next"}));
}

TEST_F(FileTree, LeavesAnOldFileAloneUntilTheNewOneIsWhole) {
  std::ofstream(root_ + "/model") << "good";
  {
    auto writer = TreeWriter::open(root_);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->begin_file("model", 0644));
    ASSERT_TRUE(writer->write(std::as_bytes(std::span(std::string_view("half")))));
    EXPECT_EQ(text_of(root_ + "/model"), "good");
    writer->drop_file();
    EXPECT_EQ(list_directory(root_), (std::vector<std::string>{"model"}));
    ASSERT_TRUE(writer->begin_file("model", 0644));
  }
  EXPECT_EQ(list_directory(root_), (std::vector<std::string>{"model"}));
  EXPECT_EQ(text_of(root_ + "/model"), "good");
}

TEST_F(FileTree, KeepsRightsAndNoMore) {
  auto writer = TreeWriter::open(root_);
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->begin_file("file", 06711));
  ASSERT_TRUE(writer->end_file());
  ASSERT_TRUE(writer->make_directory("folder", 0));
  EXPECT_EQ(entry_at(root_, "file")->mode, 0711u);
  struct stat status{};
  ASSERT_EQ(::stat((root_ + "/file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07000, 0u);
  EXPECT_TRUE(write(*writer, "folder/file", "in it"));
}

TEST_F(FileTree, NeverWritesOutsideWhateverComes) {
  std::mt19937 random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same tree each time
  const auto any = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  const std::vector<std::string> names = {"a", "b", "..", ".", "", "outside", "root"};
  const auto path = [&] {
    std::string text = any(8) == 0 ? "/" : "";
    for (int i = any(4); i >= 0; --i)
      text += names[static_cast<std::size_t>(any(7))] + (i ? "/" : "");
    return text;
  };
  auto writer = TreeWriter::open(root_);
  ASSERT_TRUE(writer);
  int written = 0;
  for (int i = 0; i < 4'000; ++i) {
    switch (any(3)) {
      case 0:
        (void)writer->make_link(path(), path());
        break;
      case 1:
        (void)writer->make_directory(path(), 0755);
        break;
      default:
        written += write(*writer, path(), "evil") ? 1 : 0;
    }
    if (any(50) == 0) {
      for (const std::string& name : list_directory(root_)) (void)remove_tree(root_ + "/" + name);
    }
  }
  EXPECT_GT(written, 50);
  expect_untouched();
}

TEST_F(FileTree, ReadsNoPipesAndNoLinks) {
  ASSERT_EQ(::mkfifo((root_ + "/pipe").c_str(), 0600), 0);
  fs::create_symlink("../outside", root_ + "/link");
  EXPECT_EQ(entry_at(root_, "pipe")->kind, EntryKind::other);
  EXPECT_FALSE(TreeFile::open(root_, "pipe"));
  EXPECT_FALSE(TreeFile::open(root_, "link"));
  EXPECT_FALSE(TreeFile::open(root_, "missing"));
  EXPECT_FALSE(entry_at(root_, "missing"));
}

TEST_F(FileTree, ReadsNothingThroughALinkOnTheWay) {
  fs::create_directory(top_ + "/secrets");
  std::ofstream(top_ + "/secrets/key") << "mine";
  fs::create_symlink("../secrets", root_ + "/folder");
  EXPECT_FALSE(entry_at(root_, "folder/key"));
  EXPECT_FALSE(TreeFile::open(root_, "folder/key"));
  EXPECT_FALSE(entry_at(root_, "../secrets/key"));
  EXPECT_FALSE(TreeFile::open(root_, "../secrets/key"));
}

TEST_F(FileTree, ListsTheRestWhenADirectoryCannotBeRead) {
  for (const char* path : {"a/1", "b/1", "c"}) fs::create_directories(root_ + "/" + path);
  // Of a and b, the one that is read first removes the other.
  const auto wanted = [&](std::string_view path) {
    if (path == "a/1") fs::remove_all(root_ + "/b");
    if (path == "b/1") fs::remove_all(root_ + "/a");
    return true;
  };
  std::vector<std::string> skipped;
  const auto entries = list_tree(root_, wanted, [&](const std::string& path, const Error& why) {
    EXPECT_NE(why.message.find(root_), std::string::npos);
    skipped.push_back(path);
  });
  ASSERT_TRUE(entries);
  EXPECT_EQ(entries->size(), 4u);
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_TRUE(skipped[0] == "a" || skipped[0] == "b");
  EXPECT_FALSE(list_tree(root_ + "/missing", {}, [](const std::string&, const Error&) {}));
}

TEST(DiskSpace, KeepsAReserve) {
  constexpr std::uint64_t kMegabyte = 1 << 20;
  const DiskSpace small{.free = 10 * kMegabyte, .total = 100 * kMegabyte};
  EXPECT_TRUE(leaves_reserve(small, 9 * kMegabyte));
  EXPECT_FALSE(leaves_reserve(small, 9 * kMegabyte + 1));
  EXPECT_FALSE(leaves_reserve(small, 11 * kMegabyte));
  const DiskSpace large{.free = 600 * kMegabyte, .total = 1'000'000 * kMegabyte};
  EXPECT_TRUE(leaves_reserve(large, 88 * kMegabyte));
  EXPECT_FALSE(leaves_reserve(large, 89 * kMegabyte));
  EXPECT_TRUE(leaves_reserve(large, 590 * kMegabyte, 0, 10 * kMegabyte));
  EXPECT_FALSE(leaves_reserve(large, 591 * kMegabyte, 0, 10 * kMegabyte));
  DiskSpace of_files = large;
  of_files.total_files = 1000;
  of_files.free_files = 11;
  EXPECT_TRUE(leaves_reserve(of_files, 1, 1));
  of_files.free_files = 10;
  EXPECT_FALSE(leaves_reserve(of_files, 1, 1));
  EXPECT_TRUE(leaves_reserve(of_files, 1)) << "of a file that is there";
  const auto here = disk_space(testing::TempDir());
  ASSERT_TRUE(here);
  EXPECT_LE(here->free, here->total);
  EXPECT_LE(here->free_files, here->total_files);
  EXPECT_FALSE(disk_space("/skyward/no such path"));
}

}  // namespace
}  // namespace skyward::io
