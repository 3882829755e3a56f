#include "skyward/io/plain_http.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <string_view>

#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/polling.h"

namespace skyward::io {

namespace {

constexpr std::size_t kMaxReplyBytes = std::size_t{64} << 10;

std::unexpected<Error> no_answer(const PlainRequest& request, std::string_view why) {
  return fail(ErrorKind::unavailable,
              fmt::format("{}:{} did not answer: {}", request.address, request.port, why));
}

// Waits until the descriptor is ready for `events`.
Status wait_for(const PlainRequest& request, int descriptor, short events, Time deadline) {
  const int ready = poll_until(descriptor, events, deadline);
  if (ready > 0) return {};
  return no_answer(request, ready == 0 ? "in time" : errno_text(errno));
}

Result<FileDescriptor> dial(const PlainRequest& request, Time deadline) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(request.port));
  if (::inet_pton(AF_INET, request.address.c_str(), &address.sin_addr) != 1) {
    return fail(ErrorKind::invalid, fmt::format("{} is not an IPv4 address", request.address));
  }
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return no_answer(request, errno_text(errno));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (::connect(socket.get(), generic, sizeof address) != 0) {
    if (errno != EINPROGRESS) return no_answer(request, errno_text(errno));
    if (Status ready = wait_for(request, socket.get(), POLLOUT, deadline); !ready) {
      return fail(ready);
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return no_answer(request, errno_text(error));
  }
  return socket;
}

std::string text_of(const PlainRequest& request) {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
                                 request.method, request.path, request.address);
  for (const auto& [name, value] : request.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (request.method != "GET") text += "Content-Length: 0\r\n";
  return text + "\r\n";
}

// The value of a header, where `head` has it.
std::optional<std::string_view> header_of(std::string_view head, std::string_view name) {
  const auto same = [](char a, char b) { return (a | 0x20) == (b | 0x20); };
  for (std::size_t line = head.find("\r\n"); line != head.npos; line = head.find("\r\n", line)) {
    line += 2;
    const std::string_view rest = head.substr(line);
    if (rest.size() <= name.size() || rest[name.size()] != ':' ||
        !std::ranges::equal(rest.substr(0, name.size()), name, same)) {
      continue;
    }
    const std::string_view value =
        rest.substr(name.size() + 1, rest.find("\r\n") - name.size() - 1);
    const std::size_t begin = value.find_first_not_of(' ');
    return begin == value.npos ? std::string_view() : value.substr(begin);
  }
  return std::nullopt;
}

// The reply in `text`; nothing while more must come.
std::optional<Result<PlainReply>> parse(const PlainRequest& request, std::string_view text,
                                        bool ended) {
  const auto broken = [&](std::string_view why) {
    return fail(ErrorKind::invalid,
                fmt::format("{}:{} does not speak HTTP: {}", request.address, request.port, why));
  };
  if (text.size() > kMaxReplyBytes) return broken("its answer is too long");
  const std::size_t end = text.find("\r\n\r\n");
  if (end == text.npos)
    return ended ? std::optional<Result<PlainReply>>(broken("no head")) : std::nullopt;
  const std::string_view head = text.substr(0, end + 2);
  PlainReply reply{.request_path = request.path};
  constexpr std::size_t kStatusAt = 9;  // of "HTTP/1.1 200 OK"
  if (!head.starts_with("HTTP/1.") || head.size() < kStatusAt + 3) return broken("no status");
  const auto* digits = head.data() + kStatusAt;
  if (std::from_chars(digits, digits + 3, reply.status).ptr != digits + 3) {
    return broken("no status");
  }
  if (header_of(head, "Transfer-Encoding")) return broken("its answer comes in chunks");
  const std::string_view body = text.substr(end + 4);
  std::size_t length = body.size();
  if (const auto told = header_of(head, "Content-Length")) {
    if (std::from_chars(told->data(), told->data() + told->size(), length).ec != std::errc()) {
      return broken("no length");
    }
    if (body.size() < length) {
      return ended ? std::optional<Result<PlainReply>>(broken("it ended early")) : std::nullopt;
    }
  } else if (!ended) {
    return std::nullopt;
  }
  reply.body = body.substr(0, length);
  return reply;
}

}  // namespace

Result<PlainReply> send_plain_http(const PlainRequest& request, Duration timeout) {
  const Time deadline = EventLoop::now() + timeout;
  Result<FileDescriptor> socket = dial(request, deadline);
  if (!socket) return fail(socket);
  const std::string text = text_of(request);
  // A small request fits the empty buffer of a new connection.
  if (::send(socket->get(), text.data(), text.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(text.size())) {
    return no_answer(request, errno_text(errno));
  }
  std::string received;
  while (true) {
    if (Status ready = wait_for(request, socket->get(), POLLIN, deadline); !ready) {
      return fail(ready);
    }
    std::array<char, 4096> bytes;
    const ssize_t count = ::recv(socket->get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return no_answer(request, errno_text(errno));
    received.append(bytes.data(), static_cast<std::size_t>(count));
    if (auto reply = parse(request, received, count == 0)) return *std::move(reply);
  }
}

}  // namespace skyward::io
