#include "skyward/engine/link_uploads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <filesystem>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "skyward/base/hash.h"
#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;

SharedBytes unpacked(const SharedBytes& packed) {
  auto back = io::run_command({.command = {"gzip", "-dc"}}, 60s, as_text(packed.view));
  return back ? SharedBytes(std::move(back->out)) : SharedBytes();
}

// Pools last longer than the cache that their archives lie in.
TEST(Uploads, AreReadAfterTheirNamesAreGone) {
  const std::string path = ::testing::TempDir() + "upload-" + io::random_hex(12);
  const std::string text = "text of " + path;
  ASSERT_TRUE(io::write_private_file(path, text));
  const EntryFile file{
      .path = path,
      .hash = to_hex(sha256(as_bytes(text))),
      .place = {},
      .file = std::make_shared<const io::FileDescriptor>(io::open_file(path).value())};
  std::filesystem::remove(path);
  const auto plain = load_upload(file, false);
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(as_text(plain->view), text);
  const auto packed = load_upload(file, true);
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_EQ(as_text(unpacked(*packed).view), text);
}

TEST(Uploads, MayGrowWhenTheyArePacked) {
  std::mt19937_64 random;
  std::string text;
  while (text.size() < 1000000) text.append(1, static_cast<char>(random()));
  const std::string path = ::testing::TempDir() + "upload-" + io::random_hex(12);
  ASSERT_TRUE(io::write_private_file(path, text));
  const EntryFile file{.path = path, .hash = to_hex(sha256(as_bytes(text))), .place = {}};
  const auto packed = load_upload(file, true);
  ASSERT_TRUE(packed) << packed.error().message;
  EXPECT_GT(packed->size(), text.size());
  EXPECT_EQ(as_text(unpacked(*packed).view), text);
  std::filesystem::remove(path);
}

class UploadCacheTest : public testing::Test {
 protected:
  SharedBytes get(const std::string& key, std::size_t size) {
    return *cache_.get(key, [&]() -> Result<SharedBytes> {
      ++made_;
      return SharedBytes(std::string(size, 'x'));
    });
  }
  UploadCache cache_{100};
  std::atomic<int> made_ = 0;
};

TEST_F(UploadCacheTest, KeepsTheLatest) {
  const std::weak_ptr<const void> first = get("a", 40).owner;
  get("b", 40);
  get("a", 40);
  EXPECT_EQ(made_, 2);
  const std::weak_ptr<const void> third = get("c", 40).owner;
  EXPECT_FALSE(first.expired()) << "used after b";
  get("b", 40);
  EXPECT_EQ(made_, 4);
  EXPECT_TRUE(first.expired());
  EXPECT_FALSE(third.expired());
}

TEST_F(UploadCacheTest, SharesWhatIsLargeWhileItIsSent) {
  SharedBytes large = get("a", 101);
  EXPECT_EQ(get("a", 101).owner, large.owner);
  const std::weak_ptr<const void> owner = large.owner;
  large = {};
  EXPECT_TRUE(owner.expired());
}

TEST_F(UploadCacheTest, MakesOneWhileItMakesAnother) {
  std::binary_semaphore begun{0};
  std::binary_semaphore other_made{0};
  const auto make = [&]() -> Result<SharedBytes> {
    begun.release();
    EXPECT_TRUE(other_made.try_acquire_for(20s));
    return SharedBytes(std::string(1, 'x'));
  };
  const std::jthread first([&] { EXPECT_TRUE(cache_.get("a", make)); });
  ASSERT_TRUE(begun.try_acquire_for(20s));
  EXPECT_EQ(get("b", 1).size(), 1U);
  other_made.release();
}

TEST_F(UploadCacheTest, MakesTheSameOnce) {
  std::barrier all{4};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        all.arrive_and_wait();
        EXPECT_EQ(get("a", 1).size(), 1U);
      });
    }
  }
  EXPECT_EQ(made_, 1);
}

TEST_F(UploadCacheTest, AFailureIsNotKept) {
  EXPECT_FALSE(cache_.get("a", [] { return fail(ErrorKind::invalid, "none"); }));
  EXPECT_EQ(get("a", 1).size(), 1U);
}

}  // namespace
}  // namespace skyward::engine
