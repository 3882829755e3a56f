#pragma once

// A socket on which others connect. When the process is out of descriptors nobody can be accepted,
// and the socket stays readable: it is left alone for a moment then, or the loop would spin.

#include <functional>

#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::agent {

class Listener {
 public:
  // Each connection is non-blocking.
  Listener(io::EventLoop& loop, io::FileDescriptor socket,
           std::function<void(io::FileDescriptor)> on_connection);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  void watch();
  void accept();

  io::EventLoop& loop_;
  io::FileDescriptor socket_;
  std::function<void(io::FileDescriptor)> on_connection_;
  io::EventLoop::TimerId pause_ = 0;
};

}  // namespace skyward::agent
