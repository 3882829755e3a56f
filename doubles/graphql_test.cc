#include "doubles/graphql.h"

#include <gtest/gtest.h>

namespace skyward::doubles {
namespace {

TEST(GraphQL, IsReadWithAliasesArgumentsAndVariables) {
  const auto read = read_operation(
      R"(mutation Rent($bid: Float!, $tags: [String!]! = ["a"]) {
           rented: podRent(input: {bidPerGpu: $bid, name: "a \"b\"", cloud: SECURE, n: -2,
                                   on: true, none: null, tags: $tags}) { id machine { host } }
         })",
      {{"bid", 0.5}});
  ASSERT_TRUE(read) << read.error();
  EXPECT_EQ(read->kind, "mutation");
  ASSERT_EQ(read->fields.size(), 1U);
  const Selection& field = read->fields[0];
  EXPECT_EQ(field.key, "rented");
  EXPECT_EQ(field.name, "podRent");
  EXPECT_EQ(field.arguments["input"], Json::parse(R"({"bidPerGpu": 0.5, "name": "a \"b\"",
      "cloud": "SECURE", "n": -2, "on": true, "none": null, "tags": ["a"]})"));
  ASSERT_EQ(field.fields.size(), 2U);
  EXPECT_EQ(field.fields[1].fields[0].name, "host");
  EXPECT_EQ(read_operation("{ a b { c } }", Json::object())->kind, "query");
}

TEST(GraphQL, WhatCannotBeReadIsRefused) {
  for (const char* document :
       {"", "{", "{ }", "{ a", "{ a } { b }", "subscription { a }", "{ ...F }", "{ a @skip }",
        "{ a(b: $c) }", "{ a(b: \"c) }", "{ a(b: \"\\q\") }", "{ a(b: ) }", "{ a(b: [1 }"}) {
    EXPECT_FALSE(read_operation(document, Json::object())) << document;
  }
  EXPECT_FALSE(read_operation("{ a }", {{"b", 1}})) << "a variable that nobody defined";
  const std::string deep(100, '{');
  EXPECT_FALSE(read_operation("{a" + deep, Json::object()));
}

TEST(GraphQL, SelectionsTakeWhatIsThereAndNothingElse) {
  const auto read = read_operation("{ x: a { b } c }", Json::object());
  std::vector<std::string> wrong;
  const Json object{{"a", {{{"b", 1}, {"d", 2}}, {{"b", 3}, {"d", 4}}}}, {"c", {"t", "u"}}};
  EXPECT_EQ(select(object, read->fields, wrong),
            Json::parse(R"({"x": [{"b": 1}, {"b": 3}], "c": ["t", "u"]})"));
  EXPECT_TRUE(wrong.empty());
  select({{"a", nullptr}}, read->fields, wrong);
  EXPECT_EQ(wrong, std::vector<std::string>{"Cannot query field \"c\""});
  wrong.clear();
  select({{"a", 1}, {"c", {{"d", 1}}}}, read->fields, wrong);
  EXPECT_EQ(wrong.size(), 2U) << "a value has no parts, and an object has";
}

}  // namespace
}  // namespace skyward::doubles
