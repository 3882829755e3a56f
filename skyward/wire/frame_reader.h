#pragma once

// Inside of the codec: the FlatBuffers table of message.fbs as a message. Only codec.cc includes
// this.

#include "skyward/wire/codec.h"

namespace skyward::wire {

// As decode(). `header` must start at a multiple of 8 bytes.
Result<DecodedFrame> read_frame(ByteView header, SharedBytes body, std::vector<Blob> blobs);

// The error for anything that is not a frame: what is wrong with it, what to do.
std::unexpected<Error> malformed_frame(std::string_view why);

}  // namespace skyward::wire
