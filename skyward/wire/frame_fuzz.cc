// libFuzzer target: arbitrary bytes as what an agent, an engine or a worker might send. The first
// byte chooses the protocol. What is accepted must be a message like any other: written and read
// again it is the same.
//
//   cmake --preset fuzz && ninja -C build/fuzz frame_fuzz
//   build/fuzz/bin/frame_fuzz -max_len=4096 <folder to grow> skyward/wire/testdata/corpus

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/wire/codec.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::wire {
namespace {

std::vector<Blob> received(std::size_t count) {
  std::vector<Blob> blobs(count);
  for (std::size_t i = 0; i < count; ++i) blobs[i].descriptor = static_cast<int>(100 + i);
  return blobs;
}

Bytes joined(const std::vector<SharedBytes>& pieces) {
  Bytes bytes;
  for (const SharedBytes& piece : pieces) {
    bytes.insert(bytes.end(), piece.view.begin(), piece.view.end());
  }
  return bytes;
}

void read_frame_bytes(ByteView bytes) {
  const auto prefix = decode_prefix(bytes.first(std::min(bytes.size(), kFramePrefixBytes)));
  if (!prefix) return;
  bytes = bytes.subspan(kFramePrefixBytes);
  if (prefix->head_bytes > bytes.size()) return;
  // A copy of exactly its size, so that the sanitizer sees a read beyond it.
  const Bytes header(bytes.begin(),
                     bytes.begin() + static_cast<std::ptrdiff_t>(prefix->head_bytes));
  bytes = bytes.subspan(prefix->head_bytes);
  if (prefix->body_bytes > bytes.size()) return;
  const Bytes body(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(prefix->body_bytes));
  const auto first = decode(header, SharedBytes(body), received(prefix->descriptors));
  if (!first) return;
  SKYWARD_CHECK(check_limits(first->message).has_value());
  const Outgoing frame = encode(first->message, first->envelope);
  const auto second = decode(ByteView(frame.head).subspan(kFramePrefixBytes),
                             SharedBytes(joined(frame.body)), received(frame.descriptors.size()));
  SKYWARD_CHECK(second.has_value(), "{}", second.error().message);
  SKYWARD_CHECK(second->envelope == first->envelope);
  const Outgoing again = encode(second->message, second->envelope);
  SKYWARD_CHECK(again.head == frame.head && joined(again.body) == joined(frame.body));
}

void read_worker_bytes(ByteView bytes) {
  const auto count = worker_descriptor_count(bytes);
  if (!count) return;
  const auto first =
      decode_worker_message(SharedBytes(Bytes(bytes.begin(), bytes.end())), received(*count));
  if (!first) return;
  const auto whole = [](const Outgoing& message) {
    Bytes all = message.head;
    const Bytes body = joined(message.body);
    all.insert(all.end(), body.begin(), body.end());
    return all;
  };
  const Outgoing encoded = encode_worker_message(*first);
  const Bytes written = whole(encoded);
  const Bytes rest(written.begin() + kWorkerPrefixBytes, written.end());
  const auto second =
      decode_worker_message(SharedBytes(rest), received(encoded.descriptors.size()));
  SKYWARD_CHECK(second.has_value(), "{}", second.error().message);
  SKYWARD_CHECK(whole(encode_worker_message(*second)) == written);
}

}  // namespace
}  // namespace skyward::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const skyward::ByteView bytes = std::as_bytes(std::span(data + 1, size - 1));
  if (data[0] == 'f') skyward::wire::read_frame_bytes(bytes);
  if (data[0] == 'w') skyward::wire::read_worker_bytes(bytes);
  return 0;
}
