#include "skyward/engine/function_cache.h"

#include <gtest/gtest.h>

#include "skyward/spec/limits.h"

namespace skyward::engine {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

FunctionId function(std::uint8_t n) { return FunctionId{{n}}; }

wire::Buffer body(std::uint64_t size, std::uint64_t blob = 0) {
  return {.bytes = {}, .blob = {.id = BlobId{blob}, .size = size}, .offset = 0, .size = size};
}

TEST(FunctionCache, ABodyGoesOnce) {
  FunctionCache cache;
  EXPECT_TRUE(cache.use(function(1), body(kMiB)));
  EXPECT_FALSE(cache.use(function(1), body(kMiB)));
  cache.release(function(1));
  cache.release(function(1));
  EXPECT_FALSE(cache.use(function(1), body(kMiB)));
  cache.clear();
  EXPECT_TRUE(cache.use(function(1), body(kMiB)));
}

TEST(FunctionCache, TheLongestUnusedGoesAndComesAgain) {
  FunctionCache cache;
  for (std::uint8_t n = 1; n <= 3; ++n)
    cache.use(function(n), body(kMiB, static_cast<std::uint8_t>(10 + n)));
  EXPECT_TRUE(cache.shrink(0).empty());  // tasks need them all
  for (const std::uint8_t n : std::initializer_list<std::uint8_t>{2, 1, 3})
    cache.release(function(n));
  cache.use(function(2), body(kMiB));
  cache.release(function(2));  // the last that was used
  EXPECT_TRUE(cache.shrink(4 * kMiB).empty());
  const auto dropped = cache.shrink(2 * kMiB);
  ASSERT_EQ(dropped.size(), 2U);  // each weighs more than its body
  EXPECT_EQ(dropped[0].function, function(1));
  EXPECT_EQ(dropped[0].blob, BlobId{11});
  EXPECT_EQ(dropped[1].function, function(3));
  EXPECT_FALSE(cache.use(function(2), body(kMiB)));
  EXPECT_TRUE(cache.use(function(1), body(kMiB)));
}

TEST(FunctionCache, ALostBodyGoesAgain) {
  FunctionCache cache;
  cache.use(function(1), body(kMiB, 11));
  cache.use(function(1), body(kMiB, 11));
  cache.release(function(1));
  EXPECT_EQ(cache.lose(function(1)), BlobId{11});
  EXPECT_TRUE(cache.use(function(1), body(kMiB, 12))) << "while another task is there";
  EXPECT_FALSE(cache.use(function(1), body(kMiB, 12)));
  for (int task = 0; task < 3; ++task) cache.release(function(1));
  EXPECT_EQ(cache.lose(function(1)), BlobId{12});
  EXPECT_TRUE(cache.use(function(1), body(kMiB, 13)));
  EXPECT_TRUE(cache.shrink(0).empty()) << "a task needs it";
  cache.release(function(1));
  const auto dropped = cache.shrink(0);
  ASSERT_EQ(dropped.size(), 1U);
  EXPECT_EQ(dropped[0].blob, BlobId{13});
}

TEST(FunctionCache, SmallOnesAreManyInNoWorker) {
  FunctionCache cache;
  const auto numbered = [](int n) {
    return FunctionId{{static_cast<std::uint8_t>(n), static_cast<std::uint8_t>(n >> 8)}};
  };
  std::size_t dropped = 0;
  for (int n = 0; n < 10'000; ++n) {
    cache.use(numbered(n), body(1));
    cache.release(numbered(n));
    dropped += cache.shrink(kMaxKeptFunctionBytes).size();
  }
  EXPECT_GT(dropped, 10'000U - 4'100U);
  EXPECT_LT(dropped, 10'000U - 4'000U);
  EXPECT_FALSE(cache.use(numbered(9'999), body(1)));
  EXPECT_TRUE(cache.use(numbered(0), body(1)));
}

}  // namespace
}  // namespace skyward::engine
