#include "skyward/io/channel.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <new>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/io/passed_descriptors.h"
#include "skyward/io/wide_pipe.h"

namespace skyward::io {

namespace {

// A read takes what a Unix socket holds at most by default.
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
// What a pipe holds unless it is told otherwise: one that was full is too narrow.
constexpr std::size_t kPipeBytes = std::size_t{64} << 10;
// Bodies from here on are read straight into memory of their own.
constexpr std::size_t kDirectBodyBytes = std::size_t{32} << 10;
// Bodies from here on live in huge pages where the system has them: half of the time goes into page
// faults otherwise.
constexpr std::size_t kHugeBodyBytes = std::size_t{4} << 20;
constexpr std::size_t kHugePage = std::size_t{2} << 20;
// What one channel may read before others get their turn.
constexpr std::size_t kReadBudgetBytes = std::size_t{1} << 20;
// Queued bytes that leave before the turn ends, so that the reader starts early and memory stays
// small.
constexpr std::size_t kEagerFlushBytes = std::size_t{256} << 10;
constexpr std::size_t kMaxPieces = 1024;  // IOV_MAX
// SCM_MAX_FD, the kernel's limit for one sendmsg.
constexpr std::size_t kMaxDescriptorsPerCall = 253;
// Descriptors that arrived and no message has claimed; a peer that sends more is broken.
constexpr std::size_t kMaxUnclaimedDescriptors = 4096;
// Turns of reading that a peer gets to whom nothing can be written any more.
constexpr int kLastTurns = 64;
constexpr Duration kRetryDelay = std::chrono::milliseconds(1);

bool is_unix_socket(int descriptor) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

// Memory for a body, not cleared. Throws std::bad_alloc.
std::shared_ptr<std::byte[]> body_memory(std::size_t size) {
  if (size < kHugeBodyBytes) return std::make_shared_for_overwrite<std::byte[]>(size);
  if (size > PTRDIFF_MAX) throw std::bad_alloc();
  constexpr std::align_val_t kAlignment{kHugePage};
  std::shared_ptr<std::byte[]> memory(static_cast<std::byte*>(::operator new(size, kAlignment)),
                                      [](std::byte* last) { ::operator delete(last, kAlignment); });
  ::madvise(memory.get(), size / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

}  // namespace

struct Channel::Impl : std::enable_shared_from_this<Impl> {
  Impl(EventLoop& event_loop, FileDescriptor read, FileDescriptor write, std::size_t prefix,
       Cutter sizes_of, Handlers callbacks)
      : loop(event_loop),
        read_end(std::move(read)),
        write_end(std::move(write)),
        prefix_bytes(prefix),
        cutter(std::move(sizes_of)),
        handlers(std::move(callbacks)),
        reads_unix_socket(is_unix_socket(read_end.get())),
        writes_unix_socket(is_unix_socket(write_number())),
        buffer(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {
    SKYWARD_CHECK(prefix_bytes > 0 && prefix_bytes < kBufferBytes);
  }

  struct Queued {
    Outgoing message;
    std::size_t bytes = 0;
  };

  EventLoop& loop;
  FileDescriptor read_end;
  FileDescriptor write_end;
  const std::size_t prefix_bytes;
  const Cutter cutter;
  const Handlers handlers;
  const bool reads_unix_socket;
  const bool writes_unix_socket;
  bool open = true;

  // Writing. Of the first message in the queue, `written` bytes and `descriptors_written`
  // descriptors have left; descriptors may have left for messages further back, so the count goes
  // on into those.
  std::deque<Queued> queue;
  std::size_t queued = 0;
  std::size_t written = 0;
  std::size_t descriptors_written = 0;
  bool flush_posted = false;
  bool idle_posted = false;
  bool waiting = false;        // for the kernel to take more
  bool write_widened = false;  // or cannot be
  Error write_error;           // set once writing has failed; reading goes on to what is left
  bool write_failed = false;

  // Reading. buffer[begin, end) is what has not been cut yet. It grows for a message whose head
  // alone is larger.
  std::unique_ptr<std::byte[]> buffer;
  std::size_t capacity = kBufferBytes;
  std::size_t begin = 0;
  std::size_t end = 0;
  bool cut_known = false;  // `cut` belongs to the message at `begin`
  Cut cut;
  // The message in progress, once its head is complete and a large body is being read into place.
  bool reading_body = false;
  Bytes head;
  std::shared_ptr<std::byte[]> body;
  std::size_t body_read = 0;
  std::deque<FileDescriptor> arrived;  // in order, not claimed yet
  bool read_stopped_early = false;     // the kernel ends a read where descriptors are attached
  bool reading_paused = false;
  bool read_widened = false;  // or cannot be
  std::uint64_t received = 0;

  int write_number() const { return write_end ? write_end.get() : read_end.get(); }

  void start() {
    if (write_end) loop.watch(write_end.get(), {}, [this] { on_writable(); });
    watch_read_end();
  }

  void watch_read_end() {
    Callback readable;
    Callback writable;
    if (!reading_paused) readable = [this] { on_readable(); };
    if (!write_end) writable = [this] { on_writable(); };
    loop.watch(read_end.get(), std::move(readable), std::move(writable));
  }

  void pause_reading(bool paused) {
    if (!open || paused == reading_paused) return;
    reading_paused = paused;
    loop.unwatch(read_end.get());
    watch_read_end();
    if (waiting && !write_end) loop.want_write(write_number(), true);
  }

  void close() {
    if (!open) return;
    open = false;
    loop.unwatch(read_end.get());
    if (write_end) loop.unwatch(write_end.get());
    read_end.reset();
    write_end.reset();
    arrived.clear();
    // What was queued may own things that end up here again.
    queued = 0;
    const auto forgotten = std::exchange(queue, {});
  }

  void fail_with(Error error) {
    if (!open) return;
    close();
    handlers.on_closed(std::move(error));
  }

  // ---- writing

  void send(Outgoing message) {
    if (!open || write_failed) return;
    SKYWARD_CHECK(writes_unix_socket || message.descriptors.empty(),
                  "descriptors travel only over Unix sockets");
    const std::size_t bytes = message.size();
    SKYWARD_CHECK(bytes > 0);
    const std::size_t descriptors = message.descriptors.size();
    SKYWARD_CHECK(
        descriptors <= kMaxDescriptorsPerCall || bytes > descriptors / kMaxDescriptorsPerCall + 2,
        "{} bytes cannot carry {} descriptors", bytes, descriptors);
    queued += bytes;
    queue.push_back({.message = std::move(message), .bytes = bytes});
    if (waiting) return;
    if (queued >= kEagerFlushBytes) {
      flush();
    } else if (!flush_posted) {
      flush_posted = true;
      loop.post([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self) return;
        self->flush_posted = false;
        self->flush();
      });
    }
  }

  void flush() {
    if (waiting || write_failed) return;
    while (open && !queue.empty()) {
      if (const ssize_t taken = write_some(); taken >= 0) {
        advance(static_cast<std::size_t>(taken));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        if (!std::exchange(write_widened, true) && widen_pipe(write_number())) continue;
        waiting = true;
        loop.want_write(write_number(), true);
        return;
      } else if (errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM) {
        // Too much is under way already; no event tells when it is less.
        waiting = true;
        loop.want_write(write_number(), false);
        loop.start_timer(EventLoop::now() + kRetryDelay, [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->on_writable();
        });
        return;
      } else if (errno != EINTR) {
        fail_writing(errno);
        return;
      }
    }
    tell_idle();
  }

  void tell_idle() {
    if (!handlers.on_idle || idle_posted || !open) return;
    idle_posted = true;
    loop.post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->idle_posted = false;
      if (self->open && self->queue.empty()) self->handlers.on_idle();
    });
  }

