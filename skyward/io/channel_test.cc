#include "skyward/io/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "skyward/io/descriptors_fixture.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/wide_pipe.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;

// The test's own frames: u32 head bytes, u32 descriptors, u64 body bytes.
struct Prefix {
  std::uint32_t head_bytes = 0;
  std::uint32_t descriptors = 0;
  std::uint64_t body_bytes = 0;
};

Result<Cut> cut(ByteView bytes) {
  Prefix prefix;
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  if (prefix.head_bytes == 0xffffffff) return fail(ErrorKind::invalid, "wrong magic");
  return Cut{.head_bytes = prefix.head_bytes,
             .body_bytes = prefix.body_bytes,
             .descriptors = prefix.descriptors};
}

Outgoing frame(std::string_view head, std::vector<SharedBytes> body = {},
               std::vector<int> descriptors = {}) {
  Prefix prefix{.head_bytes = static_cast<std::uint32_t>(head.size()),
                .descriptors = static_cast<std::uint32_t>(descriptors.size())};
  for (const SharedBytes& piece : body) prefix.body_bytes += piece.size();
  Outgoing message;
  message.head.resize(sizeof prefix + head.size());
  std::memcpy(message.head.data(), &prefix, sizeof prefix);
  std::memcpy(message.head.data() + sizeof prefix, head.data(), head.size());
  message.body = std::move(body);
  message.descriptors = std::move(descriptors);
  return message;
}

std::string head_of(const Incoming& message) {
  return std::string(as_text(message.head).substr(sizeof(Prefix)));
}

