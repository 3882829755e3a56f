#include "skyward/io/tls.h"
#include "skyward/io/descriptors_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "skyward/io/own_process.h"
#include "skyward/io/tcp_socket.h"
#include "skyward/io/unix_socket.h"

namespace skyward::io {
namespace {

using ::testing::HasSubstr;

const std::string kSecret(64, 's');

// One end of a stream, and what it has seen.
struct End {
  std::unique_ptr<TlsStream> stream;
  bool open = false;
  std::string bytes;
  std::optional<Error> closed;
  int rooms = 0;
};

class TlsTest : public testing::Test {
 protected:
  void SetUp() override { ignore_write_signals(); }

  std::shared_ptr<const TlsKey> key(const std::string& group, const std::string& secret) {
    auto made = TlsKey::make(group, secret);
    EXPECT_TRUE(made) << made.error().message;
    return *made;
  }
  void attach(End& end, const std::shared_ptr<const TlsKey>& key, TlsStream::Role role,
              FileDescriptor socket) {
    end.stream =
        std::make_unique<TlsStream>(loop, key, role, std::move(socket),
                                    TlsStream::Events{.on_open = [this, &end] { set(end.open); },
                                                      .on_bytes =
                                                          [this, &end](ByteView bytes) {
                                                            end.bytes += as_text(bytes);
                                                            look();
                                                          },
                                                      .on_room =
                                                          [this, &end] {
                                                            ++end.rooms;
                                                            if (on_room) on_room();
                                                            look();
                                                          },
                                                      .on_closed =
                                                          [this, &end](Error why) {
                                                            end.closed = std::move(why);
                                                            look();
                                                          }});
  }
  // Two ends of a connection over loopback.
  void connect(const std::shared_ptr<const TlsKey>& dials,
               const std::shared_ptr<const TlsKey>& answers) {
    auto [ours, theirs] = sockets();
    attach(caller, dials, TlsStream::Role::client, std::move(ours));
    attach(callee, answers, TlsStream::Role::server, std::move(theirs));
  }
  std::pair<FileDescriptor, FileDescriptor> sockets() {
    auto listener = listen_tcp("127.0.0.1");
    EXPECT_TRUE(listener) << listener.error().message;
    auto ours = dial_tcp("127.0.0.1", listener->port);
    EXPECT_TRUE(ours) << ours.error().message;
    std::optional<FileDescriptor> theirs;
    while (!theirs) theirs = accept_next(listener->socket.get());
    return {std::move(*ours), std::move(*theirs)};
  }
  void set(bool& flag) {
    flag = true;
    look();
  }
  void look() {
    if (wanted && wanted()) loop.stop();
  }
  // Runs the loop until it holds; false when it does not in time. Once a test.
  bool run_until(std::function<bool()> condition) {
    wanted = std::move(condition);
    const auto timer = loop.start_timer(EventLoop::now() + kPatience, [this] { loop.stop(); });
    loop.run();
    loop.cancel_timer(timer);
    return wanted();
  }

