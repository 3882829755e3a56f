#include "skyward/provider/aws/xml.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace skyward::provider::aws {
namespace {

TEST(Xml, ElementsListsAndText) {
  const auto root = parse_xml(R"(<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment --><Reply xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
  <set><item><id>i-1</id><tag a="x>y" b='"'/></item><item><id> i&amp;2 </id></item></set>
  <empty/><raw><![CDATA[<not & xml>]]></raw><n:name>v</n:name>&#65;&#x20AC;
</Reply>)");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->name, "Reply");
  ASSERT_EQ(root->items("set").size(), 2U);
  EXPECT_EQ(root->items("set")[0]->value("id"), "i-1");
  EXPECT_EQ(root->items("set")[1]->value("id"), " i&2 ");
  EXPECT_EQ(root->value("set/item/id"), "i-1") << "the first";
  EXPECT_EQ(root->value("raw"), "<not & xml>");
  EXPECT_EQ(root->value("name"), "v");
  EXPECT_EQ(root->text, "A\xE2\x82\xAC");
  EXPECT_NE(root->find("empty"), nullptr);
  EXPECT_EQ(root->find("none/below"), nullptr);
  EXPECT_TRUE(root->items("none").empty());
}

TEST(Xml, WhatIsNoWholeDocumentIsRefused) {
  for (const char* text : {"", "  ", "text", "<a>", "<a><b></a>", "<a", "<a>x</a", "<!-- ",
                           "<>x</>", "{\"json\": 1}", "<a><![CDATA[x</a>"}) {
    const auto refused = parse_xml(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
  }
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  EXPECT_FALSE(parse_xml(deep));
}

TEST(Xml, AnUnknownEntityStaysAsItIs) {
  EXPECT_EQ(parse_xml("<a>x &nope; & &#0; &#xZZ; y</a>")->text, "x &nope; & &#0; &#xZZ; y");
}

TEST(Xml, ATreeIsBounded) {
  const auto many = [](int count) {
    std::string text = "<R>";
    for (int i = 0; i < count; ++i) text += "<a/>";
    return text + "</R>";
  };
  EXPECT_TRUE(parse_xml(many(100'000)));
  EXPECT_FALSE(parse_xml(many(1'000'000))) << "it would take many times the bytes of its text";
}

// Every cut and every changed byte of a reply is answered without harm.
TEST(Xml, BrokenRepliesDoNoHarm) {
  const std::string whole =
      "<?xml version=\"1.0\"?><R "
      "a='b'><set><item><id>i&amp;1</id></item><e/></set><![CDATA[x]]></R>";
  ASSERT_TRUE(parse_xml(whole));
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_FALSE(parse_xml(whole.substr(0, i)));
  std::mt19937 generator(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = whole;
    for (int change = 0; change < 3; ++change) {
      text[generator() % text.size()] = static_cast<char>("<>/&;'!\0a[]?"[generator() % 12]);
    }
    const auto parsed = parse_xml(text);
    EXPECT_TRUE(!parsed || !parsed->name.empty());
  }
}

}  // namespace
}  // namespace skyward::provider::aws
