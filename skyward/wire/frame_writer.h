#pragma once

// Inside of the codec: a message as the FlatBuffers table of message.fbs. Only codec.cc includes
// this.

#include <flatbuffers/flatbuffers.h>

#include "skyward/base/outgoing.h"
#include "skyward/wire/codec.h"

namespace skyward::wire {

// Finishes a Frame table in the (empty) builder; adds the message's small buffers and blobs to
// `frame`.
void write_frame(flatbuffers::FlatBufferBuilder& builder, const Message& message, Envelope envelope,
                 Outgoing& frame);

}  // namespace skyward::wire
