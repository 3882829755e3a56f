#pragma once

// A two-way byte stream to another process that carries frames: a Unix socket (descriptors travel
// too), or a pair of pipes (the stdio of a command such as ssh). Writes are queued, and one writev
// sends all that is waiting. Reads are split into whole messages by a cutter that the owner
// provides, so that this room need not know what the bytes mean.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/cut.h"
#include "skyward/base/error.h"
#include "skyward/base/outgoing.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// A whole received message: `head` and `body` as the cutter split them.
struct Incoming {
  Bytes head{};
  SharedBytes body{};
  std::vector<FileDescriptor> descriptors{};
};

// Computes from a message's first `prefix_bytes` bytes how long the rest is. The Incoming's head
// will hold prefix and head; its body is read into memory of its own.
using Cutter = std::function<Result<Cut>(ByteView prefix)>;

class Channel {
 public:
  struct Handlers {
    std::function<void(Incoming)> on_message;
    // Called once: the other end closed (an empty message) or the stream broke. The channel is
    // unusable then. It may be destroyed inside this call, as inside on_message.
    std::function<void(Error)> on_closed;
    // The kernel has taken all that was queued: room for more. Never from inside send() or flush().
    std::function<void()> on_idle{};
  };

  // Takes ownership of non-blocking descriptors; for a socket both are the same one (`write`
  // empty).
  Channel(EventLoop& loop, FileDescriptor read, FileDescriptor write, std::size_t prefix_bytes,
          Cutter cutter, Handlers handlers);
  ~Channel();
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  // Queues a message. Everything queued in one turn of the loop leaves together.
  void send(Outgoing message);
  // Writes what is queued now instead of at the end of the turn; for latency.
  void flush();
  // Delivers what has already arrived, without waiting for more: the last output of a process that
  // has exited, say. From the loop thread; callbacks run inside.
  void read_now();
  // While reading is paused, what arrives does not wake the loop: it comes with read_now(), and so
  // does the news that the other end has closed. Writing goes on.
  void pause_reading(bool paused);
  // Bytes queued and not yet taken by the kernel: back-pressure for senders.
  std::size_t queued_bytes() const;
  // Bytes read so far, whole messages or not: a slow peer is not a silent one.
  std::uint64_t received_bytes() const;
  bool is_open() const;
  // Stops reading and forgets what is queued. on_closed is not called.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl>
      impl_;  // shared with the call in progress, so that callbacks may destroy the channel
};

}  // namespace skyward::io
