#include "skyward/io/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "skyward/io/machine.h"

namespace skyward::io {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

Bytes pattern(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + i / 4096);
  return bytes;
}

TEST(SharedMemory, IsZeroedAndCloseOnExec) {
  const auto memory = SharedMemory::create(100'000).value();
  EXPECT_EQ(memory->size(), 100'000U);
  EXPECT_TRUE(std::all_of(memory->data(), memory->data() + memory->size(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
  EXPECT_TRUE(::fcntl(memory->descriptor(), F_GETFD) & FD_CLOEXEC);
}

TEST(SharedMemory, AReceiverSeesItAndItsWritesStayItsOwn) {
  const Bytes bytes = pattern(1'000'003);
  const auto sent = SharedMemory::create(bytes.size()).value();
  ASSERT_TRUE(sent->fill(bytes));
  const auto received = SharedMemory::map_private(sent->descriptor(), bytes.size()).value();
  EXPECT_EQ(std::memcmp(received->data(), bytes.data(), bytes.size()), 0);
  received->data()[5] = std::byte{99};
  EXPECT_EQ(sent->data()[5], bytes[5]);
}

TEST(SharedMemory, NobodyCanChangeItsLength) {
  const auto memory = SharedMemory::create(100'000).value();
  EXPECT_NE(::ftruncate(memory->descriptor(), 0), 0);
  EXPECT_NE(::ftruncate(memory->descriptor(), 200'000), 0);
  EXPECT_EQ(memory->data()[99'999], std::byte{0});
}

// A file with the pattern as its content, made by somebody who may cut it off.
FileDescriptor foreign_file(const Bytes& content, unsigned flags) {
  FileDescriptor file(::memfd_create("test", MFD_CLOEXEC | flags));
  EXPECT_EQ(::write(file.get(), content.data(), content.size()),
            static_cast<ssize_t>(content.size()));
  return file;
}

TEST(SharedMemory, WhatWasReceivedStaysThoughItsSenderCutsItOff) {
  const Bytes bytes = pattern(100'000);
  for (const unsigned flags : {0U, MFD_ALLOW_SEALING}) {
    const FileDescriptor file = foreign_file(bytes, flags);
    const auto received = SharedMemory::map_private(file.get(), bytes.size()).value();
    const bool cut = ::ftruncate(file.get(), 0) == 0;
    EXPECT_EQ(cut, flags == 0);
    EXPECT_EQ(std::memcmp(received->data(), bytes.data(), bytes.size()), 0);
  }
}

TEST(SharedMemory, FillsFreshAndUsedMemoryAlike) {
  const Bytes bytes = pattern(20 * kMiB + 5);
  for (const std::size_t size : {8 * kMiB - 1, 8 * kMiB, bytes.size()}) {
    const ByteView part = ByteView(bytes).first(size);
    const auto memory = SharedMemory::create(size + 3).value();
    for (int round = 0; round < 3; ++round) {
      ASSERT_TRUE(memory->fill(part));
      ASSERT_EQ(std::memcmp(memory->data(), bytes.data(), size), 0) << size << " " << round;
      std::memset(memory->data(), 7, memory->size());
    }
  }
  const auto memory = SharedMemory::create(bytes.size()).value();
  const Status too_much = memory->fill(pattern(bytes.size() + 1));
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().kind, ErrorKind::invalid);
}

TEST(SharedMemory, IsWrittenInPartsOfAnySize) {
  const Bytes bytes = pattern(kMiB + 5);
  const auto memory = SharedMemory::create(bytes.size()).value();
  for (std::size_t done = 0; done < bytes.size();) {
    const ByteView part = ByteView(bytes).subspan(done);
    const std::size_t size = std::min(part.size(), std::size_t{10'007});
    ASSERT_TRUE(memory->write(done, part.first(size)));
    done += size;
    ASSERT_EQ(std::memcmp(memory->data(), bytes.data(), done), 0) << done;
  }
  for (const std::size_t offset : {bytes.size(), bytes.size() + 1, SIZE_MAX}) {
    EXPECT_EQ(memory->write(offset, ByteView(bytes).first(1)).error().kind, ErrorKind::invalid);
  }
  EXPECT_TRUE(memory->write(bytes.size(), {}));
}

TEST(SharedMemory, SizeZeroMeansTheWholeFile) {
  const auto sent = SharedMemory::create(12'345).value();
  EXPECT_EQ(SharedMemory::map_private(sent->descriptor(), 0).value()->size(), 12'345U);
}

TEST(SharedMemory, NothingIsASizeToo) {
  const auto sent = SharedMemory::create(0).value();
  ASSERT_TRUE(sent->fill({}));
  EXPECT_EQ(SharedMemory::map_private(sent->descriptor(), 0).value()->size(), 0U);
}

TEST(SharedMemory, AFileThatIsTooShortIsRefused) {
  const auto sent = SharedMemory::create(4096).value();
  const auto received = SharedMemory::map_private(sent->descriptor(), 4097);
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().kind, ErrorKind::invalid);
  EXPECT_NE(received.error().message.find("4097 bytes, but has 4096"), std::string::npos);
  EXPECT_FALSE(SharedMemory::map_private(-1, 1));
}

TEST(SharedMemory, WhatCannotBeHadIsExhausted) {
  const auto memory = SharedMemory::create(std::size_t{1} << 62);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().kind, ErrorKind::exhausted);
}

TEST(SharedMemory, MoreThanTheMachineHasIsExhausted) {
  const auto left = available_memory();
  if (!left) GTEST_SKIP() << "this system has no /proc/meminfo";
  EXPECT_GT(*left, std::uint64_t{1} << 20);
  const auto memory = SharedMemory::create(2 * *left);
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().kind, ErrorKind::exhausted);
  EXPECT_NE(memory.error().message.find("Cannot allocate memory"), std::string::npos);
}

TEST(SharedMemory, MoreThanAFileMayHoldIsExhausted) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = kMiB, .rlim_max = kMiB};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
    if (!SharedMemory::create(kMiB)) ::_exit(2);
    const auto refused = SharedMemory::create(kMiB + 1);
    if (refused || refused.error().kind != ErrorKind::exhausted) ::_exit(3);
    ::_exit(refused.error().hint.contains("ulimit -f") ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "it ended by a signal, or with " << WEXITSTATUS(status);
}

TEST(Arena, ASegmentComesBackWhenTheLastHolderLetsGo) {
  const auto arena = Arena::create(100 * kMiB);
  auto first = arena->acquire(kMiB).value();
  EXPECT_GE(first->memory->size(), kMiB);
  const std::byte* const where = first->memory->data();
  auto second_holder = first;
  first.reset();
  EXPECT_EQ(arena->idle_bytes(), 0U);
  second_holder.reset();
  EXPECT_EQ(arena->idle_bytes(), kMiB);
  EXPECT_EQ(arena->acquire(kMiB - 1000).value()->memory->data(), where);
}

TEST(Arena, ARetainedSegmentIsNotUsedAgain) {
  const auto arena = Arena::create(100 * kMiB);
  auto segment = arena->acquire(kMiB).value();
  segment->retained = true;
  segment.reset();
  EXPECT_EQ(arena->idle_bytes(), 0U);
}

TEST(Arena, MemoryThatSomebodyStillHoldsIsNotUsedAgain) {
  const auto arena = Arena::create(100 * kMiB);
  const auto memory = arena->acquire(kMiB).value()->memory;
  EXPECT_EQ(arena->idle_bytes(), 0U);
}

TEST(Arena, TakesTheBestFitAndNoHugeOne) {
  const auto arena = Arena::create(1000 * kMiB);
  auto two = arena->acquire(2 * kMiB).value();
  auto three = arena->acquire(3 * kMiB).value();
  auto hundred = arena->acquire(100 * kMiB).value();
  const std::byte* const three_data = three->memory->data();
  const std::byte* const hundred_data = hundred->memory->data();
  hundred.reset();
  three.reset();
  two.reset();
  const auto asked_two_and_a_half = arena->acquire(5 * kMiB / 2).value();
  EXPECT_EQ(asked_two_and_a_half->memory->data(), three_data);
  const auto asked_ten = arena->acquire(10 * kMiB).value();
  EXPECT_NE(asked_ten->memory->data(), hundred_data);
  const auto asked_fifty = arena->acquire(50 * kMiB).value();
  EXPECT_EQ(asked_fifty->memory->data(), hundred_data);
}

TEST(Arena, KeepsNoMoreThanItMayAndDropsTheLongestIdle) {
  const auto arena = Arena::create(5 * kMiB);
  std::vector<std::shared_ptr<Arena::Segment>> segments;
  for (int i = 0; i < 4; ++i) segments.push_back(arena->acquire(2 * kMiB).value());
  const std::byte* const last = segments[3]->memory->data();
  for (auto& segment : segments) segment.reset();
  EXPECT_EQ(arena->idle_bytes(), 4 * kMiB);
  arena->acquire(6 * kMiB).value().reset();  // more than may be kept in all
  EXPECT_EQ(arena->idle_bytes(), 4 * kMiB);
  const auto first_again = arena->acquire(2 * kMiB).value();
  const auto second_again = arena->acquire(2 * kMiB).value();
  EXPECT_TRUE(first_again->memory->data() == last || second_again->memory->data() == last);
}

TEST(Arena, DropsWhatWasNotUsedFromOneCallToTheNext) {
  const auto arena = Arena::create(100 * kMiB);
  auto one = arena->acquire(kMiB).value();
  auto two = arena->acquire(2 * kMiB).value();
  one.reset();
  arena->drop_unused();
  two.reset();
  EXPECT_EQ(arena->idle_bytes(), 3 * kMiB);
  arena->drop_unused();
  EXPECT_EQ(arena->idle_bytes(), 2 * kMiB);
  arena->acquire(2 * kMiB).value().reset();
  arena->drop_unused();
  EXPECT_EQ(arena->idle_bytes(), 2 * kMiB) << "it was used";
  arena->drop_unused();
  EXPECT_EQ(arena->idle_bytes(), 0U);
  arena->drop_unused();
}

TEST(Arena, SegmentsMayOutliveTheArena) {
  auto arena = Arena::create(100 * kMiB);
  const auto segment = arena->acquire(kMiB).value();
  arena.reset();
  segment->memory->data()[0] = std::byte{1};
}

constexpr rlim_t kStep = 1024;
constexpr int kTooLow = 77;

rlim_t file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// The exit code of a process that may open so many more files.
int code_with_files_left(rlim_t left, int (*body)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const FileDescriptor next(::dup(0));
    limit.rlim_cur = static_cast<rlim_t>(next.get()) + left;
    if (limit.rlim_max < limit.rlim_cur + kStep) ::_exit(kTooLow);
    ::_exit(::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? body() : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Arena, RaisesTheLimitOfOpenFilesBeforeNoneIsLeft) {
  const int code = code_with_files_left(100, [] {
    const rlim_t before = file_limit();
    const auto arena = Arena::create(kMiB);
    std::vector<std::shared_ptr<Arena::Segment>> held;
    while (held.size() < 300) {
      auto segment = arena->acquire(70'000);
      if (!segment) return 2;
      held.push_back(*std::move(segment));
      const int descriptor = held.back()->memory->descriptor();
      if (static_cast<rlim_t>(descriptor) + 100 > file_limit()) return 3;  // for an answer
    }
    return file_limit() == before + kStep ? 0 : 4;
  });
  if (code == kTooLow) GTEST_SKIP() << "this user may open few files";
  EXPECT_EQ(code, 0);
}

TEST(Arena, RaisesTheLimitOfOpenFilesOnlyIfThatHelps) {
  const int code = code_with_files_left(400, [] {
    const rlim_t before = file_limit();
    const auto arena = Arena::create(kMiB);
    if (arena->acquire(std::size_t{1} << 62)) return 2;
    if (file_limit() != before) return 3;
    while (::dup(0) >= 0) continue;
    if (!arena->acquire(70'000)) return 4;
    return file_limit() == before + kStep ? 0 : 5;
  });
  if (code == kTooLow) GTEST_SKIP() << "this user may open few files";
  EXPECT_EQ(code, 0);
}

TEST(Arena, ServesManyThreads) {
  const auto arena = Arena::create(8 * kMiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 300; ++i) {
        const auto segment = arena->acquire((i % 7 + 1) * 50'000).value();
        std::memset(segment->memory->data(), t, 50'000);
        ASSERT_EQ(segment->memory->data()[49'999], static_cast<std::byte>(t));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(arena->idle_bytes(), 8 * kMiB);
}

TEST(CopyBytes, CopiesAllOfAnySize) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, 8 * kMiB - 1, 8 * kMiB, 8 * kMiB + 1, 33 * kMiB + 12'345}) {
    const Bytes from = pattern(size);
    Bytes to(size);
    copy_bytes(to.data(), from);
    EXPECT_TRUE(to == from) << size;
  }
}

}  // namespace
}  // namespace skyward::io
