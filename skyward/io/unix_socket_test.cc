#include "skyward/io/unix_socket.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "skyward/io/machine.h"

namespace skyward::io {
namespace {

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
  const auto near = connect_to(path);
  ASSERT_TRUE(near);
  const auto far = accept_next(listener->get());
  ASSERT_TRUE(far);
  const std::array<std::byte, 3> sent{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_TRUE(write_some(near->get(), sent));
  std::array<std::byte, 8> got{};
  EXPECT_EQ(read_some(far->get(), got), 3U);
  EXPECT_EQ(got[2], std::byte{3});
}

TEST_F(UnixSocketTest, NobodyIsThereBeforeAndAfter) {
  EXPECT_FALSE(connect_to(path));
  auto listener = listen_at(path);
  ASSERT_TRUE(listener);
  listener->reset();
  EXPECT_FALSE(connect_to(path)) << "the file alone is nobody";
  EXPECT_TRUE(listen_at(path)) << "and is replaced";
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
  EXPECT_FALSE(connect_to(path));
}

TEST_F(UnixSocketTest, APathThatIsTooLongIsRefusedWithItsLength) {
  const auto listener = listen_at(directory + "/" + std::string(120, 'x'));
  ASSERT_FALSE(listener);
  EXPECT_EQ(listener.error().kind, ErrorKind::invalid);
  EXPECT_TRUE(listener.error().message.contains("at most 107")) << listener.error().message;
}

}  // namespace
}  // namespace skyward::io
