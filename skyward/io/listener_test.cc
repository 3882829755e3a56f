#include "skyward/io/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <optional>

#include "skyward/io/tcp_socket.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// A sanitizer needs a descriptor when it meets a type for the first time.
void meet_types() {
  EventLoop loop;
  auto bound = listen_tcp("127.0.0.1");
  ASSERT_TRUE(bound) << bound.error().message;
  Listener listener(loop, std::move(bound->socket), [&](FileDescriptor) {
    loop.start_timer(EventLoop::now(), [&] { loop.stop(); });
  });
  const auto connecting = dial_tcp("127.0.0.1", bound->port);
  ASSERT_TRUE(connecting);
  loop.run();
}

// While no descriptor is free, a connection waits, and the loop does not spin.
TEST(Listener, DoesNotSpinWithoutDescriptors) {
  meet_types();
  EventLoop loop;
  auto bound = listen_tcp("127.0.0.1");
  ASSERT_TRUE(bound) << bound.error().message;
  int accepted = 0;
  Listener listener(loop, std::move(bound->socket), [&](FileDescriptor) {
    ++accepted;
    loop.stop();
  });
  const auto connecting = dial_tcp("127.0.0.1", bound->port);
  ASSERT_TRUE(connecting);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = fcntl(0, F_DUPFD_CLOEXEC, 0);
  const FileDescriptor lowest(next);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(next) + 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const double cpu = cpu_seconds();
  const Time began = EventLoop::now();
  loop.start_timer(began + 500ms, [&] {
    EXPECT_EQ(accepted, 0);
    EXPECT_LT(cpu_seconds() - cpu, 0.25);
    setrlimit(RLIMIT_NOFILE, &before);
  });
  loop.start_timer(began + 30s, [&] { loop.stop(); });
  loop.run();
  EXPECT_EQ(accepted, 1);
}

}  // namespace
}  // namespace skyward::io
