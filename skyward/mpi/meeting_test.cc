#include "skyward/mpi/meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "skyward/io/listener.h"
#include "skyward/io/machine.h"
#include "skyward/io/tcp_socket.h"

namespace skyward::mpi {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Says something at the meeting point, and waits there until it is sent away.
class Stranger {
 public:
  Stranger(io::EventLoop& loop, int port, std::string_view said, std::function<void()> on_dropped)
      : loop_(loop),
        socket_(io::dial_tcp("127.0.0.1", static_cast<std::uint16_t>(port)).value()),
        said_(said),
        on_dropped_(std::move(on_dropped)) {
    loop_.watch(
        socket_.get(),
        [this] {
          loop_.unwatch(socket_.get());
          const auto tell = on_dropped_;
          tell();
        },
        [this] {
          loop_.want_write(socket_.get(), false);
          (void)io::write_some(socket_.get(), as_bytes(said_));
        });
    loop_.want_write(socket_.get(), true);
  }
  ~Stranger() { loop_.unwatch(socket_.get()); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

 private:
  io::EventLoop& loop_;
  io::FileDescriptor socket_;
  const std::string_view said_;
  const std::function<void()> on_dropped_;
};

// Workers of one pool, in one loop.
class MeetingTest : public testing::Test {
 protected:
  MeetingOptions options(int rank, int workers, const std::string& call = "f()") const {
    MeetingOptions made{.place = {.node = rank, .total_nodes = workers}};
    made.place.head_addr = "127.0.0.1";
    made.place.head_port = port_;
    made.place.job_id = "job";
    made.call = call;
    made.timeout = 60s;
    made.brought = "brought " + std::to_string(rank);
    return made;
  }

  void begin(MeetingOptions options) {
    const int rank = options.place.node;
    ++waiting_;
    meetings_[rank] = Meeting::begin(loop_, std::move(options), [this, rank](Met met) {
      met_[rank] = std::move(met);
      meetings_.erase(rank);
      if (--waiting_ == 0) loop_.stop();
    });
  }

  std::string message(int rank) const { return met_.at(rank) ? "" : met_.at(rank).error().message; }

  io::EventLoop loop_;
  const int port_ = io::free_tcp_port().value();
  int waiting_ = 0;
  int noises_ = 0;
  std::map<int, std::unique_ptr<Meeting>> meetings_;
  std::map<int, Met> met_;
};

TEST_F(MeetingTest, AllLearnWhatEachBrought) {
  for (const int rank : {2, 0, 1}) begin(options(rank, 3));
  loop_.run();
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(met_.at(rank)) << message(rank);
    EXPECT_THAT(*met_.at(rank), testing::ElementsAre("brought 0", "brought 1", "brought 2"));
  }
  EXPECT_TRUE(io::listen_tcp("127.0.0.1", static_cast<std::uint16_t>(port_))) << "the port is free";
}

TEST_F(MeetingTest, OneWorkerMeetsNobody) {
  begin(options(0, 1));
  loop_.run();
  EXPECT_THAT(met_.at(0).value(), testing::ElementsAre("brought 0"));
}

TEST_F(MeetingTest, NamesThoseThatAreMissing) {
  for (const int rank : {0, 2}) {
    MeetingOptions made = options(rank, 4, "train() of torch");
    // Worker 0 gives up first, and tells the other.
    if (rank == 0) made.timeout = 2s;
    begin(std::move(made));
  }
  loop_.run();
  for (const int rank : {0, 2}) {
    EXPECT_EQ(met_.at(rank).error().kind, ErrorKind::timeout);
    EXPECT_THAT(message(rank),
                HasSubstr("train() of torch: workers 1, 3 of 4 did not arrive at 127.0.0.1"));
  }
}

TEST_F(MeetingTest, GivesUpWithoutWorker0) {
  MeetingOptions made = options(1, 2);
  made.timeout = 100ms;
  begin(std::move(made));
  loop_.run();
  EXPECT_EQ(met_.at(1).error().kind, ErrorKind::timeout);
  EXPECT_THAT(message(1), HasSubstr("worker 0 was not at 127.0.0.1"));
}

TEST_F(MeetingTest, TellsTwoCallsApart) {
  begin(options(0, 2, "one()"));
  begin(options(1, 2, "two()"));
  loop_.run();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(met_.at(rank).error().kind, ErrorKind::invalid);
    EXPECT_THAT(message(rank), HasSubstr("worker 0 is in one(), but worker 1 is in two()"));
  }
}