  void on_writable() {
    if (!open) return;
    waiting = false;
    const auto self = shared_from_this();
    flush();
    if (open && !waiting) loop.want_write(write_number(), false);
  }

  // Hands the kernel as many pieces of as many messages as it takes in one call.
  ssize_t write_some() {
    iovec pieces[kMaxPieces];
    std::size_t count = 0;
    int descriptors[kMaxDescriptorsPerCall];
    std::size_t descriptor_count = 0;
    std::size_t skip = written;
    std::size_t skip_descriptors = descriptors_written;
    bool full = false;
    const auto add = [&](ByteView piece) {
      if (skip >= piece.size()) {
        skip -= piece.size();
        return;
      }
      if (count == kMaxPieces) {
        full = true;
        return;
      }
      piece = piece.subspan(std::exchange(skip, 0));
      pieces[count++] = {.iov_base = const_cast<std::byte*>(piece.data()), .iov_len = piece.size()};
    };
    for (const Queued& next : queue) {
      const auto& owned = next.message.descriptors;
      const std::size_t first = std::min(skip_descriptors, owned.size());
      skip_descriptors -= first;
      const std::size_t left = owned.size() - first;
      const std::size_t fit = std::min(left, kMaxDescriptorsPerCall - descriptor_count);
      if (fit < left && owned.size() <= kMaxDescriptorsPerCall)
        break;  // they go with the next call
      std::copy_n(owned.begin() + static_cast<std::ptrdiff_t>(first), fit,
                  descriptors + descriptor_count);
      descriptor_count += fit;
      const std::size_t before = count;
      add(next.message.head);
      for (const SharedBytes& piece : next.message.body) {
        if (full) break;
        add(piece.view);
      }
      if (fit < left) {
        // A message must not be complete before its descriptors are: one byte carries this load,
        // the rest follows.
        if (count > before) {
          count = before + 1;
          pieces[before].iov_len = 1;
        }
        full = true;
      }
      if (full || count == kMaxPieces) break;
    }
    if (!writes_unix_socket) return write_pieces(pieces, count);
    const ssize_t taken = send_pieces(pieces, count, descriptors, descriptor_count);
    if (taken > 0) descriptors_written += descriptor_count;
    return taken;
  }

