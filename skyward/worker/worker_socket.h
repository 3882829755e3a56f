#pragma once

// The worker's end of its socket to the agent: blocking, one thread. Messages of
// wire/worker_protocol.h, whole, with their descriptors.

#include <cstddef>
#include <deque>
#include <optional>

#include "skyward/base/bytes.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward {

class WorkerSocket {
 public:
  // Borrows the descriptor and makes it blocking.
  explicit WorkerSocket(int descriptor);

  // The next message, waiting for it; empty when the agent has closed. Throws SkywardError when the
  // stream breaks, and from then on when the kernel had no room for a descriptor: which message has
  // lost it is not known.
  std::optional<wire::WorkerMessage> receive();
  // Whether receive() need not wait for bytes.
  bool has_message() const { return whole_message().has_value(); }
  // Throws SkywardError when the agent is gone.
  void send(const wire::WorkerMessage& message);

 private:
  // Waits for bytes and reads them, with their descriptors; false at the end of the stream.
  bool read_more();
  // The length of the first message received, if all of it is there.
  std::optional<std::size_t> whole_message() const;

  int descriptor_;
  Bytes buffer_;          // as large as it ever had to be: making it larger clears bytes
  std::size_t used_ = 0;  // bytes of it already handed out
  std::size_t end_ = 0;   // ... and received
  std::deque<io::FileDescriptor> descriptors_;
  bool lost_descriptors_ = false;
};

}  // namespace skyward
