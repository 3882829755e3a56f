#include "skyward/agent/peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/io/own_process.h"
#include "skyward/io/tcp_socket.h"

namespace skyward::agent {
namespace {

using ::testing::HasSubstr;
using wire::FetchEnd;

constexpr auto kPeerTimeout = std::chrono::seconds(30);
constexpr std::size_t kBig = (std::size_t{5} << 20) + 17;
const std::string kSecret(64, 's');
const wire::ContentId kContent{1, 2, 3};

std::string big_text() {
  std::string text(kBig, 'x');
  for (std::size_t i = 0; i < text.size(); i += 100) text[i] = static_cast<char>(i / 100);
  return text;
}

// An agent, as far as its peers see it.
struct Agent {
  explicit Agent(io::EventLoop& loop, std::function<void()> look)
      : peers(loop, inbox, [this, look](wire::BlobFetched fetched) {
          answers.push_back(std::move(fetched));
          look();
        }) {}

  std::string text(BlobId blob) const {
    const auto part = inbox.find(blob);
    return part ? std::string(as_text(part->bytes)) : "(gone)";
  }

  wire::BlobInbox inbox{[](std::uint64_t size) -> Result<wire::BlobInbox::Room> {
    auto bytes = std::make_shared<Bytes>(size);
    wire::BlobInbox::Room room;
    room.bytes = *bytes;
    room.blob.storage = std::move(bytes);
    return room;
  }};
  std::vector<wire::BlobFetched> answers;
  Peers peers;
  std::uint16_t port = 0;
};

class PeersTest : public testing::Test {
 protected:
  void SetUp() override { io::ignore_write_signals(); }

  Agent& start(const std::string& pool = "pool", const std::string& secret = kSecret) {
    agents.push_back(std::make_unique<Agent>(loop, [this] { look(); }));
    const auto port = agents.back()->peers.listen(pool, secret, "127.0.0.1");
    EXPECT_TRUE(port) << port.error().message;
    agents.back()->port = *port;
    return *agents.back();
  }
  // At the address of a name, as the machine resolves it.
  Agent& start_by_name(const std::string& host) {
    agents.push_back(std::make_unique<Agent>(loop, [this] { look(); }));
    Agent& agent = *agents.back();
    agent.peers.find_own_address(host, [&agent](const Result<std::string>& address) {
      ASSERT_TRUE(address) << address.error().message;
      const auto port = agent.peers.listen("pool", kSecret, *address);
      ASSERT_TRUE(port) << port.error().message;
      agent.port = *port;
    });
    return agent;
  }
  // The engine sends the agent some more of its blob 1.
  void feed(Agent& agent, const std::string& whole, std::size_t count) {
    const auto here = agent.inbox.find(BlobId{1});
    const std::size_t from = here ? here->received : 0;
    const Status taken = agent.inbox.take({.blob = BlobId{1},
                                           .size = whole.size(),
                                           .offset = from,
                                           .bytes = SharedBytes(whole.substr(from, count)),
                                           .content = kContent});
    ASSERT_TRUE(taken) << taken.error().message;
    agent.peers.on_blobs_changed();
  }
  // ... tells it to read that from another; it is blob `name` here.
  void ask(Agent& reader, const Agent& source, std::uint64_t name, std::uint32_t attempt = 1) {
    reader.peers.fetch({.blob = BlobId{name},
                        .content = kContent,
                        .size = kBig,
                        .attempt = attempt,
                        .address = "127.0.0.1",
                        .port = source.port});
  }
  void look() {
    if (wanted && wanted()) loop.stop();
  }
  // Runs the loop, looking again and again. Once a test.
  bool run_until(std::function<bool()> condition) {
    wanted = std::move(condition);
    const auto limit =
        loop.start_timer(io::EventLoop::now() + kPeerTimeout, [this] { loop.stop(); });
    again();
    loop.run();
    loop.cancel_timer(limit);
    return wanted();
  }
  void again() {
    look();
    loop.start_timer(io::EventLoop::now() + std::chrono::milliseconds(1), [this] { again(); });
  }