TEST_F(MeetingTest, SendsStrangersAway) {
  begin(options(0, 2));
  std::vector<io::FileDescriptor> strangers;
  for (const std::string_view noise :
       {std::string_view("GET / HTTP/1.0\r\n\r\n"), std::string_view("\3\0\0\0\0\0\0\0[1]", 11),
        std::string_view("\2\0\0\0\0\0\0\0{}", 10), std::string_view("\1", 1)}) {
    auto socket = io::dial_tcp("127.0.0.1", static_cast<std::uint16_t>(port_));
    ASSERT_TRUE(socket);
    loop_.watch(socket->get(), {}, [this, number = socket->get(), noise] {
      loop_.want_write(number, false);
      (void)io::write_some(number, as_bytes(noise));
      if (++noises_ == 4) begin(options(1, 2));
    });
    loop_.want_write(socket->get(), true);
    strangers.push_back(*std::move(socket));
  }
  MeetingOptions other = options(1, 2);
  other.place.job_id = "another";
  other.timeout = 500ms;
  // It never gets an answer.
  std::optional<Met> foreign;
  ++waiting_;
  const auto visitor = Meeting::begin(loop_, std::move(other), [&](Met met) {
    foreign = std::move(met);
    if (--waiting_ == 0) loop_.stop();
  });
  loop_.run();
  for (const io::FileDescriptor& stranger : strangers) loop_.unwatch(stranger.get());
  EXPECT_TRUE(met_.at(0)) << message(0);
  EXPECT_TRUE(met_.at(1)) << message(1);
  EXPECT_FALSE(*foreign);
}

TEST_F(MeetingTest, DropsGuestsThatDoNotSayWhoTheyAre) {
  MeetingOptions host = options(0, 2);
  host.hello_timeout = 50ms;
  begin(std::move(host));
  int silent = 2;
  const auto on_dropped = [&] {
    if (--silent == 0) begin(options(1, 2));
  };
  const Stranger mute(loop_, port_, "", on_dropped);
  const Stranger slow(loop_, port_, "\1", on_dropped);
  loop_.run();
  EXPECT_TRUE(met_.at(0)) << message(0);
}

TEST_F(MeetingTest, DropsGuestsThatWouldSayTooMuch) {
  MeetingOptions host = options(0, 2);
  host.hello_timeout = 60s;
  begin(std::move(host));
  const std::string_view longer("\1\0\1\0\0\0\0\0", 8);
  const Stranger stranger(loop_, port_, longer, [&] { begin(options(1, 2)); });
  loop_.run();
  EXPECT_TRUE(met_.at(0)) << message(0);
}

TEST_F(MeetingTest, HasRoomForSoManyStrangers) {
  begin(options(0, 2));
  std::vector<std::unique_ptr<Stranger>> strangers;
  int dropped = 0;
  for (int i = 0; i < 67; ++i) {
    strangers.push_back(std::make_unique<Stranger>(loop_, port_, "", [&] {
      if (dropped++ > 0) return;  // by the end of the meeting
      strangers.pop_back();
      strangers.front().reset();
      begin(options(1, 2));
    }));
  }
  loop_.run();
  EXPECT_TRUE(met_.at(0)) << message(0);
}

TEST_F(MeetingTest, NeedsAWordOfEveryWorker) {
  auto socket = io::listen_tcp("127.0.0.1", static_cast<std::uint16_t>(port_));
  ASSERT_TRUE(socket);
  std::vector<io::FileDescriptor> visitors;
  std::optional<io::Listener> other;
  other.emplace(loop_, std::move(socket->socket), [&](io::FileDescriptor visitor) {
    (void)io::write_some(visitor.get(),
                         as_bytes(std::string_view("\x0b\0\0\0\0\0\0\0{\"all\":[1]}", 19)));
    visitors.push_back(std::move(visitor));
    loop_.post([&] {
      other.reset();
      if (!met_.contains(0) && !meetings_.contains(0)) begin(options(0, 2));
    });
  });
  begin(options(1, 2));
  loop_.run();
  ASSERT_TRUE(met_.at(1)) << message(1);
  EXPECT_THAT(*met_.at(1), testing::ElementsAre("brought 0", "brought 1"));
}

TEST_F(MeetingTest, NamesAPortThatIsInUse) {
  const auto other = io::listen_tcp("127.0.0.1", static_cast<std::uint16_t>(port_));
  ASSERT_TRUE(other);
  MeetingOptions made = options(0, 2);
  made.port_timeout = 100ms;
  begin(std::move(made));
  loop_.run();
  EXPECT_EQ(met_.at(0).error().kind, ErrorKind::timeout);
  EXPECT_THAT(message(0), HasSubstr("cannot listen at 127.0.0.1:" + std::to_string(port_)));
}

}  // namespace
}  // namespace skyward::mpi
