#pragma once

// Messages to frames and back.
//
// A frame on the wire is
//     u32 magic "SKY1" | u32 header bytes | u64 body bytes | u32 descriptors | u32 reserved (0)
// in little-endian order, then the header (a verified FlatBuffers table, message.fbs: sequence
// number, acknowledgement, message), then the body (the small buffers of the message, back to back,
// in the order of the header). Descriptors of blobs travel beside the frame by SCM_RIGHTS where the
// connection can carry them.
//
// Decoding never trusts its input: sizes are bounded (spec/limits.h), the table is verified, buffer
// sizes must add up to the body. Fuzzed by frame_fuzz.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/cut.h"
#include "skyward/base/error.h"
#include "skyward/base/outgoing.h"
#include "skyward/wire/message.h"

namespace skyward::wire {

inline constexpr std::size_t kFramePrefixBytes = 24;

// Numbers that wire/session.h puts on a frame. A sequence of 0 means: outside the numbered stream
// (Hello, Welcome, Farewell, Heartbeat).
struct Envelope {
  std::uint64_t sequence = 0;
  std::uint64_t acknowledged = 0;  // everything up to here has arrived
  bool operator==(const Envelope&) const = default;
};

// Whether a message made of users' data (RunTask, TaskResult, StreamItem) fits a frame: buffers,
// blobs, bytes outside of blobs. Call it where the data enters, so that its author gets the error.
// Fails with `invalid`.
Status check_limits(const Message& message);
// The same for the arguments of a call, before they are a message.
Status check_limits(const Payload& arguments);
// A result or an item goes on without its payload, and says why. Other messages stay as they are.
void mark_undelivered(Message& message, std::string why);

// A blob is carried once, however many buffers are windows into it. A message over the limits is a
// bug of the caller (CHECK). Nothing is copied from the buffers; the descriptors are those of blobs
// that `keep` holds. Any thread.
Outgoing encode(const Message& message, Envelope envelope);

// The sizes that a frame's first kFramePrefixBytes bytes announce: the header is its head. Fails
// with `invalid` on fewer bytes, a wrong magic or sizes over the limits.
Result<Cut> decode_prefix(ByteView prefix);

struct DecodedFrame {
  Envelope envelope;
  Message message;
};

// Decodes what follows the prefix. `body` is kept by the message's small buffers (no copy). `blobs`
// are the blobs made of the received descriptors, in order; their ids and sizes are taken from the
// header. Blobs in the header for which no descriptor came have none: the receiver has them
// already. Fails with `invalid` on anything malformed.
Result<DecodedFrame> decode(ByteView header, SharedBytes body, std::vector<Blob> blobs);

}  // namespace skyward::wire
