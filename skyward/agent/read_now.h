#pragma once

// The moment at which bytes of workers and scripts were read.

#include "skyward/agent/output.h"
#include "skyward/io/event_loop.h"

namespace skyward::agent {

inline OutputSplitter::Stamp read_now() {
  return {.now = io::EventLoop::now(), .wall_us = io::EventLoop::wall_us()};
}

}  // namespace skyward::agent
