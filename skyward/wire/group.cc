#include "skyward/wire/group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/wire/little_endian.h"

namespace skyward::wire {
namespace {

constexpr std::size_t kNumberBytes = sizeof(std::uint32_t);
constexpr std::size_t kItemHeadBytes = 2 * kNumberBytes;

void put(Bytes& bytes, std::uint32_t number) {
  bytes.resize(bytes.size() + kNumberBytes);
  store(bytes.data() + bytes.size() - kNumberBytes, number);
}

void put(Bytes& bytes, ByteView view) {
  put(bytes, static_cast<std::uint32_t>(view.size()));
  bytes.insert(bytes.end(), view.begin(), view.end());
}

std::uint32_t number_at(ByteView bytes) { return load<std::uint32_t>(bytes.data()); }

std::unexpected<Error> malformed(const char* why) {
  return fail(ErrorKind::invalid, fmt::format("a group of calls cannot be read: {}", why));
}

Result<ByteView> only_buffer(const Payload& payload) {
  if (payload.buffers.size() != 1 || payload.buffers[0].in_blob())
    return malformed("it is not one small buffer");
  return payload.buffers[0].bytes.view;
}

Result<std::vector<ByteView>> split(ByteView rest) {
  std::vector<ByteView> parts;
  while (!rest.empty()) {
    if (rest.size() < kNumberBytes) return malformed("it is cut off");
    const std::uint32_t size = number_at(rest);
    rest = rest.subspan(kNumberBytes);
    if (size > rest.size()) return malformed("it is cut off");
    if (parts.size() == kMaxGroupCalls) return malformed("it has too many parts");
    parts.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  return parts;
}

Payload payload_of(Bytes bytes) {
  Payload payload;
  payload.buffers.push_back(small_buffer(SharedBytes(std::move(bytes))));
  return payload;
}

}  // namespace

bool GroupWriter::add(ByteView arguments) {
  if (calls_ == kMaxGroupCalls) return false;
  if (bytes_.size() + kNumberBytes + arguments.size() > kMaxGroupBytes) return false;
  put(bytes_, arguments);
  ++calls_;
  return true;
}

Payload GroupWriter::take() {
  SKYWARD_CHECK(calls_ > 0);
  calls_ = 0;
  return payload_of(std::exchange(bytes_, {}));
}

Result<std::vector<ByteView>> group_arguments(const Payload& payload) {
  const auto bytes = only_buffer(payload);
  if (!bytes) return fail(bytes);
  return split(*bytes);
}

void GroupItemWriter::add(ByteView result) {
  if (bytes_.empty()) bytes_.resize(kItemHeadBytes);
  put(bytes_, result);
  ++results_;
}

Payload GroupItemWriter::take() {
  bytes_.resize(std::max(bytes_.size(), kItemHeadBytes));
  store(bytes_.data(), results_);
  store(bytes_.data() + kNumberBytes, withdrawn_);
  results_ = withdrawn_ = 0;
  return payload_of(std::exchange(bytes_, {}));
}

Result<GroupItem> group_item(const Payload& payload) {
  const auto head = group_item_head(payload);
  if (!head) return fail(head);
  auto results = split(payload.buffers[0].bytes.view.subspan(kItemHeadBytes));
  if (!results) return fail(results);
  if (results->size() != head->results) return malformed("it counts its results wrongly");
  return GroupItem{.results = *std::move(results), .withdrawn = head->withdrawn};
}

Result<GroupItemHead> group_item_head(const Payload& payload) {
  const auto bytes = only_buffer(payload);
  if (!bytes) return fail(bytes);
  if (bytes->size() < kItemHeadBytes) return malformed("it is cut off");
  return GroupItemHead{.results = number_at(*bytes),
                       .withdrawn = number_at(bytes->subspan(kNumberBytes))};
}

}  // namespace skyward::wire
