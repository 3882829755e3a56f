#include "skyward/provider/base64.h"

#include <gtest/gtest.h>

namespace skyward::provider {
namespace {

// RFC 4648, section 10.
TEST(Base64, IsAsPublished) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace skyward::provider