  io::EventLoop loop;
  std::vector<std::unique_ptr<Agent>> agents;
  std::function<bool()> wanted;
};

TEST_F(PeersTest, AChainPassesOnWhatComes) {
  const std::string text = big_text();
  Agent& first = start();
  Agent& second = start();
  Agent& third = start();
  ask(third, second, 8);  // before the second has anything
  ask(second, first, 7);
  feed(first, text, 1);
  ASSERT_TRUE(run_until([&] {
    // The end has everything that the first has been sent, before it is sent more.
    const std::size_t here = first.inbox.find(BlobId{1})->received;
    const auto there = third.inbox.find(BlobId{8});
    if (there && there->received == here && here < text.size()) feed(first, text, kBig / 4);
    return third.answers.size() == 1 && second.answers.size() == 1;
  }));
  EXPECT_EQ(second.answers.at(0).end, FetchEnd::whole);
  EXPECT_EQ(third.answers.at(0).end, FetchEnd::whole);
  EXPECT_EQ(third.answers.at(0).received, kBig);
  EXPECT_TRUE(second.text(BlobId{7}) == text);
  EXPECT_TRUE(third.text(BlobId{8}) == text);
}

// At Slurm, nodes have names.
TEST_F(PeersTest, ASourceMayBeNamed) {
  Agent& source = start_by_name("localhost");
  Agent& reader = start();
  feed(source, big_text(), kBig);
  bool asked = false;
  ASSERT_TRUE(run_until([&] {
    if (!asked && source.port != 0) {
      asked = true;
      reader.peers.fetch({.blob = BlobId{7},
                          .content = kContent,
                          .size = kBig,
                          .attempt = 1,
                          .address = "localhost",
                          .port = source.port});
    }
    return !reader.answers.empty();
  }));
  EXPECT_EQ(reader.answers.at(0).end, FetchEnd::whole) << reader.answers.at(0).detail;
}

TEST_F(PeersTest, ASourceWhoseNameHasNoAddressIsNotReached) {
  Agent& reader = start();
  reader.peers.fetch({.blob = BlobId{7},
                      .content = kContent,
                      .size = kBig,
                      .attempt = 1,
                      .address = std::string(64, 'x'),
                      .port = 7});
  ASSERT_TRUE(run_until([&] { return !reader.answers.empty(); }));
  EXPECT_EQ(reader.answers.at(0).end, FetchEnd::unreached);
  EXPECT_THAT(reader.answers.at(0).detail, HasSubstr("no address of 'xxx"));
}

TEST_F(PeersTest, AnotherPoolsAgentIsRefused) {
  Agent& ours = start();
  Agent& theirs = start("pool", std::string(64, 'x'));
  Agent& stranger = start("another");
  feed(ours, big_text(), kBig);
  ask(theirs, ours, 7);
  ask(stranger, ours, 7);
  ASSERT_TRUE(
      run_until([&] { return theirs.answers.size() == 1 && stranger.answers.size() == 1; }));
  for (const Agent* agent : {&theirs, &stranger}) {
    EXPECT_EQ(agent->answers.at(0).end, FetchEnd::unreached);
    EXPECT_EQ(agent->answers.at(0).received, 0U);
    EXPECT_THAT(agent->answers.at(0).detail, HasSubstr("handshake failed"));
  }
}

TEST_F(PeersTest, ItGoesOnWhereItWasFromAnotherSource) {
  const std::string text = big_text();
  Agent& half = start();
  Agent& whole = start();
  Agent& reader = start();
  feed(half, text, kBig / 2);
  feed(whole, text, kBig);
  ask(reader, half, 7, 1);
  bool moved = false;
  ASSERT_TRUE(run_until([&] {
    const auto here = reader.inbox.find(BlobId{7});
    if (!moved && here && here->received == kBig / 2) {
      moved = true;
      ask(reader, whole, 7, 2);
    }
    return !reader.answers.empty();
  }));
  EXPECT_TRUE(moved);
  EXPECT_EQ(reader.answers.at(0).attempt, 2U) << "the first was not answered: the second came";
  EXPECT_TRUE(reader.text(BlobId{7}) == text);
}

TEST_F(PeersTest, ASourceThatGoesIsTold) {
  const std::string text = big_text();
  Agent& source = start();
  Agent& reader = start();
  feed(source, text, kBig / 2);
  ask(reader, source, 7);
  bool gone = false;
  ASSERT_TRUE(run_until([&] {
    const auto here = reader.inbox.find(BlobId{7});
    if (!gone && here && here->received == kBig / 2) {
      gone = true;
      agents.front().reset();
    }
    return !reader.answers.empty();
  }));
  EXPECT_EQ(reader.answers.at(0).end, FetchEnd::broken);
  EXPECT_EQ(reader.answers.at(0).received, kBig / 2);
}

TEST_F(PeersTest, ASourceWithoutTheBytesSaysSo) {
  Agent& source = start();
  Agent& reader = start();
  ask(reader, source, 7);
  ASSERT_TRUE(run_until([&] { return !reader.answers.empty(); }));
  EXPECT_EQ(reader.answers.at(0).end, FetchEnd::missing);
}

TEST_F(PeersTest, ASourceThatDropsThemSaysSo) {
  Agent& source = start();
  Agent& reader = start();
  feed(source, big_text(), kBig / 2);
  ask(reader, source, 7);
  bool dropped = false;
  ASSERT_TRUE(run_until([&] {
    const auto here = reader.inbox.find(BlobId{7});
    if (!dropped && here && here->received == kBig / 2) {
      dropped = true;
      source.inbox.drop(std::vector{BlobId{1}});
      source.peers.on_blobs_changed();
    }
    return !reader.answers.empty();
  }));
  EXPECT_EQ(reader.answers.at(0).end, FetchEnd::missing);
  EXPECT_EQ(reader.answers.at(0).received, kBig / 2);
}

TEST_F(PeersTest, AnIdleSourceIsAliveAndASilentOneIsGivenUp) {
  // One that accepts and never says a word: its backlog does that.
  Agent& source = start();
  Agent& reader = start();
  Agent& hopeful = start();
  feed(source, big_text(), kBig / 2);
  ask(reader, source, 7);
  auto mute = io::listen_tcp("127.0.0.1");
  ASSERT_TRUE(mute);
  hopeful.peers.fetch({.blob = BlobId{9},
                       .content = kContent,
                       .size = kBig,
                       .attempt = 3,
                       .address = "127.0.0.1",
                       .port = mute->port});
  ASSERT_TRUE(run_until([&] { return !hopeful.answers.empty(); }));
  EXPECT_EQ(hopeful.answers.at(0).end, FetchEnd::unreached);
  EXPECT_THAT(hopeful.answers.at(0).detail, HasSubstr("no data from it for 4 s"));
  EXPECT_TRUE(reader.answers.empty()) << "for as long, its source has told that it is there";
}

TEST_F(PeersTest, StoppingSaysHowMuchIsHere) {
  Agent& source = start();
  Agent& reader = start();
  feed(source, big_text(), kBig / 2);
  ask(reader, source, 7);
  bool stopped = false;
  ASSERT_TRUE(run_until([&] {
    const auto here = reader.inbox.find(BlobId{7});
    if (!stopped && here && here->received == kBig / 2) {
      stopped = true;
      reader.peers.fetch({.blob = BlobId{7}, .content = kContent, .size = kBig, .attempt = 2});
    }
    return !reader.answers.empty();
  }));
  EXPECT_EQ(reader.answers.at(0).end, FetchEnd::stopped);
  EXPECT_EQ(reader.answers.at(0).attempt, 2U);
  EXPECT_EQ(reader.answers.at(0).received, kBig / 2);
}

TEST_F(PeersTest, WithoutASecretNothingIsFetched) {
  Agent& source = start();
  agents.push_back(std::make_unique<Agent>(loop, [this] { look(); }));
  Agent& reader = *agents.back();
  feed(source, big_text(), kBig);
  ask(reader, source, 7);
  ASSERT_TRUE(run_until([&] { return !reader.answers.empty(); }));
  EXPECT_EQ(reader.answers.at(0).end, FetchEnd::unreached);
}

}  // namespace
}  // namespace skyward::agent
