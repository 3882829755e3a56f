#include "skyward/wire/answer_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace skyward::wire {
namespace {

std::atomic_ref<std::uint64_t> flag(std::uint64_t& number) {
  return std::atomic_ref<std::uint64_t>(number);
}

}  // namespace

TaskId AnswerReader::begun() const {
  return TaskId{flag(memory_.begun).load(std::memory_order_acquire)};
}

bool AnswerReader::is_announced() const { return flag(memory_.uses_ring).load() == 1; }

Result<SharedBytes> AnswerReader::take() {
  const std::uint64_t written = flag(memory_.written).load();
  const std::uint64_t size = written - taken_;
  if (size == 0) return SharedBytes();
  if (size > kAnswerRingBytes) {
    return fail(ErrorKind::invalid,
                fmt::format("it has written {} bytes to its ring of {}", size, kAnswerRingBytes));
  }
  Bytes bytes(size);
  const std::size_t at = taken_ % kAnswerRingBytes;
  const std::size_t until_end = std::min<std::size_t>(size, kAnswerRingBytes - at);
  std::memcpy(bytes.data(), memory_.ring + at, until_end);
  if (until_end < size) std::memcpy(bytes.data() + until_end, memory_.ring, size - until_end);
  taken_ = written;
  flag(memory_.taken).store(taken_, std::memory_order_release);
  return SharedBytes(std::move(bytes));
}

std::optional<std::uint32_t> AnswerReader::claim_rest(TaskId task, std::uint32_t calls) {
  const std::atomic_ref<std::uint64_t> claims = flag(memory_.claims);
  std::uint64_t before = claims.load();
  while (true) {
    const auto claimed = static_cast<std::uint32_t>(before);
    if (before - claimed != claims_tag(task)) return std::nullopt;
    if (claimed >= calls) return 0;
    if (claims.compare_exchange_weak(before, claims_tag(task) + calls)) return calls - claimed;
  }
}

void AnswerReader::set_sleeps(bool sleeps) { flag(memory_.sleeps).store(sleeps ? 1 : 0); }

}  // namespace skyward::wire
