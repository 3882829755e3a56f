#include "skyward/provider/marks.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

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

// The boot of this computer began at 200.
bool is_from_here(std::map<std::string, std::string> settings, std::int64_t opened_s) {
  return opened_here({.id = "p", .settings = std::move(settings), .opened_s = opened_s}, 200,
                     {{"host", "mine"}, {"boot", "now"}, {"computer", "1111"}, {"ledger", "7"}});
}

TEST(Marks, AComputerKnowsItsPoolsByItsBoot) {
  EXPECT_TRUE(is_from_here({{"host", "mine"}, {"boot", "now"}, {"computer", "1111"}}, 300));
  EXPECT_TRUE(is_from_here({{"host", "another"}, {"boot", "now"}}, 300)) << "renamed";
  EXPECT_TRUE(is_from_here({{"host", "another"}, {"boot", "now"}, {"computer", "2222"}}, 300))
      << "a container of this computer";
  const WorldFixture here;
  EXPECT_TRUE(opened_here({.id = "p", .settings = this_computer(here.world)}, here.world));
}

// Its locks are other files, which nobody holds: in a container with a copy of the home, say.
TEST(Marks, APoolInACopyOfItsLedgerWasOpenedElsewhere) {
  std::map<std::string, std::string> settings = {
      {"host", "mine"}, {"boot", "now"}, {"computer", "1111"}, {"ledger", "7"}};
  EXPECT_TRUE(is_from_here(settings, 300));
  settings["ledger"] = "8";
  EXPECT_FALSE(is_from_here(settings, 300));
  settings["ledger"] = "";
  EXPECT_TRUE(is_from_here(settings, 300)) << "an older version wrote it";
}

TEST(Marks, AComputerKnowsItsPoolsByItsIdAndNameAfterAReboot) {
  EXPECT_TRUE(is_from_here({{"host", "mine"}, {"boot", "then"}, {"computer", "1111"}}, 100));
  EXPECT_FALSE(is_from_here({{"host", "another"}, {"boot", "then"}, {"computer", "1111"}}, 100))
      << "this computer is a copy of another one's disk";
  EXPECT_FALSE(is_from_here({{"host", "mine"}, {"boot", "then"}, {"computer", "2222"}}, 100))
      << "the home was copied from a computer of the same name";
  EXPECT_FALSE(is_from_here({{"host", "mine"}, {"boot", "then"}, {"computer", "1111"}}, 300))
      << "a copy of a virtual machine: this computer ran then, in this boot";
}

TEST(Marks, AComputerWithoutAnIdIsKnownByItsName) {
  EXPECT_TRUE(is_from_here({{"host", "mine"}, {"boot", "then"}}, 100));
  EXPECT_TRUE(is_from_here({{"host", "mine"}, {"boot", "then"}, {"computer", ""}}, 100));
  EXPECT_FALSE(is_from_here({{"host", "another"}, {"boot", "then"}}, 100));
  EXPECT_FALSE(is_from_here({{"host", "mine"}, {"boot", "then"}}, 300))
      << "this computer ran then, in this boot";
  EXPECT_TRUE(is_from_here({{"host", "mine"}}, 300)) << "an older version wrote it";
  const std::map<std::string, std::string> bare = {
      {"host", "mine"}, {"boot", "now"}, {"computer", ""}};
  EXPECT_TRUE(opened_here(
      {.id = "p", .settings = {{"host", "mine"}, {"computer", "1111"}}, .opened_s = 1}, 200, bare));
}

TEST(Marks, AComputerBootedWhenItDidHoweverLongItSlept) {
  WorldFixture here;
  const std::int64_t then_s = booted_s(here.world);
  here.now += std::chrono::hours(1);
  here.asleep += std::chrono::hours(2);
  here.wall_s += 3 * 3600;
  EXPECT_EQ(booted_s(here.world), then_s);
}

}  // namespace
}  // namespace skyward::provider
