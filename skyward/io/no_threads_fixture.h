#pragma once

// While this exists, no thread can be started: each would need a stack larger than any machine's
// memory.

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace skyward::io {

class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&usual_), 0);
    pthread_attr_t huge = usual_;
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 47), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
  }
  ~NoThreads() { EXPECT_EQ(::pthread_setattr_default_np(&usual_), 0); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t usual_{};
};

}  // namespace skyward::io