// Two ends in one loop, over a socket pair or over two pipes.
class ChannelTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    loop_.start_timer(EventLoop::now() + 60s, [this] {
      ADD_FAILURE() << "the test waited too long";
      loop_.stop();
    });
  }

  void connect(bool with_sockets) {
    FileDescriptor left_read;
    FileDescriptor left_write;
    FileDescriptor right_read;
    FileDescriptor right_write;
    if (with_sockets) {
      auto pair = make_socket_pair();
      left_read = std::move(pair->ours);
      right_read = std::move(pair->theirs);
    } else {
      auto there = make_pipe();
      auto back = make_pipe();
      left_read = std::move(back->read);
      left_write = std::move(there->write);
      right_read = std::move(there->read);
      right_write = std::move(back->write);
    }
    left_ = open(std::move(left_read), std::move(left_write), left_handlers_);
    right_ = open(std::move(right_read), std::move(right_write), right_handlers_);
  }

  // The right end alone; the test holds the other descriptor.
  FileDescriptor connect_by_hand() {
    auto pair = make_socket_pair();
    right_ = open(std::move(pair->theirs), {}, right_handlers_);
    return std::move(pair->ours);
  }

  std::unique_ptr<Channel> open(FileDescriptor read, FileDescriptor write,
                                Channel::Handlers& handlers) {
    return std::make_unique<Channel>(
        loop_, std::move(read), std::move(write), sizeof(Prefix), cut,
        Channel::Handlers{
            .on_message = [&](Incoming message) { handlers.on_message(std::move(message)); },
            .on_closed = [&](Error error) { handlers.on_closed(std::move(error)); }});
  }

  void write_all(int descriptor, ByteView bytes) {
    ASSERT_EQ(::write(descriptor, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }

  // Runs until the right end has closed; its error.
  Error run_to_close() {
    std::optional<Error> seen;
    right_handlers_.on_closed = [&](Error error) {
      EXPECT_FALSE(seen.has_value()) << "closed twice";
      seen = std::move(error);
      loop_.stop();
    };
    loop_.run();
    EXPECT_FALSE(right_->is_open());
    return seen.value_or(Error{ErrorKind::task, "not closed", {}});
  }

  EventLoop loop_;
  Channel::Handlers left_handlers_{.on_message = [](Incoming) { FAIL(); },
                                   .on_closed = [](Error) {}};
  Channel::Handlers right_handlers_{.on_message = [](Incoming) { FAIL(); },
                                    .on_closed = [](Error) {}};
  std::unique_ptr<Channel> left_;
  std::unique_ptr<Channel> right_;
};

INSTANTIATE_TEST_SUITE_P(SocketsAndPipes, ChannelTest, testing::Bool(),
                         [](const auto& test) { return test.param ? "Sockets" : "Pipes"; });

TEST_P(ChannelTest, CarriesHeadsAndBodiesBothWays) {
  connect(GetParam());
  right_handlers_.on_message = [&](Incoming message) {
    EXPECT_EQ(head_of(message), "hello");
    EXPECT_EQ(as_text(message.body.view), "one, two");
    right_->send(frame("", {SharedBytes(std::string("back"))}));
  };
  left_handlers_.on_message = [&](Incoming message) {
    EXPECT_EQ(head_of(message), "");
    EXPECT_EQ(as_text(message.body.view), "back");
    loop_.stop();
  };
  loop_.post([&] {
    left_->send(frame("hello", {SharedBytes(std::string("one, ")), SharedBytes(std::string()),
                                SharedBytes(std::string("two"))}));
  });
  loop_.run();
}

TEST_P(ChannelTest, CarriesManySmallMessagesInOrder) {
  constexpr int kMessages = 100000;
  connect(GetParam());
  int next = 0;
  right_handlers_.on_message = [&](Incoming message) {
    ASSERT_EQ(head_of(message), std::to_string(next));
    if (++next == kMessages) loop_.stop();
  };
  loop_.post([&] {
    for (int i = 0; i < kMessages; ++i) left_->send(frame(std::to_string(i)));
  });
  loop_.run();
  EXPECT_EQ(next, kMessages);
  EXPECT_EQ(left_->queued_bytes(), 0U);
}

TEST_P(ChannelTest, CarriesALargeBodyBetweenSmallMessages) {
  constexpr std::size_t kSize = 200'000'000;
  connect(GetParam());
  Bytes large(kSize);
  for (std::size_t i = 0; i < kSize; i += 4096) large[i] = static_cast<std::byte>(i / 4096 % 251);
  const SharedBytes body(std::move(large));
  std::string seen;
  right_handlers_.on_message = [&](Incoming message) {
    seen += head_of(message);
    if (head_of(message) == "b") {
      EXPECT_TRUE(message.body == body);
    }
    if (head_of(message) == "c") loop_.stop();
  };
  loop_.post([&] {
    left_->send(frame("a"));
    left_->send(frame("b", {body}));
    left_->send(frame("c"));
    EXPECT_GT(left_->queued_bytes(), kSize / 2);
  });
  loop_.run();
  EXPECT_EQ(seen, "abc");
}

TEST_P(ChannelTest, CutsAnySizes) {
  // Around every boundary of the reader: its buffer and the size from where bodies are read in
  // place.
  std::vector<std::size_t> sizes;
  for (const std::size_t around : {std::size_t{0}, std::size_t{32} << 10, std::size_t{64} << 10,
                                   std::size_t{256} << 10, std::size_t{1} << 20}) {
    for (std::size_t size = around < 20 ? 0 : around - 20; size < around + 20; ++size) {
      sizes.push_back(size);
    }
  }
  connect(GetParam());
  std::size_t next = 0;
  right_handlers_.on_message = [&](Incoming message) {
    const std::size_t size = sizes[next / 2];
    const std::string expected(size, static_cast<char>('a' + next / 2 % 26));
    if (next % 2 == 0) {
      ASSERT_TRUE(head_of(message) == expected) << size;
      ASSERT_TRUE(message.body.empty());
    } else {
      ASSERT_TRUE(as_text(message.body.view) == expected) << size;
    }
    if (++next == 2 * sizes.size()) loop_.stop();
  };
  loop_.post([&] {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const std::string text(sizes[i], static_cast<char>('a' + i % 26));
      left_->send(frame(text));
      left_->send(frame("", {SharedBytes(text)}));
    }
  });
  loop_.run();
  EXPECT_EQ(next, 2 * sizes.size());
}

