#include "skyward/io/relay.h"
#include "skyward/io/descriptors_fixture.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "skyward/io/own_process.h"

namespace skyward::io {
namespace {

void write_all(int descriptor, std::string_view text) {
  auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  while (!bytes.empty()) {
    pollfd ready{.fd = descriptor, .events = POLLOUT, .revents = 0};
    ASSERT_EQ(::poll(&ready, 1, 30'000), 1);
    const auto count = write_part(descriptor, bytes);
    ASSERT_TRUE(count);
    bytes = bytes.subspan(*count);
  }
}

// A relay between two pipes and a socket, on a thread of its own.
class RelayTest : public testing::Test {
 protected:
  void SetUp() override {
    ignore_broken_pipes();
    in = *make_pipe();
    out = *make_pipe();
    socket = *make_socket_pair();
  }
  void start(Duration patience) {
    thread = std::thread([this, patience] {
      relay(std::move(in.read), std::move(out.write), std::move(socket.ours), patience);
    });
  }
  void TearDown() override {
    in.write.reset();
    out.read.reset();
    socket.theirs.reset();
    if (thread.joinable()) thread.join();
  }

  Pipe in;
  Pipe out;
  SocketPair socket;
  std::thread thread;
};

TEST_F(RelayTest, PassesMuchBothWaysAtOnce) {
  start(kPatience);
  const std::string up(3 << 20, 'u');
  const std::string down(3 << 20, 'd');
  std::thread sender([&] {
    write_all(in.write.get(), up);
    in.write.reset();
  });
  std::thread answerer([&] { write_all(socket.theirs.get(), down); });
  std::string got;
  std::thread reader([&] { got = read_all(out.read.get()); });
  EXPECT_EQ(read_all(socket.theirs.get()), up) << "and the end of the input was told";
  answerer.join();
  socket.theirs.reset();
  sender.join();
  reader.join();
  EXPECT_TRUE(got == down) << got.size();
  thread.join();
}

TEST_F(RelayTest, TheLastWordsOfTheDaemonArrive) {
  start(kPatience);
  write_all(socket.theirs.get(), "farewell");
  socket.theirs.reset();
  EXPECT_EQ(read_all(out.read.get()), "farewell");
  thread.join();
}

TEST_F(RelayTest, ADaemonThatSaysNothingMoreIsNotAwaitedForEver) {
  start(std::chrono::milliseconds(50));
  in.write.reset();
  thread.join();
  EXPECT_EQ(read_all(out.read.get()), "");
}

TEST_F(RelayTest, EndsWhenNobodyReadsItsOutput) {
  start(kPatience);
  out.read.reset();
  write_all(socket.theirs.get(), "to nobody");
  thread.join();
}

}  // namespace
}  // namespace skyward::io
