#include "skyward/engine/loop_verbs.h"

#include <gtest/gtest.h>

#include <future>
#include <semaphore>
#include <string>
#include <vector>

#include "skyward/io/no_threads_fixture.h"

namespace skyward::engine {
namespace {

using namespace std::chrono_literals;

class VerbsTest : public ::testing::Test {
 protected:
  ~VerbsTest() override { EXPECT_FALSE(timed_out_); }

  Verbs::Step say(const char* word) {
    return [this, word] { said_.emplace_back(word); };
  }
  void run() {
    loop_.start_timer(io::EventLoop::now() + 20s, [this] {
      timed_out_ = true;
      loop_.stop();
    });
    loop_.run();
  }

  io::EventLoop loop_;
  int idle_ = 0;  // how often they became so
  Verbs verbs_{loop_, [this] { ++idle_; }};
  std::vector<std::string> said_;  // one thread speaks at a time
  bool timed_out_ = false;
};

TEST_F(VerbsTest, AreIdleWhenNoneIsLeft) {
  EXPECT_TRUE(verbs_.are_idle());
  verbs_.add(say("a"), [this] { EXPECT_FALSE(verbs_.are_idle()); });
  verbs_.add(say("b"), [this] { loop_.post([this] { loop_.stop(); }); });
  EXPECT_FALSE(verbs_.are_idle());
  run();
  EXPECT_TRUE(verbs_.are_idle());
  EXPECT_EQ(idle_, 1);
}

TEST_F(VerbsTest, RunOneAfterAnotherInOrder) {
  verbs_.add(say("a"), say("answer a"));
  verbs_.add_urgent(say("b"), say("answer b"));
  verbs_.add(say("c"), [this] { loop_.stop(); });
  run();
  EXPECT_EQ(said_, (std::vector<std::string>{"a", "answer a", "b", "answer b", "c"}));
}

// As uploads to many nodes at once.
TEST_F(VerbsTest, DoNotWaitForOtherBlockingWork) {
  std::promise<void> ended;
  const std::shared_future<void> end = ended.get_future().share();
  for (int i = 0; i < 20; ++i) {
    loop_.run_blocking([end] { EXPECT_EQ(end.wait_for(20s), std::future_status::ready); }, [] {});
  }
  verbs_.add_urgent([&] { ended.set_value(); }, [this] { loop_.stop(); });
  run();
}

TEST_F(VerbsTest, RunWithoutThreads) {
  loop_.post([this] {
    const io::NoThreads none;
    verbs_.add(say("a"), say("answer a"));
    verbs_.add(say("b"), [this] { loop_.stop(); });
  });
  run();
  EXPECT_EQ(said_, (std::vector<std::string>{"a", "answer a", "b"}));
}

// As a provision that waits for a machine while another one has to end.
TEST_F(VerbsTest, WhatIsUrgentRunsWhileAnotherWaits) {
  std::binary_semaphore asked{0};
  verbs_.add(
      [&] {
        said_.emplace_back("waits");
        ASSERT_TRUE(asked.try_acquire_for(20s));
        verbs_.run_urgent();
        said_.emplace_back("done");
      },
      say("answer"));
  verbs_.add_urgent(say("end 1"), [] {});
  verbs_.add_urgent(say("end 2"), [] {});
  verbs_.add(say("last"), [this] { loop_.stop(); });
  asked.release();
  run();
  EXPECT_EQ(said_, (std::vector<std::string>{"waits", "end 1", "end 2", "done", "answer", "last"}));
}

}  // namespace
}  // namespace skyward::engine