TEST_P(ChannelTest, ReportsTheOtherEndsClosingAfterItsLastMessage) {
  connect(GetParam());
  bool came = false;
  right_handlers_.on_message = [&](Incoming message) { came = head_of(message) == "last"; };
  loop_.post([&] {
    left_->send(frame("last"));
    left_->flush();
    left_.reset();
  });
  const Error error = run_to_close();
  EXPECT_TRUE(came);
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_EQ(error.message, "");
}

TEST_P(ChannelTest, WhileReadingIsPausedWhatCameWaitsToBeReadNow) {
  connect(GetParam());
  std::vector<std::string> came;
  right_handlers_.on_message = [&](Incoming message) {
    came.push_back(head_of(message));
    if (came.back() == "third") loop_.stop();
  };
  left_handlers_.on_message = [&](Incoming message) {
    EXPECT_EQ(head_of(message), "back");  // writing goes on
    EXPECT_THAT(came, testing::IsEmpty());
    right_->read_now();
    EXPECT_THAT(came, testing::ElementsAre("first", "second"));
    right_->pause_reading(false);
    left_->send(frame("third"));
  };
  loop_.post([&] {
    right_->pause_reading(true);
    left_->send(frame("first"));
    left_->send(frame("second"));
    left_->flush();
    right_->send(frame("back"));
  });
  loop_.run();
  EXPECT_THAT(came, testing::ElementsAre("first", "second", "third"));
}

TEST_P(ChannelTest, SendingToAClosedEndIsReportedOnceAndNotInsideSend) {
  connect(GetParam());
  bool sending = false;
  int closed = 0;
  right_handlers_.on_closed = [&](Error error) {
    EXPECT_FALSE(sending);
    EXPECT_EQ(error.kind, ErrorKind::lost);
    ++closed;
    right_->send(frame("to nobody"));
    loop_.start_timer(EventLoop::now() + 10ms, [&] { loop_.stop(); });
  };
  loop_.post([&] {
    left_.reset();
    sending = true;
    for (int i = 0; i < 3; ++i) {
      right_->send(frame("x"));
      right_->flush();
    }
    sending = false;
  });
  loop_.run();
  EXPECT_EQ(closed, 1);
}

TEST_P(ChannelTest, MayBeDestroyedInsideItsCallbacks) {
  connect(GetParam());
  right_handlers_.on_message = [&](Incoming) { right_.reset(); };
  left_handlers_.on_closed = [&](Error) {
    left_.reset();
    loop_.stop();
  };
  loop_.post([&] {
    left_->send(frame("1"));
    left_->send(frame("2"));
  });
  loop_.run();
  EXPECT_EQ(right_, nullptr);
  EXPECT_EQ(left_, nullptr);
}

TEST_P(ChannelTest, CloseForgetsTheQueueAndCallsNobody) {
  connect(GetParam());
  bool right_closed = false;
  left_handlers_.on_closed = [](Error) { FAIL(); };
  right_handlers_.on_closed = [&](Error) {
    right_closed = true;
    loop_.stop();
  };
  loop_.post([&] {
    left_->send(frame("never leaves"));
    left_->close();
    EXPECT_FALSE(left_->is_open());
    EXPECT_EQ(left_->queued_bytes(), 0U);
  });
  loop_.run();
  EXPECT_TRUE(right_closed);
}

TEST_F(ChannelTest, OneBusyChannelDoesNotStarveTheLoop) {
  connect(true);
  const SharedBytes body(Bytes(std::size_t{4} << 20));
  std::size_t received = 0;
  int ticks = 0;
  std::function<void()> tick = [&] {
    ++ticks;
    loop_.post(tick);
  };
  right_handlers_.on_message = [&](Incoming message) {
    received += message.body.size();
    if (received == 16 * body.size()) {
      // At most the budget of bytes (and a little) went by between two rounds of the loop.
      EXPECT_GE(ticks, 20);
      loop_.stop();
    }
  };
  loop_.post(tick);
  loop_.post([&] {
    for (int i = 0; i < 16; ++i) left_->send(frame("", {body}));
  });
  loop_.run();
}

