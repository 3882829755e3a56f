#pragma once

// How C++ values become bytes: a pair of cereal archives whose large parts travel out of band.
//
// Everything small goes into one stream. A run of plain data of kBlobThresholdBytes or more (the
// elements of a std::vector<float>, the text of a long std::string, whatever a `save` passes as
// cereal::binary_data) goes to the BlobStore instead, straight from its object: one copy into
// shared memory, and no other. Driver and worker are the same executable, so the layout is the
// machine's own.

#include <cereal/cereal.hpp>
#include <cereal/types/array.hpp>
#include <cereal/types/map.hpp>
#include <cereal/types/optional.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/tuple.hpp>
#include <cereal/types/utility.hpp>
#include <cereal/types/vector.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <type_traits>

#include "skyward/base/bytes.h"
#include "skyward/wire/payload.h"

namespace skyward {

// Where large runs go: copies bytes into shared memory. `id` tells stores apart; with id 0, a run
// is stored again each time.
struct BlobStore {
  std::function<wire::Blob(ByteView)> put;
  std::uint64_t id = 0;
};

// Where an array that is sent many times was stored last.
struct StoredRun {
  std::mutex mutex;
  std::uint64_t store = 0;
  wire::Blob blob;
};

class ArchiveWriter final
    : public cereal::OutputArchive<ArchiveWriter, cereal::AllowEmptyClassElision> {
 public:
  explicit ArchiveWriter(BlobStore store);

  // Into the stream.
  void write(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    stream_.insert(stream_.end(), bytes, bytes + size);
  }
  // Into the stream, or into a blob when large.
  void write_run(const void* data, std::size_t size);

  // The same for bytes that never change, copied once per store.
  void write_shared_run(const void* data, std::size_t size, StoredRun& stored);

  // What is in the stream.
  ByteView stream() const { return stream_; }
  // All that was written. Call once.
  wire::Payload finish();

 private:
  // Whether a run of this size gets a blob of its own; says so in the stream.
  bool begin_blob(std::size_t size);

  BlobStore store_;
  Bytes stream_;
  wire::Payload payload_;
};

// The memory of a payload's buffer, writable and seen by nobody else. A driver's is map_buffer() of
// pool.h, a worker's is map_blob().
using BufferMapper = SharedBytes (*)(const wire::Buffer&);

// Reads what a writer wrote. The payload must outlive it. Throws SerializationError when the bytes
// end early, before it takes memory for what they do not hold.
class ArchiveReader final
    : public cereal::InputArchive<ArchiveReader, cereal::AllowEmptyClassElision> {
 public:
  ArchiveReader(const wire::Payload& payload, BufferMapper map);

  void read(void* data, std::size_t size);
  // What write_run() wrote.
  void read_run(void* data, std::size_t size);
  // The same without copying: memory that may be written (nobody else sees it) and lives as long as
  // the SharedBytes.
  SharedBytes take_run(std::size_t size);
  // Before memory is taken for so many elements, each of which takes a byte at least: the sender is
  // another machine.
  void check_count(std::uint64_t count) const;
  // When everything should have been read. Throws SerializationError if something is left.
  void expect_end() const;

 private:
  SharedBytes take_from_stream(std::size_t size);
  SharedBytes take_blob(std::size_t size);

  const wire::Payload* payload_;
  BufferMapper map_;
  SharedBytes stream_;
  std::size_t position_ = 0;
  std::size_t next_buffer_ = 1;
};

template <typename T>
  requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(ArchiveWriter& archive, const T& value) {
  archive.write(&value, sizeof value);
}
template <typename T>
  requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(ArchiveReader& archive, T& value) {
  archive.read(&value, sizeof value);
}

template <typename T>
void CEREAL_SAVE_FUNCTION_NAME(ArchiveWriter& archive, const cereal::BinaryData<T>& data) {
  archive.write_run(data.data, static_cast<std::size_t>(data.size));
}
template <typename T>
void CEREAL_LOAD_FUNCTION_NAME(ArchiveReader& archive, cereal::BinaryData<T>& data) {
  archive.read_run(data.data, static_cast<std::size_t>(data.size));
}

template <typename Archive, typename T>
  requires std::is_same_v<Archive, ArchiveWriter> || std::is_same_v<Archive, ArchiveReader>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, cereal::NameValuePair<T>& pair) {
  archive(pair.value);
}
template <typename Archive, typename T>
  requires std::is_same_v<Archive, ArchiveWriter> || std::is_same_v<Archive, ArchiveReader>
void CEREAL_SERIALIZE_FUNCTION_NAME(Archive& archive, cereal::SizeTag<T>& tag) {
  archive(tag.size);
  if constexpr (std::is_same_v<Archive, ArchiveReader>) archive.check_count(tag.size);
}

}  // namespace skyward

// For pointers to polymorphic types that a program registers.
CEREAL_REGISTER_ARCHIVE(skyward::ArchiveWriter)
CEREAL_REGISTER_ARCHIVE(skyward::ArchiveReader)
CEREAL_SETUP_ARCHIVE_TRAITS(skyward::ArchiveReader, skyward::ArchiveWriter)
