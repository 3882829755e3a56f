#include "skyward/spec/json_text.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

// Every expectation was printed by CPython's json.dumps.
TEST(JsonText, IsWhatPythonWrites) {
  EXPECT_EQ(json_string(""), R"("")");
  EXPECT_EQ(json_string("torch>=2 ~!"), R"("torch>=2 ~!")");
  EXPECT_EQ(json_string("/\"\\"), R"("/\"\\")");
  EXPECT_EQ(json_string("\n\r\t\f\b"), R"("\n\r\t\f\b")");
  EXPECT_EQ(json_string(std::string_view("\0\x01\x1f\x7f", 4)), R"("\u0000\u0001\u001f\u007f")");
  EXPECT_EQ(json_string("é"), R"("\u00e9")");
  EXPECT_EQ(json_string("\u0800\uffff"), R"("\u0800\uffff")");
  EXPECT_EQ(json_string("\U00010000\U0001F600\U0010FFFF"),
            R"("\ud800\udc00\ud83d\ude00\udbff\udfff")");
}

TEST(JsonText, BytesThatAreNotUtf8StayDistinct) {
  EXPECT_EQ(json_string("a\xff"), R"("a\udcff")");
  EXPECT_EQ(json_string("\xc0\x80"), R"("\udcc0\udc80")");                      // overlong NUL
  EXPECT_EQ(json_string("\xed\xa0\x80"), R"("\udced\udca0\udc80")");            // a surrogate
  EXPECT_EQ(json_string("\xf4\x90\x80\x80"), R"("\udcf4\udc90\udc80\udc80")");  // above U+10FFFF
  EXPECT_EQ(json_string("\xe2\x82"), R"("\udce2\udc82")");                      // cut short
}

}  // namespace
}  // namespace skyward
