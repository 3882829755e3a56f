#include "skyward/worker/worker_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "skyward/call/error.h"
#include "skyward/io/passed_descriptors.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/blob_memory.h"
#include "skyward/wire/little_endian.h"

namespace skyward {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kControlBytes = CMSG_SPACE(sizeof(int) * 253);

[[noreturn]] void broken(const char* verb) {
  throw SkywardError(std::string("cannot ") + verb +
                     " the worker's socket: " + io::errno_text(errno));
}

std::uint32_t prefix_of(const std::byte* at) { return wire::load<std::uint32_t>(at); }

}  // namespace

WorkerSocket::WorkerSocket(int descriptor) : descriptor_(descriptor) {
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK) < 0) broken("use");
}

std::optional<std::size_t> WorkerSocket::whole_message() const {
  const std::size_t there = end_ - used_;
  if (there < wire::kWorkerPrefixBytes) return std::nullopt;
  const std::size_t length = prefix_of(buffer_.data() + used_);
  if (there - wire::kWorkerPrefixBytes < length) return std::nullopt;
  return length;
}

bool WorkerSocket::read_more() {
  // The beginning of a message, if anything, is left.
  const std::size_t there = end_ - used_;
  if (there > 0 && used_ > 0) std::memmove(buffer_.data(), buffer_.data() + used_, there);
  used_ = 0;
  end_ = there;
  // A long message is read in one go once its length is known.
  std::size_t room = kReadBytes;
  if (there >= wire::kWorkerPrefixBytes) {
    const std::size_t whole = wire::kWorkerPrefixBytes + prefix_of(buffer_.data());
    if (whole > there) room = std::max(room, whole - there);
  }
  if (buffer_.size() < end_ + room) buffer_.resize(end_ + room);
  iovec piece{.iov_base = buffer_.data() + end_, .iov_len = room};
  alignas(cmsghdr) char control[kControlBytes];
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t count = -1;
  do {
    count = recvmsg(descriptor_, &header, MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    if (errno == ECONNRESET) return false;
    broken("read");
  }
  end_ += static_cast<std::size_t>(count);
  io::claim_descriptors(header, descriptors_);
  if ((header.msg_flags & MSG_CTRUNC) != 0) lost_descriptors_ = true;
  return count > 0;
}

std::optional<wire::WorkerMessage> WorkerSocket::receive() {
  std::optional<std::size_t> length;
  while (!(length = whole_message()) && !lost_descriptors_) {
    if (!read_more()) return std::nullopt;
  }
  if (lost_descriptors_) {
    throw SkywardError(
        "it cannot receive the arguments of a call, because it has too many files open. Close "
        "files in your functions, or raise the limit (ulimit -n)");
  }
  const std::byte* begin = buffer_.data() + used_ + wire::kWorkerPrefixBytes;
  SharedBytes message(Bytes(begin, begin + *length));
  used_ += wire::kWorkerPrefixBytes + *length;
  const auto count = wire::worker_descriptor_count(message.view);
  if (!count) throw_error(count.error());
  if (descriptors_.size() < *count) {
    throw SkywardError("a message from the agent came without its descriptors");
  }
  const auto end = descriptors_.begin() + static_cast<std::ptrdiff_t>(*count);
  std::vector<io::FileDescriptor> taken(std::move_iterator(descriptors_.begin()),
                                        std::move_iterator(end));
  descriptors_.erase(descriptors_.begin(), end);
  auto decoded =
      wire::decode_worker_message(std::move(message), wire::received_blobs(std::move(taken)));
  if (!decoded) throw_error(decoded.error());
  return *std::move(decoded);
}

void WorkerSocket::send(const wire::WorkerMessage& message) {
  const Outgoing encoded = wire::encode_worker_message(message);
  std::vector<iovec> pieces;
  const auto add = [&pieces](ByteView bytes) {
    if (!bytes.empty()) {
      pieces.push_back({.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()});
    }
  };
  add(encoded.head);
  for (const SharedBytes& part : encoded.body) add(part.view);

  std::vector<char> control(CMSG_SPACE(sizeof(int) * encoded.descriptors.size()));
  bool with_descriptors = !encoded.descriptors.empty();
  constexpr std::size_t kMostPieces = 1024;  // IOV_MAX
  for (std::size_t first = 0; first < pieces.size();) {
    msghdr header{};
    header.msg_iov = pieces.data() + first;
    header.msg_iovlen = std::min(pieces.size() - first, kMostPieces);
    if (with_descriptors) {
      io::attach_descriptors(header, encoded.descriptors, control.data());
    }
    const ssize_t count = sendmsg(descriptor_, &header, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno != ETOOMANYREFS && errno != ENOBUFS && errno != ENOMEM) broken("write to");
      poll(nullptr, 0, 1);  // too much is on its way; no event tells when it is less
      continue;
    }
    with_descriptors = false;
    std::size_t written = static_cast<std::size_t>(count);
    while (first < pieces.size() && written >= pieces[first].iov_len) {
      written -= pieces[first++].iov_len;
    }
    if (written > 0) {
      pieces[first].iov_base = static_cast<std::byte*>(pieces[first].iov_base) + written;
      pieces[first].iov_len -= written;
    }
  }
}

}  // namespace skyward
