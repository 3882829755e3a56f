#include <gtest/gtest.h>

#include "skyward/spec/image.h"

namespace skyward {
namespace {

TEST(ImageHash, IsPythonsHashOfTheCanonicalText) {
  EXPECT_EQ((Image{}).content_hash(), "58316d12063e");
  EXPECT_EQ((Image{.pip = {"torch", "numpy"}}).content_hash(), "23168a3db57d");
  EXPECT_EQ((Image{.pip = {"numpy", "torch"}}).content_hash(), "23168a3db57d");
  EXPECT_EQ((Image{.python = "3.12", .pip = {"torch"}, .apt = {"git"}, .env = {{"A", "1"}}})
                .content_hash(),
            "bc22483d0b0a");
  EXPECT_EQ((Image{.pip = {"torch", "é"}}).content_hash(), "293b3ef5fe4e");
  EXPECT_EQ((Image{.pip = {"\U0001F600\x7f\"\\\n\t\b\f\r\x01"},
                   .pip_extra_index_url = "https://e.org/é",
                   .env = {{"Z", "ü"}, {"A", ""}}})
                .content_hash(),
            "163c7bf97ace");
}

TEST(ImageHash, SeesEveryField) {
  const std::string plain = Image{}.content_hash();
  EXPECT_NE((Image{.python = "3.12"}).content_hash(), plain);
  EXPECT_NE((Image{.pip = {"a"}}).content_hash(), plain);
  EXPECT_NE((Image{.pip_extra_index_url = "https://a"}).content_hash(), plain);
  EXPECT_NE((Image{.apt = {"a"}}).content_hash(), plain);
  EXPECT_NE((Image{.env = {{"a", ""}}}).content_hash(), plain);
  EXPECT_NE((Image{.pip = {"a"}}).content_hash(), (Image{.apt = {"a"}}).content_hash());
}

}  // namespace
}  // namespace skyward
