#pragma once

// A listening socket. When the process is out of descriptors, no connection can be accepted and the
// socket stays readable: it is ignored for a moment then, or the loop would spin.

#include <functional>

#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

class Listener {
 public:
  // Each connection is non-blocking.
  Listener(EventLoop& loop, FileDescriptor socket,
           std::function<void(FileDescriptor)> on_connection);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  void watch();
  void accept();

  EventLoop& loop_;
  FileDescriptor socket_;
  std::function<void(FileDescriptor)> on_connection_;
  EventLoop::TimerId pause_ = 0;
};

}  // namespace skyward::io
