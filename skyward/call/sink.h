#pragma once

// Functions that yield: they take a Sink first, and put items into it while they run.
//
//   void count(sky::Sink<int>& out, int to) {
//     for (int i = 0; i < to; ++i) out.put(i);
//   }
//   inline constexpr auto remote_count = sky::compute<count>;
//
//   for (int number : remote_count(10) >> pool) …   // while it goes on counting
//
// The function runs at its reader's pace: put() waits while kStreamWindow items, or 64 MiB of
// items, are under way.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "skyward/call/archive.h"
#include "skyward/call/call.h"
#include "skyward/call/pending.h"
#include "skyward/call/sendable.h"

namespace skyward {

// Items that a function may be ahead of its reader.
inline constexpr std::uint32_t kStreamWindow = 16;

// Where the items of the running task go. The worker provides it.
class ItemChannel {
 public:
  virtual ~ItemChannel() = default;
  virtual BlobStore store() = 0;
  // Waits until the reader takes more. Throws CancelledError when nobody will.
  virtual void send(wire::Payload item) = 0;
};

// Null in the driver.
ItemChannel* item_channel();
void set_item_channel(ItemChannel* channel);
// item_channel(), or a SkywardError.
ItemChannel& require_item_channel();

// Used by the function's own thread.
template <typename T>
class Sink {
  static_assert(IsSendable<T>::value, "the items of this Sink cannot be sent");

 public:
  // To call the function here: `take` gets each item.
  explicit Sink(std::function<void(const T&)> take) : take_(std::move(take)) {}
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  // Throws CancelledError when the reader has dropped the stream; let it pass.
  void put(const T& item) { take_(item); }

 private:
  std::function<void(const T&)> take_;
};

template <typename T>
Sink<T> sink_of(ItemChannel& channel) {
  return Sink<T>([&channel](const T& item) {
    ArchiveWriter archive(channel.store());
    archive(item);
    channel.send(archive.finish());
  });
}

// A recorded call of a function that yields; `call >> pool` sends it and gives a Stream<T>.
template <typename T>
class [[nodiscard]] PendingStream {
 public:
  // For sky::compute.
  explicit PendingStream(Pending<void> call) : call_(std::move(call)) {}

  // As in Pending.
  PendingStream with_timeout(TimeLimit limit) const {
    return PendingStream(call_.with_timeout(limit));
  }
  PendingStream on_node(std::uint32_t node) const { return PendingStream(call_.on_node(node)); }
  const std::string& name() const { return call_.name(); }
  Call to_call(BlobStore store) const {
    Call call = call_.to_call(std::move(store));
    call.options.stream_window = kStreamWindow;
    return call;
  }

 private:
  Pending<void> call_;
};

}  // namespace skyward
