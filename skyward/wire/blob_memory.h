#pragma once

// Blobs in shared memory, as whoever receives them has them. What touches the operating system
// comes as a type (io::FileDescriptor, io::SharedMemory): this room does not know it.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/wire/blob_inbox.h"
#include "skyward/wire/payload.h"

namespace skyward::wire {

// A blob for each descriptor that came with a message, held by an Owner made from it, which goes
// with the last copy of the blob.
template <typename Descriptor, typename Owner = Descriptor>
std::vector<Blob> received_blobs(std::vector<Descriptor> descriptors) {
  std::vector<Blob> blobs;
  blobs.reserve(descriptors.size());
  for (Descriptor& descriptor : descriptors) {
    const int number = descriptor.get();
    auto owner = std::make_shared<Owner>(std::move(descriptor));
    blobs.push_back({.descriptor = number, .storage = std::move(owner)});
  }
  return blobs;
}

// Memory for a blob that comes in parts, held by an Owner made from it.
template <typename Memory, typename Owner = std::shared_ptr<Memory>>
Result<BlobInbox::Room> make_room(std::uint64_t size) {
  auto memory = Memory::create(size);
  if (!memory) return fail(memory);
  BlobInbox::Room room;
  room.bytes = {(*memory)->data(), (*memory)->size()};
  room.write = [to = memory->get()](std::uint64_t offset, ByteView part) {
    return to->write(offset, part);
  };
  room.blob.descriptor = (*memory)->descriptor();
  room.blob.storage = std::make_shared<Owner>(*std::move(memory));
  return room;
}

}  // namespace skyward::wire
