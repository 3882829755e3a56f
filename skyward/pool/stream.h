#pragma once

// What a function that yields (call/sink.h) sends, while it runs.

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "skyward/base/forever.h"
#include "skyward/call/archive.h"
#include "skyward/call/error.h"
#include "skyward/call/remote_error.h"
#include "skyward/pool/pool.h"

namespace skyward {

// Items in the order in which the function put them, as a range that can be read once. A stream
// that is dropped before its end cancels the function. Thread-compatible.
template <typename T>
class [[nodiscard]] Stream {
 public:
  // For ComputePool.
  Stream(Handle handle, std::string function)
      : handle_(std::make_unique<Handle>(std::move(handle))), function_(std::move(function)) {}
  Stream(Stream&&) noexcept = default;
  Stream& operator=(Stream&& other) noexcept {
    drop();
    handle_ = std::move(other.handle_);
    function_ = std::move(other.function_);
    return *this;
  }
  ~Stream() { drop(); }

  // Waits for the next item; nothing at the end. Throws what Future::get() throws, after the items
  // that came before.
  std::optional<T> next() {
    if (!handle_) return std::nullopt;
    wire::Payload payload;
    if (handle_->next(payload, kForever) == NextItem::item) {
      T item{};
      ArchiveReader archive(payload, &map_buffer);
      archive(item);
      archive.expect_end();
      return item;
    }
    const std::unique_ptr<Handle> ended = std::move(handle_);
    throw_unless_ok(ended->take(), function_, ended->task(), &map_buffer);
    return std::nullopt;
  }

  // Stops the function; next() has no more items then.
  void cancel() {
    if (const std::unique_ptr<Handle> dropped = std::move(handle_)) dropped->cancel();
  }

  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;

    explicit Iterator(Stream& stream) : stream_(&stream), item_(stream.next()) {}
    T& operator*() const { return *item_; }
    Iterator& operator++() {
      item_ = stream_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !item_; }

   private:
    Stream* stream_;
    mutable std::optional<T> item_;
  };
  // Waits for the first item.
  Iterator begin() { return Iterator(*this); }
  static std::default_sentinel_t end() { return {}; }

 private:
  void drop() noexcept {
    try {
      cancel();
    } catch (const NotProvisionedError&) {  // a forked child's copy: the parent reads the stream
    }
  }

  std::unique_ptr<Handle> handle_;  // null at the end
  std::string function_;
};

}  // namespace skyward
