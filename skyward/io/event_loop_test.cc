#include "skyward/io/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "skyward/io/file_descriptor.h"

namespace skyward::io {
namespace {

using namespace std::chrono_literals;

// Ends a test that waits for something that never comes.
void stop_after(EventLoop& loop, Duration limit) {
  loop.start_timer(EventLoop::now() + limit, [&loop] {
    ADD_FAILURE() << "the test waited too long";
    loop.stop();
  });
}

TEST(EventLoop, RunsPostsInOrder) {
  EventLoop loop;
  std::string seen;
  loop.post([&] {
    seen += 'a';
    loop.post([&] {
      seen += 'c';
      loop.stop();
    });
  });
  loop.post([&] { seen += 'b'; });
  loop.run();
  EXPECT_EQ(seen, "abc");
}

TEST(EventLoop, StopEndsTheRunAfterTheCallbackInProgress) {
  EventLoop loop;
  int ran = 0;
  loop.post([&] {
    ++ran;
    loop.stop();
  });
  loop.post([&] { ++ran; });
  loop.run();
  EXPECT_EQ(ran, 1);
}

TEST(EventLoop, StopBeforeRunMeansNoRun) {
  EventLoop loop;
  loop.post([] { FAIL(); });
  loop.stop();
  loop.run();
}

TEST(EventLoop, TakesPostsFromManyThreads) {
  EventLoop loop;
  stop_after(loop, 60s);
  constexpr int kThreads = 4;
  constexpr int kPosts = 20000;
  std::vector<std::thread> threads;
  std::vector<int> last(kThreads, -1);
  int count = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) {
        loop.post([&, t, i] {
          EXPECT_EQ(last[static_cast<std::size_t>(t)], i - 1);
          last[static_cast<std::size_t>(t)] = i;
          if (++count == kThreads * kPosts) loop.stop();
        });
      }
    });
  }
  loop.run();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, kThreads * kPosts);
}

