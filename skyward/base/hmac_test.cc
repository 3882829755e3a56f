#include "skyward/base/hmac.h"

#include <gtest/gtest.h>

#include <string>

namespace skyward {
namespace {

// RFC 4231, cases 2 and 6.
TEST(HmacSha256, HasThePublishedValues) {
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(to_hex(hmac_sha256(std::string(131, '\xaa'),
                               "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(EqualInConstantTime, ComparesEveryByte) {
  EXPECT_TRUE(equal_in_constant_time("ab", "ab"));
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_FALSE(equal_in_constant_time("ab", "aB"));
  EXPECT_FALSE(equal_in_constant_time("ab", "abc"));
}

}  // namespace
}  // namespace skyward
