#include "skyward/io/unix_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "skyward/io/descriptors_fixture.h"
#include "skyward/io/machine.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;

class UnixSocketTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory); }
  void TearDown() override { std::filesystem::remove_all(directory); }

  const std::string directory = std::filesystem::temp_directory_path() / ("s" + random_hex(8));
  const std::string path = directory + "/socket";
};

TEST_F(UnixSocketTest, ConnectsAndCarriesBytes) {
  const auto listener = listen_at(path);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_FALSE(accept_next(listener->get())) << "nobody has come yet";
  const auto near = connect_to(path, kPatience);
  ASSERT_TRUE(near);
  const auto far = accept_next(listener->get());
  ASSERT_TRUE(far);
  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(write_some(near->get(), sent));
  std::array<std::byte, 8> got{};
  EXPECT_EQ(read_some(far->get(), got), 3U);
  EXPECT_EQ(got[2], std::byte{3});
}

TEST_F(UnixSocketTest, PassesDescriptorsOn) {
  auto pair = make_socket_pair();
  auto pipe = make_pipe();
  ASSERT_TRUE(pair && pipe);
  EXPECT_TRUE(take_descriptors(pair->theirs.get()).empty()) << "nothing has come yet";
  const std::array<int, 2> passed{pipe->read.get(), pipe->write.get()};
  ASSERT_TRUE(pass_descriptors(pair->ours.get(), passed));
  *pipe = {};
  const auto taken = take_descriptors(pair->theirs.get());
  ASSERT_EQ(taken.size(), 2U);
  const std::array<std::byte, 1> sent{std::byte{7}};
  ASSERT_TRUE(write_some(taken[1].get(), sent));
  std::array<std::byte, 8> got{};
  EXPECT_EQ(read_some(taken[0].get(), got), 1U);
  EXPECT_NE(::fcntl(taken[0].get(), F_GETFD) & FD_CLOEXEC, 0) << "no child inherits it";
}

TEST_F(UnixSocketTest, WhoSendsOnlyBytesPassesNothing) {
  auto pair = make_socket_pair();
  ASSERT_TRUE(pair);
  ASSERT_TRUE(write_some(pair->ours.get(), std::array<std::byte, 1>{}));
  EXPECT_TRUE(take_descriptors(pair->theirs.get()).empty());
  pair->ours.reset();
  EXPECT_TRUE(take_descriptors(pair->theirs.get()).empty()) << "and who has gone neither";
  await_close(pair->theirs.get());
  EXPECT_FALSE(pass_descriptors(pair->theirs.get(), std::array<int, 1>{pair->theirs.get()}));
}

TEST_F(UnixSocketTest, NobodyIsThereBeforeAndAfter) {
  EXPECT_FALSE(connect_to(path, kPatience));
  auto listener = listen_at(path);
  ASSERT_TRUE(listener);
  listener->reset();
  EXPECT_FALSE(connect_to(path, kPatience)) << "the file alone is nobody";
  EXPECT_TRUE(listen_at(path)) << "and is replaced";
}

TEST_F(UnixSocketTest, WhoTakesNoConnectionsIsNotWaitedForForEver) {
  const auto listener = listen_at(path);
  ASSERT_TRUE(listener);
  std::vector<FileDescriptor> waiting;
  while (auto socket = connect_to(path, 1ms)) waiting.push_back(*std::move(socket));
  EXPECT_GE(waiting.size(), 16U);
  ASSERT_TRUE(accept_next(listener->get()));
  EXPECT_TRUE(connect_to(path, kPatience)) << "there is room again";
}

TEST_F(UnixSocketTest, WhoElseListensThereIsNobody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  const auto listener = listen_at(path);
  ASSERT_TRUE(listener);
  constexpr uid_t kStranger = 4242;
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    // The kernel notes who begins to listen.
    const bool became = ::setresuid(kStranger, kStranger, kStranger) == 0;
    ::_exit(became && ::listen(listener->get(), 16) == 0 ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(stranger, &status, 0), stranger);
  ASSERT_EQ(status, 0);
  EXPECT_FALSE(connect_to(path, kPatience));
}

TEST_F(UnixSocketTest, APathThatIsTooLongIsRefusedWithItsLength) {
  const auto listener = listen_at(directory + "/" + std::string(120, 'x'));
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().kind, ErrorKind::invalid);
  EXPECT_TRUE(listener.error().message.contains("the limit is 107")) << listener.error().message;
}

}  // namespace
}  // namespace skyward::io