TEST(EventLoop, ALoopThatLingersHearsEveryPost) {
  EventLoop loop;
  constexpr int kPosts = 5000;
  std::atomic<int> heard = 0;
  int posts = 0;
  std::thread poster([&] {
    const Time enough = EventLoop::now() + 5s;  // where others use both cores
    for (; posts < kPosts && EventLoop::now() < enough; ++posts) {
      const int i = posts;
      const Time end = EventLoop::now() + 60s;
      while (heard < i && EventLoop::now() < end) std::this_thread::yield();
      if (heard < i) {
        ADD_FAILURE() << "post " << i << " goes unheard";
        break;
      }
      loop.post([&] {
        loop.linger(10min);  // for a post that nobody hears
        ++heard;
      });
    }
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  poster.join();
  EXPECT_EQ(heard, posts);
}

TEST(EventLoop, ALoopThatIsStoppedDoesNotLinger) {
  EventLoop loop;
  const Time begin = EventLoop::now();
  loop.post([&] {
    loop.linger(10min);
    loop.stop();
  });
  loop.run();
  EXPECT_LT(EventLoop::now() - begin, 5min);
}

TEST(EventLoop, ALoopThatLingersGoesOnWhenNobodyPosts) {
  EventLoop loop;
  const Time begin = EventLoop::now();
  loop.post([&] { loop.linger(5ms); });
  loop.start_timer(begin, [&] { loop.stop(); });
  loop.run();
  EXPECT_GE(EventLoop::now() - begin, 5ms);
}

TEST(EventLoop, TimersFireInOrderOfTheirMoment) {
  EventLoop loop;
  const Time start = EventLoop::now();
  std::string seen;
  loop.start_timer(start + 30ms, [&] {
    seen += 'd';
    loop.stop();
  });
  loop.start_timer(start + 10ms, [&] { seen += 'b'; });
  loop.start_timer(start + 10ms, [&] { seen += 'c'; });
  loop.start_timer(start - 10ms, [&] { seen += 'a'; });
  loop.start_timer(kNever, [&] { seen += '!'; });
  loop.run();
  EXPECT_EQ(seen, "abcd");
  EXPECT_GE(EventLoop::now(), start + 30ms);
}

TEST(EventLoop, TimersAreCancelledFromInsideCallbacks) {
  EventLoop loop;
  const Time start = EventLoop::now();
  std::string seen;
  EventLoop::TimerId second = 0;
  EventLoop::TimerId first = 0;
  first = loop.start_timer(start + 5ms, [&] {
    seen += '1';
    loop.cancel_timer(second);  // due in the same turn
    loop.cancel_timer(first);   // itself: has fired
    loop.start_timer(start, [&] {
      seen += '3';
      loop.stop();
    });
  });
  second = loop.start_timer(start + 5ms, [&] { seen += '2'; });
  loop.cancel_timer(0);
  loop.run();
  EXPECT_EQ(seen, "13");
}

TEST(EventLoop, AnEarlierTimerStartedLaterIsNotLate) {
  EventLoop loop;
  const Time start = EventLoop::now();
  Time rang{};
  loop.start_timer(start + 10min, [] { FAIL(); });
  loop.post([&] {
    loop.start_timer(start + 20ms, [&] {
      rang = EventLoop::now();
      loop.stop();
    });
  });
  loop.run();
  EXPECT_GE(rang, start + 20ms);
  EXPECT_LT(rang, start + 2min);
}

TEST(EventLoop, CallsBackWhileReadableAndOnlyWhenWritingIsWanted) {
  EventLoop loop;
  stop_after(loop, 20s);
  auto pair = make_socket_pair();
  ASSERT_TRUE(pair);
  const int ours = pair->ours.get();
  ASSERT_EQ(::write(pair->theirs.get(), "xyz", 3), 3);
  std::string read;
  int writable = 0;
  loop.watch(
      ours,
      [&] {
        char byte = 0;
        ASSERT_EQ(::read(ours, &byte, 1), 1);  // one of three: level-triggered
        read += byte;
        if (read.size() == 3) {
          EXPECT_EQ(writable, 0);
          loop.want_write(ours, true);
        }
      },
      [&] {
        if (++writable < 3) return;
        loop.want_write(ours, false);
        loop.start_timer(EventLoop::now() + 10ms, [&] { loop.stop(); });
      });
  loop.run();
  EXPECT_EQ(read, "xyz");
  EXPECT_EQ(writable, 3);
}

TEST(EventLoop, AFileThatNeverBlocksIsReadableAllTheTime) {
  EventLoop loop;
  stop_after(loop, 20s);
  const FileDescriptor file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file);
  int called = 0;
  loop.watch(file.get(), [&] {
    if (++called < 3) return;
    loop.unwatch(file.get());
    loop.start_timer(EventLoop::now() + 10ms, [&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(called, 3);
}

TEST(EventLoop, AWriterHearsOfTheReadersEndWhileItWantsToWrite) {
  EventLoop loop;
  stop_after(loop, 20s);
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  pipe->read.reset();
  const int writer = pipe->write.get();
  int called = 0;
  loop.watch(writer, {}, [&] {
    ++called;
    loop.want_write(writer, false);
    loop.start_timer(EventLoop::now() + 10ms, [&] { loop.stop(); });
  });
  loop.post([&] { loop.want_write(writer, true); });
  loop.run();
  EXPECT_EQ(called, 1);
  loop.unwatch(writer);
}

TEST(EventLoop, UnwatchInsideACallbackEndsTheCallbacks) {
  EventLoop loop;
  auto pair = make_socket_pair();
  ASSERT_TRUE(pair);
  const int ours = pair->ours.get();
  int called = 0;
  ASSERT_EQ(::write(pair->theirs.get(), "x", 1), 1);
  loop.watch(ours, [&] {
    ++called;
    loop.unwatch(ours);
    pair->ours.reset();
    loop.start_timer(EventLoop::now() + 10ms, [&] { loop.stop(); });
  });
  loop.run();
  EXPECT_EQ(called, 1);
}

TEST(EventLoop, ADescriptorNumberCanBeWatchedAgainAfterUnwatch) {
  EventLoop loop;
  stop_after(loop, 20s);
  auto first = make_socket_pair();
  ASSERT_TRUE(first);
  const int number = first->ours.get();
  loop.watch(number, [] { FAIL() << "the old callback"; });
  loop.post([&] {
    loop.unwatch(number);
    auto second = make_socket_pair();
    ASSERT_TRUE(second);
    ASSERT_EQ(::dup2(second->ours.get(), number), number);
    ASSERT_EQ(::write(second->theirs.get(), "x", 1), 1);
    loop.watch(number, [&] { loop.stop(); });
  });
  loop.run();
  loop.unwatch(number);
}

TEST(EventLoop, BlockingWorkRunsElsewhereAndIsDoneHere) {
  EventLoop loop;
  stop_after(loop, 20s);
  const auto loop_thread = std::this_thread::get_id();
  // More jobs than threads, and each waits until several run at once.
  std::atomic<int> running = 0;
  int done = 0;
  for (int i = 0; i < 20; ++i) {
    loop.run_blocking(
        [&] {
          EXPECT_NE(std::this_thread::get_id(), loop_thread);
          ++running;
          while (running < 4) std::this_thread::yield();
        },
        [&] {
          EXPECT_EQ(std::this_thread::get_id(), loop_thread);
          if (++done == 20) loop.stop();
        });
  }
  loop.run();
  EXPECT_EQ(done, 20);
}

TEST(EventLoop, SignalsBecomeCallbacks) {
  EventLoop loop;
  stop_after(loop, 20s);
  int seen = 0;
  loop.watch_signal(SIGUSR1, [&] {
    if (++seen == 2) {
      loop.stop();
    } else {
      ::raise(SIGUSR1);
    }
  });
  loop.post([] { ::raise(SIGUSR1); });
  loop.run();
  EXPECT_EQ(seen, 2);
}

TEST(EventLoop, ASignalDoesWhatItDidBeforeItWasWatched) {
  struct sigaction ignored{};
  struct sigaction before{};
  ignored.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGUSR2, &ignored, &before), 0);
  {
    EventLoop loop;
    loop.watch_signal(SIGUSR2, [] {});
  }
  struct sigaction after{};
  ASSERT_EQ(::sigaction(SIGUSR2, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST(EventLoop, WritingToADeadPipeIsAnErrorNotASignal) {
  EventLoop loop;
  auto pipe = make_pipe();
  ASSERT_TRUE(pipe);
  pipe->read.reset();
  loop.post([&] {
    EXPECT_EQ(::write(pipe->write.get(), "x", 1), -1);
    EXPECT_EQ(errno, EPIPE);
    loop.stop();
  });
  loop.run();
}

TEST(EventLoop, CallbacksThatNeverRanAreDestroyedWhileTheLoopAnswers) {
  auto held = std::make_shared<int>(1);
  {
    EventLoop loop;
    struct Unwatches {
      EventLoop* loop;
      std::shared_ptr<int> held;
      ~Unwatches() { loop->unwatch(12345); }
    };
    auto object = std::make_shared<Unwatches>(&loop, held);
    loop.post([object] {});
    loop.start_timer(kNever, [object] {});
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace skyward::io
