#pragma once

// The memory that an agent shares with one worker process, at the worker's descriptor 5
// (worker_protocol.h). It tells which task the worker began last, and holds a ring of answers: a
// worker that uses the ring writes small messages there instead of sending them, so that an answer
// needs no system call, and is not lost when the process dies.
//
// One writer, the worker; one reader, the agent. What the agent reads is as untrusted as what comes
// from a socket: it copies the bytes before it looks at them. Pure: the memory belongs to the
// owner.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "skyward/base/bytes.h"
#include "skyward/base/error.h"
#include "skyward/spec/id.h"

namespace skyward::wire {

inline constexpr std::size_t kAnswerRingBytes = std::size_t{256} << 10;
// Larger messages go through the socket. All answers of a full window fit the ring.
inline constexpr std::size_t kMaxRingMessageBytes = std::size_t{2} << 10;

// Each number has a cache line of its own: the two processes write to different ones.
struct WorkerMemory {
  alignas(64) std::uint64_t begun = 0;    // the task that began last, by the worker
  alignas(64) std::uint64_t written = 0;  // bytes ever put into the ring, by the worker
  std::uint64_t uses_ring = 0;            // 1 before the worker greets, if it uses the ring
  alignas(64) std::uint64_t taken = 0;    // bytes ever taken from it, by the agent
  std::uint64_t sleeps = 0;               // 1: the agent does not look by itself, by the agent
  // Of the group that the worker runs: half of the task's id in the upper half, and in the lower
  // one how many of its calls are claimed. The worker claims a call before it begins it, the agent
  // claims all that are left at once.
  alignas(64) std::uint64_t claims = 0;
  alignas(64) std::byte ring[kAnswerRingBytes];
};
static_assert(kAnswerRingBytes % 64 == 0 && offsetof(WorkerMemory, begun) == 0);

inline std::uint64_t claims_tag(TaskId task) { return task.value << 32; }

// The worker's end. Here as a whole: workers link nothing else of this room.
class AnswerWriter {
 public:
  explicit AnswerWriter(WorkerMemory& memory) : memory_(memory) {}

  // The agent will look into the ring. Before the greeting.
  void announce() { flag(memory_.uses_ring).store(1); }
  void begin(TaskId task) { flag(memory_.begun).store(task.value, std::memory_order_release); }
  // Begins a group, and claims its first call.
  void begin_group(TaskId task) { flag(memory_.claims).store(claims_tag(task) + 1); }
  // Claims the next call of the group, which has `calls`. False if none is left.
  bool claim(std::uint32_t calls) {
    return static_cast<std::uint32_t>(flag(memory_.claims).fetch_add(1)) < calls;
  }
  // Writes one message, made of two parts. False if there is no room now. Async-signal-safe.
  bool write(ByteView first, ByteView second = {}) {
    const std::uint64_t written = memory_.written;  // nobody else writes it
    const std::uint64_t taken = flag(memory_.taken).load(std::memory_order_acquire);
    if (written - taken + first.size() + second.size() > kAnswerRingBytes) return false;
    copy(written, first);
    copy(written + first.size(), second);
    // In one order with `sleeps`: either the agent sees the message, or the worker that it sleeps.
    flag(memory_.written).store(written + first.size() + second.size());
    return true;
  }
  // Whether the agent must be woken to see what was written.
  bool agent_sleeps() const { return flag(memory_.sleeps).load() != 0; }

 private:
  static std::atomic_ref<std::uint64_t> flag(std::uint64_t& number) {
    return std::atomic_ref<std::uint64_t>(number);
  }
  void copy(std::uint64_t position, ByteView bytes) {
    const std::size_t at = position % kAnswerRingBytes;
    const std::size_t until_end = std::min(bytes.size(), kAnswerRingBytes - at);
    if (until_end > 0) std::memcpy(memory_.ring + at, bytes.data(), until_end);
    if (until_end < bytes.size()) {
      std::memcpy(memory_.ring, bytes.data() + until_end, bytes.size() - until_end);
    }
  }

  WorkerMemory& memory_;
};

// The agent's end.
class AnswerReader {
 public:
  explicit AnswerReader(WorkerMemory& memory) : memory_(memory) {}

  TaskId begun() const;
  bool is_announced() const;
  // All that has been written since the last call: whole messages, if the worker is sound. Fails
  // with `invalid` if it cannot have written that.
  Result<SharedBytes> take();
  // Call take() once more after saying that the agent sleeps: what was written before that rings no
  // bell.
  void set_sleeps(bool sleeps);
  // Claims all calls of the group, which has `calls`, that the worker has not claimed: it begins
  // none of them. Returns how many they are, nothing if the worker is not at this group.
  std::optional<std::uint32_t> claim_rest(TaskId task, std::uint32_t calls);

 private:
  WorkerMemory& memory_;
  std::uint64_t taken_ = 0;  // ours: the memory's copy may be overwritten
};

}  // namespace skyward::wire
