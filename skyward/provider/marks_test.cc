#include "skyward/provider/marks.h"

#include <gtest/gtest.h>

#include <string>

#include "skyward/provider/world_fixture.h"

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

TEST(Marks, WhatIsNotMarkedAsOursIsNobodys) {
  const Mark mark{.pool = "aws-1a2b3c4d", .owner = "me", .expires_s = 7};
  const auto with = [&](const std::string& name, const std::string& value) {
    Tags tags = to_tags(mark);
    for (auto& [tag, text] : tags) {
      if (tag == name) text = value;
    }
    return read_mark(tags);
  };
  EXPECT_EQ(with(kManagedTag, "true"), mark);
  EXPECT_EQ(with(kManagedTag, "false"), std::nullopt);
  EXPECT_EQ(with(kOwnerTag, ""), std::nullopt);
  EXPECT_EQ(with(kExpiresTag, "0"), std::nullopt);
  EXPECT_EQ(with(kExpiresTag, "soon"), std::nullopt);
  Tags unmanaged = to_tags(mark);
  std::erase_if(unmanaged, [](const auto& tag) { return tag.first == kManagedTag; });
  EXPECT_EQ(read_mark(unmanaged), std::nullopt);
}

TEST(Marks, AreANameWhereThereAreNoTags) {
  const MarkedName machine{
      .mark = {.pool = "cloud-1a2b3c4d", .owner = owner_digits("me"), .expires_s = 4'000'000'000},
      .rest = "0123456789abcdef-9"};
  const std::string name = to_name(machine);
  EXPECT_LE(name.size(), 63U) << name;
  EXPECT_EQ(read_name(name, "cloud"), machine);
  EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
  EXPECT_NE(owner_digits("me"), owner_digits("you"));
}

TEST(Marks, ANameOfSomebodyElseIsNone) {
  EXPECT_TRUE(read_name("skyward-1a2b3c4d-3f2a1b7c-6744abcd-key", "cloud"));
  for (const char* name :
       {"", "skyward-", "skyward-1a2b3c4d", "skyward-1a2b3c4d-3f2a1b7c-6744abcd",
        "skyward-1a2b3c4d-3f2a1b7c-6744abcd-", "skyward--3f2a1b7c-6744abcd-key",
        "skyward-1a2b3c4d-3f2a1b7-6744abcd-key", "skyward-1a2b3c4d-3F2A1B7C-6744abcd-key",
        "skyward-1a2b3c4d-3f2a1b7c-0-key", "skyward-1a2b3c4d-3f2a1b7c-67x-key",
        "skyward-1a2b3c4d-3f2a1b7c-fffffffffffffffff-key", "skyward-../..-3f2a1b7c-6744abcd-key",
        "Skyward-1a2b3c4d-3f2a1b7c-6744abcd-key", "my-skyward-1a2b3c4d-3f2a1b7c-6744abcd-key",
        "skyward-1a2b3c4d-3f2a1b7c-6744abcd-a-name-that-is-far-too-long-for-one-of-ours"}) {
    EXPECT_EQ(read_name(name, "cloud"), std::nullopt) << name;
  }
}

TEST(Marks, TellWhichNodesAMachineIsFor) {
  EXPECT_EQ(nodes_text(2, 1), "2");
  EXPECT_EQ(nodes_text(0, 4), "0-3");
}

TEST(Marks, AComputerKnowsItsPoolsByItsNameOrItsBoot) {
  constexpr std::int64_t kBooted_s = 200;
  const LedgerPool mine{.id = "p", .settings = this_computer(), .opened_s = 100};
  EXPECT_TRUE(opened_here(mine, kBooted_s));
  LedgerPool renamed = mine;
  renamed.settings["host"] = "another name";
  EXPECT_TRUE(opened_here(renamed, kBooted_s)) << "until it boots";
  LedgerPool booted = mine;
  booted.settings["boot"] = "another boot";
  EXPECT_TRUE(opened_here(booted, kBooted_s));
  LedgerPool other = renamed;
  other.settings["boot"] = "another boot";
  EXPECT_FALSE(opened_here(other, kBooted_s));
}

TEST(Marks, AComputerBootedWhenItDidHoweverLongItSlept) {
  WorldFixture here;
  const std::int64_t then_s = booted_s(here.world);
  here.now += std::chrono::hours(1);
  here.asleep += std::chrono::hours(2);
  here.wall_s += 3 * 3600;
  EXPECT_EQ(booted_s(here.world), then_s);
}

TEST(Marks, AComputerKnowsThePoolsOfOthersThatHaveItsName) {
  LedgerPool pool{.id = "p", .settings = this_computer(), .opened_s = 300};
  EXPECT_TRUE(opened_here(pool, 200));
  pool.settings["boot"] = "another boot";
  EXPECT_FALSE(opened_here(pool, 200)) << "this computer ran then, in this boot";
  EXPECT_TRUE(opened_here(pool, 400));
  pool.settings.erase("boot");
  EXPECT_TRUE(opened_here(pool, 200)) << "an older version wrote it";
}

}  // namespace
}  // namespace skyward::provider
