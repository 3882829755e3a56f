#include "skyward/pool/pool_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace skyward {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::int64_t kNoon = 1'750'161'600'000'000;  // 2025-06-17T12:00:00Z
constexpr std::int64_t kLater = kNoon + 11'000'000;    // when it tries again
constexpr std::int64_t kHour = 3'600'000'000;

class PoolRecordTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(::testing::TempDir()) /
            fmt::format("skyward-record-{}-{}", test->name(), fmt::ptr(this));
  }
  void TearDown() override { fs::remove_all(root_); }

  static std::string text(const fs::path& path) {
    std::stringstream out;
    out << std::ifstream(path).rdbuf();
    return out.str();
  }
  static LogLine line(std::string words) {
    return {.node = 1,
            .instance_id = "i-1",
            .line = std::move(words),
            .timestamp = kNoon * 1e-6 + 0.25,
            .task = 7,
            .stream = "stdout"};
  }

  // An earlier pool, the `number`-th, with a log of so many bytes.
  fs::path path_of(std::size_t number) const {
    return root_ / fmt::format("20240101-000000-{:08x}", number);
  }
  void leave(std::size_t number, const std::string& providers,
             std::int64_t written_us = kNoon - 48 * kHour, std::uintmax_t bytes = 0) const {
    const fs::path pool = path_of(number);
    fs::create_directories(pool);
    std::ofstream(pool / "providers") << providers << "\n";
    std::ofstream(pool / "node-0.log") << "";
    fs::resize_file(pool / "node-0.log", bytes);  // with a hole
    for (const char* file : {"providers", "node-0.log"}) set_time(pool / file, written_us);
  }
  static void set_time(const fs::path& file, std::int64_t wall_us) {
    const std::chrono::sys_time<std::chrono::microseconds> time{std::chrono::microseconds(wall_us)};
    fs::last_write_time(file, std::chrono::time_point_cast<fs::file_time_type::duration>(
                                  std::chrono::file_clock::from_sys(time)));
  }
  void open_another() const {
    PoolRecord record(root_.string(), "1a2b3c4d");
    ASSERT_EQ(record.keep(std::vector<Event>{line("x")}, kNoon), std::nullopt);
  }

  fs::path root_;
};

TEST_F(PoolRecordTest, LinesMetricsAndTheCourseOfThingsAreFiles) {
  PoolRecord record(root_.string(), "1a2b3c4d");
  const std::vector<Event> events = {
      InstanceProvisioned{.instance_id = "i-1", .node = 1, .provider = "aws"}, line("hello"),
      Metrics{.node = 1,
              .cpu_percent = 50,
              .memory_used_mb = 10,
              .memory_total_mb = 20,
              .timestamp = kNoon * 1e-6 - 60},
      ErrorEvent{.message = "it broke", .instance_id = "i-1"}};
  EXPECT_EQ(record.keep(events, kNoon), std::nullopt);
  const fs::path pool = root_ / "20250617-120000-1a2b3c4d";
  EXPECT_EQ(text(pool / "node-1.log"), "2025-06-17T12:00:00.250Z task 7 stdout hello\n");
  EXPECT_THAT(text(pool / "metrics.csv"), HasSubstr("\n2025-06-17T11:59:00.000Z,1,50,10,20,,,,\n"));
  EXPECT_THAT(text(pool / "pool.log"),
              HasSubstr("2025-06-17T12:00:00.000Z node 1   ERROR   it broke"));
  EXPECT_EQ(fs::status(pool).permissions(), fs::perms::owner_all);
  EXPECT_EQ(fs::status(root_).permissions(), fs::perms::owner_all);
}