  ssize_t write_pieces(iovec* pieces, std::size_t count) {
    return ::writev(write_number(), pieces, static_cast<int>(count));
  }

  ssize_t send_pieces(iovec* pieces, std::size_t count, const int* descriptors,
                      std::size_t descriptor_count) {
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptorsPerCall * sizeof(int))];
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = count;
    if (descriptor_count > 0) {
      attach_descriptors(message, {descriptors, descriptor_count}, control);
    }
    return ::sendmsg(write_number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void advance(std::size_t taken) {
    queued -= taken;
    written += taken;
    while (!queue.empty() && written >= queue.front().bytes) {
      written -= queue.front().bytes;
      descriptors_written -= queue.front().message.descriptors.size();
      const Queued done = std::move(queue.front());
      queue.pop_front();
    }
  }

  // The peer may have said something before it went (why it goes, for one): that is delivered
  // first. Posted, because callers of send() do not expect callbacks.
  void fail_writing(int error) {
    write_failed = true;
    write_error = {ErrorKind::lost, "cannot write to the other process: " + errno_text(error), {}};
    queued = 0;
    const auto forgotten = std::exchange(queue, {});
    loop.post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      self->read_now();
      self->fail_with(std::move(self->write_error));
    });
  }

  // ---- reading

  void on_readable() {
    const auto self = shared_from_this();  // the owner may let go of the channel inside a callback
    read_turn();
  }

  void read_now() {
    const auto self = shared_from_this();
    for (int turn = 0; turn < kLastTurns && open; ++turn) {
      if (!read_turn()) break;
    }
  }

  // Reads and delivers up to the budget. Says whether more may be there.
  bool read_turn() {
    std::size_t budget = kReadBudgetBytes;
    while (open && budget > 0) {
      iovec room[2];
      const int rooms = make_room(room);
      const std::size_t wanted = room[0].iov_len + (rooms == 2 ? room[1].iov_len : 0);
      const ssize_t count =
          reads_unix_socket ? receive(room, rooms) : ::readv(read_end.get(), room, rooms);
      if (!open) return false;
      if (count < 0) {
        if (errno == EINTR) continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
        fail_with(
            {ErrorKind::lost, "cannot read from the other process: " + errno_text(errno), {}});
        return false;
      }
      if (count == 0) {
        end_of_stream();
        return false;
      }
      const auto size = static_cast<std::size_t>(count);
      if (size >= kPipeBytes && !std::exchange(read_widened, true)) widen_pipe(read_end.get());
      const bool may_be_more = size == wanted || reading_body || read_stopped_early || write_failed;
      take(size);
      deliver();
      budget -= std::min(budget, size);
      // A short read most likely took all there was; the loop calls again if not.
      if (!may_be_more) return false;
    }
    return open;
  }

  // Where the next bytes go: the rest of a body in progress, then the buffer.
  int make_room(iovec* room) {
    if (begin > 0) {
      // Less than one message is left over: small.
      std::memmove(buffer.get(), buffer.get() + begin, end - begin);
      end -= std::exchange(begin, 0);
    }
    if (end == 0 && capacity > kBufferBytes) {
      buffer = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
      capacity = kBufferBytes;
    }
    int rooms = 0;
    if (reading_body) {
      room[rooms++] = {.iov_base = body.get() + body_read, .iov_len = cut.body_bytes - body_read};
    }
    room[rooms++] = {.iov_base = buffer.get() + end, .iov_len = capacity - end};
    return rooms;
  }

  ssize_t receive(iovec* room, int rooms) {
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptorsPerCall * sizeof(int))];
    msghdr message{};
    message.msg_iov = room;
    message.msg_iovlen = static_cast<std::size_t>(rooms);
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t count = ::recvmsg(read_end.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0) return count;
    read_stopped_early = message.msg_controllen > 0;
    claim_descriptors(message, arrived);
    if (message.msg_flags & MSG_CTRUNC) {
      fail_with({.kind = ErrorKind::exhausted,
                 .message = "cannot receive the descriptors that the other process sent",
                 .hint = "raise the limit of open files (ulimit -n)"});
    } else if (arrived.size() > kMaxUnclaimedDescriptors) {
      fail_with({.kind = ErrorKind::invalid,
                 .message = fmt::format("the other process sent {} descriptors that no message "
                                        "announced",
                                        arrived.size()),
                 .hint = {}});
    }
    return count;
  }

  void take(std::size_t size) {
    received += size;
    if (reading_body) {
      const std::size_t into_body = std::min(size, cut.body_bytes - body_read);
      body_read += into_body;
      size -= into_body;
    }
    end += size;
  }

  // Cuts and delivers every message that is complete.
  void deliver() {
    while (open) {
      if (reading_body) {
        if (body_read < cut.body_bytes) return;
        reading_body = false;
        deliver_message(std::move(head));
        continue;
      }
      const std::size_t available = end - begin;
      if (available < prefix_bytes) return;
      if (!cut_known && !cut_message()) return;
      const std::size_t head_size = prefix_bytes + cut.head_bytes;
      if (available >= head_size + cut.body_bytes && cut.body_bytes < kDirectBodyBytes) {
        if (!make_body()) return;
        Bytes whole_head = take_from_buffer(head_size);
        if (cut.body_bytes > 0) std::memcpy(body.get(), buffer.get() + begin, cut.body_bytes);
        begin += cut.body_bytes;
        deliver_message(std::move(whole_head));
      } else if (available >= head_size && cut.body_bytes >= kDirectBodyBytes) {
        if (!make_body()) return;
        head = take_from_buffer(head_size);
        body_read = std::min(end - begin, cut.body_bytes);
        std::memcpy(body.get(), buffer.get() + begin, body_read);
        begin += body_read;
        reading_body = true;
      } else {
        return;
      }
    }
  }

  // Asks how long the message at `begin` is. False: the channel has closed.
  bool cut_message() {
    Result<Cut> answer = cutter({buffer.get() + begin, prefix_bytes});
    if (!open) return false;
    if (!answer) {
      fail_with(std::move(answer.error()));
      return false;
    }
    cut = *answer;
    cut_known = true;
    // Head and small body must fit into the buffer as a whole.
    const std::size_t needed =
        prefix_bytes + cut.head_bytes + (cut.body_bytes < kDirectBodyBytes ? cut.body_bytes : 0);
    return needed <= capacity || grow_buffer(needed);
  }

  bool grow_buffer(std::size_t needed) {
    try {
      auto larger = std::make_unique_for_overwrite<std::byte[]>(needed);
      std::memcpy(larger.get(), buffer.get() + begin, end - begin);
      buffer = std::move(larger);
    } catch (const std::bad_alloc&) {
      fail_without_memory(needed);
      return false;
    }
    end -= std::exchange(begin, 0);
    capacity = needed;
    return true;
  }

  bool make_body() {
    body.reset();
    if (cut.body_bytes == 0) return true;
    try {
      body = body_memory(cut.body_bytes);
    } catch (const std::bad_alloc&) {
      fail_without_memory(cut.body_bytes);
      return false;
    }
    return true;
  }

  void fail_without_memory(std::size_t wanted) {
    fail_with({.kind = ErrorKind::exhausted,
               .message = fmt::format("no memory for a message of {} bytes", wanted),
               .hint = "free memory in this process or send less at once"});
  }

  Bytes take_from_buffer(std::size_t size) {
    const std::byte* first = buffer.get() + begin;
    begin += size;
    return {first, first + size};
  }

  void deliver_message(Bytes whole_head) {
    cut_known = false;
    if (arrived.size() < cut.descriptors) {
      fail_with({.kind = ErrorKind::invalid,
                 .message = fmt::format("a message announced {} descriptors, but {} came with it",
                                        cut.descriptors, arrived.size()),
                 .hint = {}});
      return;
    }
    Incoming message;
    message.head = std::move(whole_head);
    if (body) message.body = SharedBytes(body, {body.get(), cut.body_bytes});
    body.reset();
    for (std::size_t i = 0; i < cut.descriptors; ++i) {
      message.descriptors.push_back(std::move(arrived.front()));
      arrived.pop_front();
    }
    handlers.on_message(std::move(message));
  }

  void end_of_stream() {
    Error error{ErrorKind::lost, {}, {}};
    if (reading_body || end > begin) {
      error.message = fmt::format(
          "the other process closed the connection inside a message, "
          "after {} bytes of it",
          reading_body ? head.size() + body_read : end - begin);
    }
    fail_with(std::move(error));
  }
};

Channel::Channel(EventLoop& loop, FileDescriptor read, FileDescriptor write,
                 std::size_t prefix_bytes, Cutter cutter, Handlers handlers)
    : impl_(std::make_shared<Impl>(loop, std::move(read), std::move(write), prefix_bytes,
                                   std::move(cutter), std::move(handlers))) {
  impl_->start();
}

Channel::~Channel() { impl_->close(); }

void Channel::send(Outgoing message) { impl_->send(std::move(message)); }
void Channel::flush() { impl_->flush(); }
void Channel::read_now() { impl_->read_now(); }
void Channel::pause_reading(bool paused) { impl_->pause_reading(paused); }
std::size_t Channel::queued_bytes() const { return impl_->queued; }
std::uint64_t Channel::received_bytes() const { return impl_->received; }
bool Channel::is_open() const { return impl_->open; }
void Channel::close() { impl_->close(); }

}  // namespace skyward::io
