#pragma once

// A web server for tests, on a port of its own of 127.0.0.1: one thread, one connection after
// another. The test writes whole replies, byte by byte if it likes.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "skyward/io/file_descriptor.h"

namespace skyward::io {

class HttpServerFixture {
 public:
  struct Received {
    std::string head;  // request line and headers
    std::string body;
  };
  // Gets a request and returns the whole reply; an empty one drops the connection.
  using Answer = std::function<std::string(const Received&)>;

  explicit HttpServerFixture(Answer answer) : answer_(std::move(answer)) {
    listener_ = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), generic, size) != 0 || ::listen(listener_.get(), 16) != 0 ||
        ::getsockname(listener_.get(), generic, &size) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServerFixture() {
    stopping_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  HttpServerFixture(const HttpServerFixture&) = delete;
  HttpServerFixture& operator=(const HttpServerFixture&) = delete;

  std::string url(std::string_view path = "/") const {
    return "http://127.0.0.1:" + std::to_string(port_) + std::string(path);
  }
  int requests() const { return requests_; }

  static std::string reply(int status, std::string_view body, std::string_view headers = "") {
    return "HTTP/1.1 " + std::to_string(status) +
           " Status\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           std::string(headers) + "\r\n" + std::string(body);
  }

 private:
  void serve() {
    while (!stopping_) {
      const FileDescriptor connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection) continue;
      std::string buffer;
      while (!stopping_ && serve_one(connection.get(), buffer)) {
      }
    }
  }

  // False when the connection is over.
  bool serve_one(int connection, std::string& buffer) {
    std::size_t end = std::string::npos;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!read_more(connection, buffer)) return false;
    }
    Received received{.head = buffer.substr(0, end), .body = {}};
    std::size_t length = 0;
    if (const std::size_t at = received.head.find("Content-Length: "); at != std::string::npos) {
      length = std::strtoul(received.head.c_str() + at + 16, nullptr, 10);
    }
    while (buffer.size() < end + 4 + length) {
      if (!read_more(connection, buffer)) return false;
    }
    received.body = buffer.substr(end + 4, length);
    buffer.erase(0, end + 4 + length);
    ++requests_;
    const std::string text = answer_(received);
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t count =
          ::send(connection, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return !text.empty();
  }

  bool read_more(int connection, std::string& buffer) {
    std::array<char, 4096> chunk{};
    while (!stopping_) {
      pollfd waiting{.fd = connection, .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, 20) <= 0) continue;
      const ssize_t count = ::recv(connection, chunk.data(), chunk.size(), 0);
      if (count <= 0) return false;
      buffer.append(chunk.data(), static_cast<std::size_t>(count));
      return true;
    }
    return false;
  }

  const Answer answer_;
  FileDescriptor listener_;
  int port_ = 0;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

}  // namespace skyward::io
