#include "skyward/wire/group.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skyward/wire/test_messages.h"

namespace skyward::wire {
namespace {

std::vector<std::string> texts(const std::vector<ByteView>& views) {
  std::vector<std::string> texts;
  for (const ByteView view : views) texts.emplace_back(as_text(view));
  return texts;
}

Payload one_buffer(std::string bytes) {
  Payload payload;
  payload.buffers = {small_buffer(shared_text(std::move(bytes)))};
  return payload;
}

TEST(Group, ArgumentsComeOutAsTheyWentIn) {
  GroupWriter group;
  const std::vector<std::string> given{"one", "", "three"};
  for (const std::string& one : given) EXPECT_TRUE(group.add(as_bytes(one)));
  EXPECT_EQ(group.calls(), 3U);
  EXPECT_EQ(texts(group_arguments(group.take()).value()), given);
  EXPECT_EQ(group.calls(), 0U);
}

TEST(Group, TakesSoManyCallsAndSoManyBytes) {
  GroupWriter many;
  for (std::uint32_t i = 0; i < kMaxGroupCalls; ++i) EXPECT_TRUE(many.add(as_bytes("x")));
  EXPECT_FALSE(many.add(as_bytes("x")));
  EXPECT_EQ(group_arguments(many.take())->size(), kMaxGroupCalls);
  GroupWriter large;
  EXPECT_FALSE(large.add(as_bytes(std::string(kMaxGroupBytes, 'x'))));
  EXPECT_TRUE(large.add(as_bytes(std::string(kMaxGroupBytes - 4, 'x'))));
  EXPECT_FALSE(large.add({}));
}

TEST(Group, ItemsComeOutAsTheyWentIn) {
  GroupItemWriter item;
  EXPECT_TRUE(item.empty());
  item.add(as_bytes("first"));
  item.withdraw(7);
  item.add(as_bytes(""));
  const Payload payload = item.take();
  EXPECT_TRUE(item.empty());
  const auto read = group_item(payload);
  EXPECT_EQ(texts(read->results), (std::vector<std::string>{"first", ""}));
  EXPECT_EQ(read->withdrawn, 7U);
  EXPECT_EQ(group_item_head(payload)->results, 2U);
  EXPECT_EQ(group_item_head(payload)->withdrawn, 7U);
  item.withdraw(2);
  const Payload rest = item.take();
  EXPECT_TRUE(group_item(rest)->results.empty());
  EXPECT_EQ(group_item(rest)->withdrawn, 2U);
}

TEST(Group, WhatIsMalformedIsRefused) {
  using namespace std::string_literals;
  for (const std::string& bytes :
       {"\1\0\0"s, "\4\0\0\0xxx"s, "\377\377\377\377x"s, "\0\0\0\0\1\0\0\0y\1"s}) {
    EXPECT_EQ(group_arguments(one_buffer(bytes)).error().kind, ErrorKind::invalid) << bytes.size();
  }
  std::string many;
  for (std::uint32_t i = 0; i <= kMaxGroupCalls; ++i) many += "\0\0\0\0"s;
  EXPECT_FALSE(group_arguments(one_buffer(many)));
  for (const std::string& bytes : {""s, "\0\0\0\0"s, "\1\0\0\0\0\0\0\0"s,
                                   "\0\0\0\0\0\0\0\0\1\0\0\0x"s, "\1\0\0\0\0\0\0\0\2\0\0\0x"s}) {
    EXPECT_EQ(group_item(one_buffer(bytes)).error().kind, ErrorKind::invalid) << bytes.size();
  }
  EXPECT_FALSE(group_item({}));
  EXPECT_FALSE(group_item_head({}));
  EXPECT_FALSE(group_item_head(one_buffer("\0\0\0\0\0\0\0"s)));
  EXPECT_FALSE(group_arguments(rich_payload()));
}

}  // namespace
}  // namespace skyward::wire
