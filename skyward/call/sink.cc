#include "skyward/call/sink.h"

#include <atomic>

#include "skyward/call/error.h"

namespace skyward {
namespace {

std::atomic<ItemChannel*> present{nullptr};

}  // namespace

ItemChannel* item_channel() { return present.load(); }

void set_item_channel(ItemChannel* channel) { present.store(channel); }

ItemChannel& require_item_channel() {
  ItemChannel* const channel = item_channel();
  if (channel != nullptr) return *channel;
  throw SkywardError(
      "a function with a Sink was called like one that returns a result\nhint: send it with "
      "`call >> pool`, and read the stream");
}

}  // namespace skyward
