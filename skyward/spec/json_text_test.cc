#include "skyward/spec/json_text.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// Every expectation was printed by CPython's json.dumps.
TEST(JsonText, IsWhatPythonWrites) {
  EXPECT_EQ(quoted(""), R"("")");
  EXPECT_EQ(quoted("torch>=2 ~!"), R"("torch>=2 ~!")");
  EXPECT_EQ(quoted("/\"\\"), R"("/\"\\")");
  EXPECT_EQ(quoted("\n\r\t\f\b"), R"("\n\r\t\f\b")");
  EXPECT_EQ(quoted(std::string_view("\0\x01\x1f\x7f", 4)), R"("\u0000\u0001\u001f\u007f")");
  EXPECT_EQ(quoted("é"), R"("\u00e9")");
  EXPECT_EQ(quoted("\u0800\uffff"), R"("\u0800\uffff")");
  EXPECT_EQ(quoted("\U00010000\U0001F600\U0010FFFF"), R"("\ud800\udc00\ud83d\ude00\udbff\udfff")");
}

TEST(JsonText, BytesThatAreNotUtf8StayDistinct) {
  EXPECT_EQ(quoted("a\xff"), R"("a\udcff")");
  EXPECT_EQ(quoted("\xc0\x80"), R"("\udcc0\udc80")");                      // overlong NUL
  EXPECT_EQ(quoted("\xed\xa0\x80"), R"("\udced\udca0\udc80")");            // a surrogate
  EXPECT_EQ(quoted("\xf4\x90\x80\x80"), R"("\udcf4\udc90\udc80\udc80")");  // above U+10FFFF
  EXPECT_EQ(quoted("\xe2\x82"), R"("\udce2\udc82")");                      // cut short
}

}  // namespace
}  // namespace skyward
