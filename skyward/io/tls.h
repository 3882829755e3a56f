#pragma once

// A two-way byte stream between machines over TCP, encrypted, both ends proving that they know one
// secret: TLS 1.3 with a key that was shared beforehand (RFC 8446, 4.2.11) and a fresh
// Diffie-Hellman exchange, nothing else. There are no certificates: no authority to keep, no date
// to check against a wrong clock, nothing to parse before the other end has proved itself.
//
// A library of its own (skyward_tls), so that only programs that use it link OpenSSL.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"

namespace skyward::io {

// The secret of a group, and its name. Streams share it.
class TlsKey {
 public:
  // `secret`: at least 32 bytes that nobody can guess. Fails with `invalid` if it is shorter, or if
  // this system's OpenSSL refuses it.
  static Result<std::shared_ptr<const TlsKey>> make(std::string group, std::string secret);
  ~TlsKey();
  TlsKey(const TlsKey&) = delete;
  TlsKey& operator=(const TlsKey&) = delete;

 private:
  friend class TlsStream;
  struct Impl;
  explicit TlsKey(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class TlsStream {
 public:
  enum class Role { client, server };
  // On the loop thread. Each may destroy the stream.
  struct Events {
    std::function<void()> on_open;  // once: the other end knows the secret
    std::function<void(ByteView)> on_bytes;
    std::function<void()> on_room{};  // write() may be tried again
    // Once, after which the stream is dead: the other end closed (an empty message), does not know
    // the secret (`denied`), or the connection failed.
    std::function<void(Error)> on_closed;
  };

  // `socket`: non-blocking, connected or (Role::client) still connecting.
  TlsStream(EventLoop& loop, std::shared_ptr<const TlsKey> key, Role role, FileDescriptor socket,
            Events events);
  ~TlsStream();  // does not call on_closed
  TlsStream(const TlsStream&) = delete;
  TlsStream& operator=(const TlsStream&) = delete;

  // Takes as much as the connection does, once it is open, and returns that. When that is not all,
  // on_room follows.
  std::size_t write(ByteView bytes);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with the call in progress
};

}  // namespace skyward::io