TEST_F(ChannelTest, APipeThatProvesTooNarrowIsWidened) {
  auto narrow = make_pipe();
  ASSERT_TRUE(narrow);
  const int reader = narrow->read.get();
  const int before = ::fcntl(reader, F_GETPIPE_SZ);
  auto back = make_pipe();
  left_ = open(std::move(back->read), std::move(narrow->write), left_handlers_);
  left_->send(frame("small"));
  left_->flush();
  EXPECT_EQ(::fcntl(reader, F_GETPIPE_SZ), before) << "most carry little";
  left_->send(frame("", {SharedBytes(Bytes(4 * kWidePipeBytes))}));
  left_->flush();
  EXPECT_EQ(::fcntl(reader, F_GETPIPE_SZ), static_cast<int>(kWidePipeBytes));
  EXPECT_LT(left_->queued_bytes(), 4 * kWidePipeBytes - 2 * static_cast<std::size_t>(before))
      << "and filled";

  auto full = make_pipe();
  const int writer = full->write.get();
  const Outgoing large =
      frame("", {SharedBytes(Bytes(static_cast<std::size_t>(before) - sizeof(Prefix)))});
  Bytes all = large.head;
  all.resize(static_cast<std::size_t>(before));
  write_all(writer, all);
  right_handlers_.on_message = [](const Incoming&) {};
  right_ = open(std::move(full->read), std::move(back->write), right_handlers_);
  right_->read_now();
  EXPECT_EQ(::fcntl(writer, F_GETPIPE_SZ), static_cast<int>(kWidePipeBytes))
      << "by who finds it full, too";
}

TEST_F(ChannelTest, ManyMessagesOfOneTurnLeaveInOneWrite) {
  auto pair = make_socket_pair();
  ASSERT_TRUE(pair);
  left_ = open(std::move(pair->ours), {}, left_handlers_);
  loop_.post([&] {
    for (int i = 0; i < 500; ++i) left_->send(frame("0123456789"));
    EXPECT_EQ(left_->queued_bytes(), 500 * (sizeof(Prefix) + 10));
    char byte = 0;
    EXPECT_EQ(::read(pair->theirs.get(), &byte, 1), -1) << "nothing leaves before the turn ends";
    loop_.post([&] {
      EXPECT_EQ(left_->queued_bytes(), 0U);
      std::string all(1 << 20, '\0');
      EXPECT_EQ(::read(pair->theirs.get(), all.data(), all.size()),
                static_cast<ssize_t>(500 * (sizeof(Prefix) + 10)));
      loop_.stop();
    });
  });
  loop_.run();
}

TEST_F(ChannelTest, DescriptorsComeWithTheirMessage) {
  connect(true);
  const int before = count_descriptors();
  constexpr int kMessages = 1000;
  int next = 0;
  auto file = make_pipe();
  right_handlers_.on_message = [&](Incoming message) {
    ASSERT_EQ(head_of(message), std::to_string(next));
    ASSERT_EQ(message.descriptors.size(), static_cast<std::size_t>(next % 4));
    for (const FileDescriptor& descriptor : message.descriptors) {
      ASSERT_TRUE(::fcntl(descriptor.get(), F_GETFD) & FD_CLOEXEC);
    }
    if (next % 100 == 3) {  // it is the pipe, not any descriptor
      ASSERT_EQ(::write(message.descriptors[1].get(), "x", 1), 1);
      char byte = 0;
      ASSERT_EQ(::read(message.descriptors[0].get(), &byte, 1), 1);
      ASSERT_EQ(byte, 'x');
    }
    if (++next == kMessages) loop_.stop();
  };
  loop_.post([&] {
    for (int i = 0; i < kMessages; ++i) {
      const int ends[] = {file->read.get(), file->write.get(), file->read.get()};
      std::vector<SharedBytes> body;
      if (i % 7 == 0) body.emplace_back(std::string(static_cast<std::size_t>(i) * 200, 'x'));
      left_->send(frame(std::to_string(i), std::move(body), {ends, ends + i % 4}));
    }
  });
  loop_.run();
  EXPECT_EQ(next, kMessages);
  file = fail(ErrorKind::cancelled, "");
  EXPECT_EQ(count_descriptors(), before);
}

