#include "skyward/provider/marks.h"

#include <gtest/gtest.h>

#include <string>

namespace skyward::provider {
namespace {

// A pool's id becomes part of paths, and others may write tags.
TEST(Marks, NameAPoolAndNoPath) {
  const Mark mark{.pool = "aws-1a2b3c4d", .owner = "me", .expires_s = 7};
  EXPECT_EQ(read_mark(to_tags(mark)), mark);
  for (const char* id : {"", "../../etc", "/etc", "a/b", ".", "-rf", "A", "a b", "a\n"}) {
    EXPECT_EQ(read_mark(to_tags({.pool = id, .owner = "me", .expires_s = 7})), std::nullopt) << id;
  }
  EXPECT_EQ(read_mark(to_tags({.pool = std::string(65, 'a'), .owner = "me", .expires_s = 7})),
            std::nullopt);
}

TEST(Marks, TellWhichNodesAMachineIsFor) {
  EXPECT_EQ(nodes_text(2, 1), "2");
  EXPECT_EQ(nodes_text(0, 4), "0-3");
}

TEST(Marks, AComputerKnowsItsPoolsByItsNameOrItsBoot) {
  const LedgerPool mine{.id = "p", .settings = this_computer()};
  EXPECT_TRUE(opened_here(mine));
  LedgerPool renamed = mine;
  renamed.settings["host"] = "another name";
  EXPECT_TRUE(opened_here(renamed)) << "until it boots";
  LedgerPool other = renamed;
  other.settings["boot"] = "another boot";
  EXPECT_FALSE(opened_here(other));
}

}  // namespace
}  // namespace skyward::provider