TEST_F(PoolRecordTest, OtherProgramsInheritNoneOfItsFiles) {
  constexpr unsigned long kCloseOnExec = 02000000;
  PoolRecord record(root_.string(), "1a2b3c4d");
  EXPECT_EQ(record.keep(std::vector<Event>{ErrorEvent{.message = "it broke"}, line("x")}, kNoon),
            std::nullopt);
  std::size_t found = 0;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // that of the folder itself
    if (!fs::read_symlink(entry.path(), closed).string().starts_with(root_.string())) continue;
    std::ifstream facts("/proc/self/fdinfo/" + entry.path().filename().string());
    std::string word;
    while (word != "flags:" && facts >> word) {
    }
    unsigned long flags = 0;
    facts >> std::oct >> flags;
    EXPECT_NE(flags & kCloseOnExec, 0UL) << fs::read_symlink(entry.path());
    ++found;
  }
  EXPECT_EQ(found, 3U) << "pool.log, node-1.log, lock";
}

TEST_F(PoolRecordTest, FilesAreBounded) {
  PoolRecord record(root_.string(), "1a2b3c4d");
  const std::vector<Event> batch(100, line(std::string(10'000, 'x')));
  for (int i = 0; i < 30; ++i) ASSERT_EQ(record.keep(batch, kNoon), std::nullopt);
  std::uintmax_t size = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (entry.is_regular_file()) size += entry.file_size();
  }
  EXPECT_LE(size, 2 * PoolRecord::kFileBytes);
  EXPECT_GE(size, PoolRecord::kFileBytes);
}

TEST_F(PoolRecordTest, OldPoolsGoAndNothingElse) {
  fs::create_directories(root_ / "precious");
  for (std::size_t i = 0; i <= PoolRecord::kPools; ++i) leave(i, "local");
  const auto at_work = io::FileLock::try_lock(path_of(0) / "lock");
  set_time(path_of(0) / "lock", kNoon - 48 * kHour);
  open_another();
  EXPECT_TRUE(fs::exists(root_ / "precious"));
  EXPECT_TRUE(fs::exists(path_of(0))) << "that pool is open";
  EXPECT_FALSE(fs::exists(path_of(1)));
  EXPECT_TRUE(fs::exists(path_of(2)));
  EXPECT_TRUE(fs::exists(root_ / "20250617-120000-1a2b3c4d"));
}

TEST_F(PoolRecordTest, LocalPoolsDriveOutNoOthers) {
  leave(0, "AWS");
  leave(1, "AWS\nlocal");
  leave(2, "local");
  leave(3, "fake");
  for (std::size_t i = 4; i < PoolRecord::kPools + 4; ++i) leave(i, "local");
  open_another();
  EXPECT_TRUE(fs::exists(path_of(0)));
  EXPECT_TRUE(fs::exists(path_of(1)));
  EXPECT_FALSE(fs::exists(path_of(2)));
  EXPECT_FALSE(fs::exists(path_of(3)));
  for (std::size_t i = 0; i < PoolRecord::kPools; ++i) leave(i + 1000, "AWS");
  open_another();
  EXPECT_FALSE(fs::exists(path_of(0)));
  EXPECT_TRUE(fs::exists(path_of(5))) << "a local one";
}

TEST_F(PoolRecordTest, WhatWasWrittenWithinADayStays) {
  for (std::size_t i = 0; i < PoolRecord::kPools + 2; ++i) {
    leave(i, "AWS", kNoon - (i == 0 ? 23 : 25) * kHour);
    leave(i + 1000, "local", kNoon - kHour);  // by tests, which open many
  }
  open_another();
  EXPECT_TRUE(fs::exists(path_of(0)));
  EXPECT_FALSE(fs::exists(path_of(1)));
  EXPECT_FALSE(fs::exists(path_of(1000)));
  leave(500, "AWS", kNoon - kHour, PoolRecord::kBytesOfAll + 1);
  open_another();
  EXPECT_TRUE(fs::exists(path_of(500)));
  EXPECT_TRUE(fs::exists(path_of(0)));
  EXPECT_FALSE(fs::exists(path_of(50))) << "too much is kept, and this is old";
}

TEST_F(PoolRecordTest, LargeOldPoolsGoFirst) {
  constexpr std::uintmax_t kThird = PoolRecord::kBytesOfAll / 3;
  for (std::size_t i = 0; i < 4; ++i) leave(i, "AWS", kNoon - 48 * kHour, kThird);
  leave(4, "local");
  open_another();
  EXPECT_FALSE(fs::exists(path_of(0)));
  EXPECT_FALSE(fs::exists(path_of(1))) << "the four have more than the limit, with the small files";
  EXPECT_TRUE(fs::exists(path_of(2)));
  EXPECT_TRUE(fs::exists(path_of(3)));
  EXPECT_TRUE(fs::exists(path_of(4)));
}

TEST_F(PoolRecordTest, APlaceThatCannotBeWrittenIsToldOnceAndTriedAgain) {
  std::ofstream(root_) << "a file";
  PoolRecord record(root_.string(), "1a2b3c4d");
  const std::vector<Event> events = {line("lost")};
  EXPECT_THAT(record.keep(events, kNoon).value_or(""), HasSubstr(root_.string()));
  fs::remove(root_);
  EXPECT_EQ(record.keep(events, kNoon + 1), std::nullopt);
  EXPECT_FALSE(fs::exists(root_)) << "not yet";
  EXPECT_EQ(record.keep(std::vector<Event>{line("kept")}, kLater), std::nullopt);
  const fs::path pool = root_ / "20250617-120011-1a2b3c4d";
  EXPECT_THAT(text(pool / "node-1.log"), HasSubstr("kept\n"));
  EXPECT_THAT(text(pool / "pool.log"), HasSubstr("missing above: up to 2, "));
}

TEST_F(PoolRecordTest, AClockThatIsSetBackMakesNoLongerGap) {
  std::ofstream(root_) << "a file";
  PoolRecord record(root_.string(), "1a2b3c4d");
  const std::vector<Event> events = {line("a line")};
  EXPECT_NE(record.keep(events, kNoon), std::nullopt);
  fs::remove(root_);
  EXPECT_EQ(record.keep(events, kNoon - 5 * kHour), std::nullopt);
  EXPECT_THAT(text(root_ / "20250617-070000-1a2b3c4d" / "node-1.log"), HasSubstr("a line\n"));
}

TEST_F(PoolRecordTest, AFullDiskMakesAGapNotAnEnd) {
  const fs::path pool = root_ / "20250617-120000-1a2b3c4d";
  PoolRecord record(root_.string(), "1a2b3c4d");
  const Metrics metrics{.node = 1, .cpu_percent = 50, .memory_used_mb = 10, .memory_total_mb = 20};
  const std::vector<Event> events = {metrics, line("first")};
  ASSERT_EQ(record.keep(events, kNoon), std::nullopt);
  fs::create_symlink("/dev/full", pool / "node-2.log");
  LogLine lost = line("lost");
  lost.node = 2;
  EXPECT_THAT(record.keep(std::vector<Event>{lost}, kNoon).value_or(""), HasSubstr(pool.string()));
  EXPECT_EQ(record.keep(std::vector<Event>{lost}, kLater), std::nullopt) << "told once";
  fs::remove(pool / "node-2.log");

  ASSERT_EQ(record.keep(events, kLater + 20'000'000), std::nullopt);
  EXPECT_THAT(text(pool / "pool.log"), HasSubstr("missing above: up to 2, "));
  EXPECT_THAT(text(pool / "node-1.log"), HasSubstr("first\n\n"));  // half a line would end there
  const std::string table = text(pool / "metrics.csv");
  EXPECT_EQ(table.find("cpu_percent"), table.rfind("cpu_percent")) << "one head";
  ASSERT_EQ(record.keep(events, kLater + 20'000'000), std::nullopt);
  const std::string course = text(pool / "pool.log");
  EXPECT_EQ(course.find("missing"), course.rfind("missing")) << course;
}

}  // namespace
}  // namespace skyward
