#include "skyward/wire/peer_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace skyward::wire {
namespace {

using ::testing::HasSubstr;

const PeerRequest kRequest{.content = {1, 2, 3, 255}, .size = 1'000'000, .offset = 70'000};

std::string part(std::uint32_t length, const std::string& bytes) {
  return std::string(as_text(encode_peer_prefix(length))) + bytes;
}

// Everything that the reader finds when the text comes in pieces of `step` bytes.
std::string read(const std::string& text, std::size_t step) {
  PeerReader reader;
  std::string found;
  for (std::size_t at = 0; at < text.size(); at += step) {
    ByteView bytes = as_bytes(text).subspan(at, std::min(step, text.size() - at));
    while (!bytes.empty()) {
      const auto next = reader.next(bytes);
      if (!next) return found + " (" + next.error().message + ")";
      found += as_text(*next);
    }
  }
  return found;
}

TEST(PeerProtocol, ARequestArrivesAsItWas) {
  const auto bytes = encode_peer_request(kRequest);
  const auto request = decode_peer_request(bytes);
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(*request, kRequest);
}

TEST(PeerProtocol, WhatIsNoRequestIsRefused) {
  auto bytes = encode_peer_request(kRequest);
  EXPECT_EQ(decode_peer_request(ByteView(bytes).first(39)).error().kind, ErrorKind::invalid);
  bytes[4] = std::byte{2};
  EXPECT_EQ(decode_peer_request(bytes).error().kind, ErrorKind::unsupported);
  EXPECT_THAT(decode_peer_request(bytes).error().message, HasSubstr("version 2"));
  bytes[0] = std::byte{'G'};
  EXPECT_EQ(decode_peer_request(bytes).error().kind, ErrorKind::invalid);
  PeerRequest past = kRequest;
  past.offset = past.size + 1;
  EXPECT_EQ(decode_peer_request(encode_peer_request(past)).error().kind, ErrorKind::invalid);
}

TEST(PeerProtocol, PartsComeTogetherHoweverTheyAreCut) {
  const std::string text =
      part(5, "hello") + part(0, "") + part(0, "") + part(1, " ") + part(5, "world");
  for (const std::size_t step : {1, 2, 3, 5, 7, 100}) EXPECT_EQ(read(text, step), "hello world");
}

TEST(PeerProtocol, ASourceThatHasNothingSaysSo) {
  for (const std::size_t step : {1, 100}) {
    EXPECT_EQ(read(part(2, "ab") + part(kPeerMissing, ""), step),
              "ab (it does not have the bytes)");
  }
}

TEST(PeerProtocol, AnEndlessPartIsRefused) {
  EXPECT_EQ(read(part(kMaxPeerPartBytes + 1, ""), 100), " (it announces a part of 1048577 bytes)");
}

}  // namespace
}  // namespace skyward::wire