  EventLoop loop;
  std::function<bool()> wanted;
  std::function<void()> on_room;
  End caller;
  End callee;
};

TEST_F(TlsTest, CarriesBytesBothWaysBetweenThoseWhoKnowTheSecret) {
  connect(key("pool", kSecret), key("pool", kSecret));
  loop.post([this] { EXPECT_EQ(caller.stream->write(as_bytes("early")), 0U) << "not open yet"; });
  std::function<void()> talk = [this, &talk] {
    if (!caller.open || !callee.open) return loop.post(talk);
    EXPECT_EQ(caller.stream->write(as_bytes("ping")), 4U);
    EXPECT_EQ(callee.stream->write(as_bytes("pong")), 4U);
  };
  loop.post(talk);
  EXPECT_TRUE(run_until([this] { return callee.bytes == "ping" && caller.bytes == "pong"; }));
}

TEST_F(TlsTest, RefusesAnotherSecretOfTheSameName) {
  connect(key("pool", std::string(64, 'x')), key("pool", kSecret));
  EXPECT_TRUE(run_until([this] { return caller.closed && callee.closed; }));
  EXPECT_FALSE(caller.open || callee.open);
  EXPECT_EQ(callee.closed->kind, ErrorKind::denied) << callee.closed->message;
}

TEST_F(TlsTest, RefusesAnotherPool) {
  connect(key("another", kSecret), key("pool", kSecret));
  EXPECT_TRUE(run_until([this] { return caller.closed && callee.closed; }));
  EXPECT_FALSE(caller.open || callee.open);
  EXPECT_EQ(callee.closed->kind, ErrorKind::denied) << callee.closed->message;
}

TEST_F(TlsTest, RefusesWhoSpeaksNoTlsAtAll) {
  auto [ours, theirs] = sockets();
  attach(callee, key("pool", kSecret), TlsStream::Role::server, std::move(theirs));
  ASSERT_TRUE(write_some(ours.get(), as_bytes("GET / HTTP/1.1\r\nHost: node\r\n\r\n")));
  EXPECT_TRUE(run_until([this] { return callee.closed.has_value(); }));
  EXPECT_FALSE(callee.open);
  EXPECT_EQ(callee.closed->kind, ErrorKind::denied) << callee.closed->message;
}

TEST_F(TlsTest, OffersOneGroupOnly) {
  auto [ours, theirs] = sockets();
  attach(caller, key("pool", kSecret), TlsStream::Role::client, std::move(ours));
  loop.watch(
      theirs.get(),
      [this, socket = theirs.get()] {
        std::array<std::byte, 4096> bytes;
        const auto count = read_some(socket, bytes);
        callee.bytes += as_text(ByteView(bytes).first(count.value_or(0)));
        look();
      },
      nullptr);
  // supported_groups, of 4 bytes: a list of 2 bytes, which is X25519.
  const std::string groups{"\x00\x0a\x00\x04\x00\x02\x00\x1d", 8};
  EXPECT_TRUE(run_until([&] { return callee.bytes.find(groups) != std::string::npos; }));
  loop.unwatch(theirs.get());
}

TEST_F(TlsTest, NobodyThereIsUnavailable) {
  std::uint16_t port = 0;
  port = listen_tcp("127.0.0.1")->port;  // and closed again
  auto socket = dial_tcp("127.0.0.1", port);
  ASSERT_TRUE(socket);
  attach(caller, key("pool", kSecret), TlsStream::Role::client, std::move(*socket));
  EXPECT_TRUE(run_until([this] { return caller.closed.has_value(); }));
  EXPECT_EQ(caller.closed->kind, ErrorKind::unavailable);
  EXPECT_THAT(caller.closed->message, HasSubstr("refused"));
}

TEST_F(TlsTest, AReaderThatLagsMakesTheWriterWait) {
  connect(key("pool", kSecret), key("pool", kSecret));
  std::string big(32 << 20, 'b');
  for (std::size_t i = 0; i < big.size(); i += 1000) big[i] = static_cast<char>(i / 1000);
  std::size_t sent = 0;
  const auto more = [&] { sent += caller.stream->write(as_bytes(big).subspan(sent)); };
  on_room = more;
  std::function<void()> begin = [&] { caller.open ? more() : loop.post(begin); };
  loop.post(begin);
  EXPECT_TRUE(run_until([&] { return callee.bytes.size() == big.size(); }));
  EXPECT_TRUE(callee.bytes == big);
  EXPECT_GT(caller.rooms, 0);
}

TEST_F(TlsTest, TheEndIsTold) {
  connect(key("pool", kSecret), key("pool", kSecret));
  std::function<void()> end = [&] {
    if (!caller.open || !callee.open) return loop.post(end);
    caller.stream.reset();
  };
  loop.post(end);
  EXPECT_TRUE(run_until([this] { return callee.closed.has_value(); }));
  EXPECT_EQ(callee.closed->message, "");
  EXPECT_FALSE(caller.closed) << "who closes knows it";
}

TEST_F(TlsTest, AHandlerMayDestroyItsStream) {
  auto [ours, theirs] = sockets();
  attach(callee, key("pool", kSecret), TlsStream::Role::server, std::move(theirs));
  caller.stream = std::make_unique<TlsStream>(
      loop, key("pool", kSecret), TlsStream::Role::client, std::move(ours),
      TlsStream::Events{.on_open = [this] { caller.stream.reset(); },
                        .on_bytes = [](ByteView) {},
                        .on_closed = [](const Error&) {}});
  EXPECT_TRUE(run_until([this] { return callee.closed.has_value(); }));
}

TEST(TlsKeyTest, AShortSecretIsNone) {
  EXPECT_EQ(TlsKey::make("pool", "short").error().kind, ErrorKind::invalid);
}

TEST(TcpSocket, WhatIsNoAddressIsSaid) {
  EXPECT_THAT(listen_tcp("node-1").error().message, HasSubstr("'node-1' is not a network address"));
  EXPECT_EQ(dial_tcp("", 80).error().kind, ErrorKind::invalid);
  EXPECT_EQ(listen_tcp("192.0.2.1").error().kind, ErrorKind::unsupported);
  const auto listening = listen_tcp("127.0.0.1");
  EXPECT_GT(listening->port, 0);
  EXPECT_EQ(listen_tcp("127.0.0.1", listening->port).error().kind, ErrorKind::unavailable);
}

TEST(TcpSocket, AddressesAreBytes) {
  EXPECT_EQ(address_bytes("10.0.0.1")->size(), 4U);
  EXPECT_EQ(address_bytes("fd00::1")->size(), 16U);
  EXPECT_FALSE(address_bytes("node-1"));
  for (const std::string text : {"10.0.0.1", "fd00::1"}) {
    EXPECT_EQ(address_text(*address_bytes(text)), text);
  }
}

}  // namespace
}  // namespace skyward::io