TEST_F(ChannelTest, AMessageMayCarryMoreDescriptorsThanOneCallTakes) {
  connect(true);
  auto pipe = make_pipe();
  std::vector<std::size_t> counts;
  right_handlers_.on_message = [&](Incoming message) {
    counts.push_back(message.descriptors.size());
    if (counts.size() == 4) loop_.stop();
  };
  loop_.post([&] {
    for (const std::size_t count : {200U, 200U, 700U, 1U}) {
      left_->send(frame("some head", {}, std::vector<int>(count, pipe->read.get())));
    }
  });
  loop_.run();
  EXPECT_EQ(counts, (std::vector<std::size_t>{200, 200, 700, 1}));
}

TEST_F(ChannelTest, AnnouncedDescriptorsThatDidNotComeAreAnError) {
  const FileDescriptor peer = connect_by_hand();
  Outgoing message = frame("head");
  reinterpret_cast<Prefix*>(message.head.data())->descriptors = 2;
  write_all(peer.get(), message.head);
  const Error error = run_to_close();
  EXPECT_EQ(error.kind, ErrorKind::invalid);
  EXPECT_NE(error.message.find("announced 2 descriptors, but 0 came"), std::string::npos)
      << error.message;
}

TEST_F(ChannelTest, APeerThatClosesInsideAHeadIsNotAQuietEnd) {
  FileDescriptor peer = connect_by_hand();
  const Outgoing message = frame("head");
  write_all(peer.get(), ByteView(message.head).first(message.head.size() - 1));
  peer.reset();
  const Error error = run_to_close();
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_NE(error.message.find("after 19 bytes"), std::string::npos) << error.message;
}

TEST_F(ChannelTest, APeerThatClosesInsideABodyIsNotAQuietEnd) {
  FileDescriptor peer = connect_by_hand();
  const Outgoing message = frame("head", {SharedBytes(Bytes(100'000))});
  write_all(peer.get(), message.head);
  write_all(peer.get(), message.body[0].view.first(50'000));
  peer.reset();
  const Error error = run_to_close();
  EXPECT_EQ(error.kind, ErrorKind::lost);
  EXPECT_NE(error.message.find("after 50020 bytes"), std::string::npos) << error.message;
}

TEST_F(ChannelTest, TheCuttersErrorClosesTheChannel) {
  const FileDescriptor peer = connect_by_hand();
  Outgoing message = frame("head");
  reinterpret_cast<Prefix*>(message.head.data())->head_bytes = 0xffffffff;
  write_all(peer.get(), message.head);
  const Error error = run_to_close();
  EXPECT_EQ(error.kind, ErrorKind::invalid);
  EXPECT_EQ(error.message, "wrong magic");
}

TEST_F(ChannelTest, AnAbsurdSizeIsAnErrorNotACrash) {
  const FileDescriptor peer = connect_by_hand();
  Outgoing message = frame("head");
  reinterpret_cast<Prefix*>(message.head.data())->body_bytes = std::uint64_t{1} << 63;
  write_all(peer.get(), message.head);
  EXPECT_EQ(run_to_close().kind, ErrorKind::exhausted);
}

TEST_F(ChannelTest, WhatThePeerSaidBeforeItWentIsHeardThoughWritingFails) {
  FileDescriptor peer = connect_by_hand();
  std::string heard;
  right_handlers_.on_message = [&](Incoming message) { heard += head_of(message); };
  loop_.post([&] {
    write_all(peer.get(), frame("why I go").head);
    peer.reset();
    right_->send(frame("hello?"));
    right_->flush();
  });
  run_to_close();
  EXPECT_EQ(heard, "why I go");
}

}  // namespace
}  // namespace skyward::io
