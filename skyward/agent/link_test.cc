// A connection that another process brings (connect.h): the test stands for that process and for
// the engine.

#include "skyward/agent/link.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "skyward/io/unix_socket.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/codec.h"

namespace skyward::agent {
namespace {

using namespace std::chrono_literals;

class AgentLinkTest : public testing::Test {
 protected:
  void SetUp() override {
    loop.start_timer(io::EventLoop::now() + 60s, [this] {
      ADD_FAILURE() << "the test waited too long";
      loop.stop();
    });
    in = *io::make_pipe();
    out = *io::make_pipe();
    auto pair = *io::make_socket_pair();
    relay = std::move(pair.theirs);
    link.attach_relay(std::move(pair.ours));
  }

  void bring() {
    const std::array<int, 2> streams{in.read.get(), out.write.get()};
    ASSERT_TRUE(io::pass_descriptors(relay.get(), streams));
    in.read.reset();
    out.write.reset();
  }

  void greet() {
    const Outgoing frame = wire::encode(wire::Hello{.protocol = kProtocolVersion,
                                                    .version = SKYWARD_VERSION,
                                                    .pool = "abc",
                                                    .token = "secret"},
                                        {});
    ASSERT_TRUE(io::write_some(in.write.get(), frame.head));
  }

  // Calls `then` with the size of what has come, 0 at the end.
  void on_bytes(int descriptor, std::function<void(std::size_t)> then) {
    loop.watch(descriptor, [descriptor, then] {
      std::array<std::byte, 65536> bytes;
      if (const auto count = io::read_some(descriptor, bytes)) then(*count);
    });
  }

  io::EventLoop loop;
  AgentLink link{loop,
                 true,
                 {.on_message = [](const wire::Message&) {},
                  .on_heard = [] {},
                  .on_fetch = [](const wire::FetchBlob&) {},
                  .on_blobs_changed = [] {},
                  .on_closed =
                      [this](const std::string&) {
                        ended = true;
                        loop.stop();
                      }}};
  bool ended = false;
  io::Pipe in;
  io::Pipe out;
  io::FileDescriptor relay;
};

TEST_F(AgentLinkTest, TheConnectionEndsWithWhoBroughtIt) {
  bring();
  greet();
  bool welcomed = false;
  on_bytes(out.read.get(), [&](std::size_t count) {
    if (count == 0) return loop.stop();
    welcomed = true;
    relay.reset();
  });
  loop.run();
  EXPECT_TRUE(welcomed);
  loop.unwatch(out.read.get());
}

// An engine that closes its pool meanwhile ends it so. Nobody would come for the agent any more.
TEST_F(AgentLinkTest, TheAgentEndsIfWhoWasToBringItsFirstConnectionHasEnded) {
  relay.reset();
  loop.run();
  EXPECT_TRUE(ended);
}

TEST_F(AgentLinkTest, AByteWithoutStreamsIsNoConnection) {
  ASSERT_TRUE(io::write_some(relay.get(), as_bytes("x")));
  loop.run();
  EXPECT_TRUE(ended);
}

TEST_F(AgentLinkTest, WhoBroughtItHearsOfItsEnd) {
  bring();
  greet();
  on_bytes(out.read.get(), [&](std::size_t count) {
    if (count == 0) return loop.unwatch(out.read.get());
    in.write.reset();
  });
  on_bytes(relay.get(), [&](std::size_t count) {
    EXPECT_EQ(count, 0U);
    loop.stop();
  });
  loop.run();
  loop.unwatch(relay.get());
}

}  // namespace
}  // namespace skyward::agent
