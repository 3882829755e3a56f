#pragma once

// Groups: several short calls of one function that travel as one task, since the bookkeeping of a
// task costs more than such a call. They run one after another in one worker process. The results
// of all but the last call that ran arrive as items of a stream; the task's own outcome is that of
// the last one. So the number of results before it tells which call raised, was cancelled, or died
// with its process.
//
// While a call takes long, the agent takes those behind it from the process, and says so in an
// item. The caller sends them again, as a group of their own.
//
//   arguments   one buffer: for each call, u32 size | bytes
//   an item     one buffer: u32 results | u32 calls that were withdrawn, from the end of the
//               group | for each result, u32 size | bytes

#include <cstddef>
#include <cstdint>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

inline constexpr std::uint32_t kMaxGroupCalls = 512;
inline constexpr std::size_t kMaxGroupBytes = std::size_t{64} << 10;  // of arguments

// What a group needs to be one; a group of its own for what does not fit.
class GroupWriter {
 public:
  // False if the group is full.
  bool add(ByteView arguments);
  std::uint32_t calls() const { return calls_; }
  // The payload of the task, and an empty group again.
  Payload take();

 private:
  Bytes bytes_;
  std::uint32_t calls_ = 0;
};

// The arguments of each call; they share the payload's memory. Fails with `invalid`.
Result<std::vector<ByteView>> group_arguments(const Payload& payload);

// What an agent collects for the next item.
class GroupItemWriter {
 public:
  void add(ByteView result);
  void withdraw(std::uint32_t calls) { withdrawn_ += calls; }
  bool empty() const { return results_ == 0 && withdrawn_ == 0; }
  std::size_t size() const { return bytes_.size(); }
  Payload take();

 private:
  Bytes bytes_;
  std::uint32_t results_ = 0;
  std::uint32_t withdrawn_ = 0;
};

struct GroupItem {
  std::vector<ByteView> results;  // they share the payload's memory
  std::uint32_t withdrawn = 0;
};
// Fails with `invalid`.
Result<GroupItem> group_item(const Payload& payload);

// The numbers of an item alone.
struct GroupItemHead {
  std::uint32_t results = 0;
  std::uint32_t withdrawn = 0;
};
// Fails with `invalid`. Does not look at the results: group_item() does.
Result<GroupItemHead> group_item_head(const Payload& payload);

}  // namespace skyward::wire
