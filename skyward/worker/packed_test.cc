#include "skyward/worker/packed.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "skyward/call/error.h"
#include "skyward/call/map_blob.h"
#include "skyward/spec/limits.h"

namespace skyward {
namespace {

TEST(Packed, KeepsSmallAndLargeParts) {
  std::vector<double> large(kBlobThresholdBytes);
  std::iota(large.begin(), large.end(), 0.5);
  ArchiveWriter writer(memory_store());
  writer(std::string("small"), large, 7);
  const std::string text = packed(writer.finish());

  const wire::Payload payload = unpacked(SharedBytes(text));
  EXPECT_EQ(payload.buffers.size(), 2U);
  ArchiveReader reader(payload, &map_blob);
  std::string small;
  std::vector<double> received;
  int number = 0;
  reader(small, received, number);
  EXPECT_EQ(small, "small");
  EXPECT_EQ(received, large);
  EXPECT_EQ(number, 7);
}

TEST(Packed, RefusesBytesThatEndEarly) {
  ArchiveWriter writer(memory_store());
  writer(std::string("text"));
  const std::string text = packed(writer.finish());
  for (std::size_t size = 1; size < text.size(); ++size) {
    EXPECT_THROW(unpacked(SharedBytes(text.substr(0, size))), SerializationError) << size;
  }
}

}  // namespace
}  // namespace skyward
