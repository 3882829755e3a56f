#include "skyward/io/listener.h"

#include <chrono>
#include <utility>

#include "skyward/io/unix_socket.h"

namespace skyward::io {
namespace {

constexpr Duration kPause = std::chrono::milliseconds(100);

}  // namespace

Listener::Listener(EventLoop& loop, FileDescriptor socket,
                   std::function<void(FileDescriptor)> on_connection)
    : loop_(loop), socket_(std::move(socket)), on_connection_(std::move(on_connection)) {
  watch();
}

Listener::~Listener() {
  loop_.cancel_timer(pause_);
  loop_.unwatch(socket_.get());
}

void Listener::watch() {
  loop_.watch(socket_.get(), [this] { accept(); });
}

void Listener::accept() {
  bool any = false;
  while (auto connection = accept_next(socket_.get())) {
    any = true;
    on_connection_(*std::move(connection));
  }
  if (any) return;
  loop_.unwatch(socket_.get());
  pause_ = loop_.start_timer(EventLoop::now() + kPause, [this] {
    pause_ = 0;
    watch();
  });
}

}  // namespace skyward::io
