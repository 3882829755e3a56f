#pragma once

// For tests: while this exists, this process can open no file.

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace skyward::io {

class NoFiles {
 public:
  NoFiles() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &usual_), 0);
    rlimit none = usual_;
    none.rlim_cur = 0;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoFiles() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &usual_), 0); }
  NoFiles(const NoFiles&) = delete;
  NoFiles& operator=(const NoFiles&) = delete;

 private:
  rlimit usual_{};
};

}  // namespace skyward::io
