#include "skyward/wire/codec.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/distinct_blobs.h"
#include "skyward/wire/frame_reader.h"
#include "skyward/wire/frame_writer.h"
#include "skyward/wire/little_endian.h"

namespace skyward::wire {
namespace {

constexpr std::array<std::uint8_t, 4> kMagic{'S', 'K', 'Y', '1'};
constexpr std::size_t kKeepBuilderBytes = std::size_t{1} << 20;
constexpr std::size_t kHeaderAlignment = 8;  // of the widest number in message.fbs

Status check_payload(std::string_view what, const Payload& payload, const Buffer& body) {
  if (payload.buffers.size() > kMaxBuffers) {
    return fail(
        ErrorKind::invalid,
        fmt::format("{} has {} buffers, more than {}", what, payload.buffers.size(), kMaxBuffers),
        "join small arrays into larger ones");
  }
  std::uint64_t inline_bytes = body.in_blob() ? 0 : body.size;
  DistinctBlobs blobs;
  if (body.in_blob()) blobs.add(body.blob);
  for (const Buffer& buffer : payload.buffers) {
    if (!buffer.in_blob()) {
      inline_bytes += buffer.size;
      continue;
    }
    if (blobs.find(buffer.blob) < blobs.count()) continue;
    if (blobs.is_full()) {
      return fail(ErrorKind::invalid,
                  fmt::format("{} has more than {} blobs", what, kMaxFrameDescriptors),
                  "put several buffers into one blob");
    }
    blobs.add(buffer.blob);
  }
  if (inline_bytes > kMaxFrameBodyBytes) {
    return fail(ErrorKind::invalid,
                fmt::format("{} has {} bytes outside of large buffers, more than {}", what,
                            inline_bytes, kMaxFrameBodyBytes),
                "pass large data as arguments that support buffers (arrays, bytes), not inside "
                "the function or in many small pieces");
  }
  return {};
}

// Of the texts in a message that users give, with what a table of them takes.
constexpr std::size_t kTextOverheadBytes = 16;

std::size_t bytes_of(const KeyValues& values) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : values)
    bytes += name.size() + value.size() + 3 * kTextOverheadBytes;
  return bytes;
}

std::size_t bytes_of(const std::vector<std::string>& words) {
  std::size_t bytes = 0;
  for (const std::string& word : words) bytes += word.size() + kTextOverheadBytes;
  return bytes;
}

Status check_setup(const Configure& configure) {
  constexpr std::size_t kRest = std::size_t{64} << 10;  // what no user gives
  std::size_t bytes = kRest + bytes_of(configure.worker_command) + configure.directory.size() +
                      configure.bootstrap.size() + bytes_of(configure.bootstrap_environment) +
                      bytes_of(configure.end_command) + configure.end_script.size() +
                      configure.preemption.size() + configure.peer_address.size();
  for (const WorkerSpec& worker : configure.workers)
    bytes += bytes_of(worker.environment) + kTextOverheadBytes;
  if (bytes <= kMaxFrameHeaderBytes) return {};
  return fail(ErrorKind::invalid,
              fmt::format("the node's setup (environment, packages, commands, for {} workers) has "
                          "{} bytes, more than {}",
                          configure.workers.size(), bytes, kMaxFrameHeaderBytes),
              "use shorter environment variables and fewer packages");
}

}  // namespace

Status check_limits(const Message& message) {
  if (const auto* run = std::get_if<RunTask>(&message)) {
    return check_payload("the call", run->arguments, run->body);
  }
  if (const auto* result = std::get_if<TaskResult>(&message)) {
    return check_payload("the result", result->payload, {});
  }
  if (const auto* item = std::get_if<StreamItem>(&message)) {
    return check_payload("the item", item->payload, {});
  }
  if (const auto* configure = std::get_if<Configure>(&message)) return check_setup(*configure);
  return {};
}

void mark_undelivered(Message& message, std::string why) {
  if (auto* result = std::get_if<TaskResult>(&message)) {
    result->payload = {};
    result->status = TaskStatus::undelivered;
    result->detail = std::move(why);
  } else if (auto* item = std::get_if<StreamItem>(&message)) {
    item->payload = {};
    item->undelivered = std::move(why);
  }
}

Status check_limits(const Payload& arguments) { return check_payload("the call", arguments, {}); }

Outgoing encode(const Message& message, Envelope envelope) {
  // Reused for every message: a new allocation would cost more than the encoding itself.
  thread_local flatbuffers::FlatBufferBuilder builder(4096);
  builder.Clear();
  Outgoing frame;
  write_frame(builder, message, envelope, frame);

  const std::size_t header_bytes = builder.GetSize();
  std::size_t body_bytes = 0;
  for (const SharedBytes& piece : frame.body) body_bytes += piece.size();
  SKYWARD_CHECK(header_bytes <= kMaxFrameHeaderBytes, "{} bytes", header_bytes);
  SKYWARD_CHECK(body_bytes <= kMaxFrameBodyBytes, "{} bytes", body_bytes);

  frame.head.resize(kFramePrefixBytes + header_bytes);
  ByteWriter writer(frame.head.data());
  writer.put_bytes(kMagic.data(), kMagic.size());
  writer.put(static_cast<std::uint32_t>(header_bytes));
  writer.put(std::uint64_t{body_bytes});
  writer.put(static_cast<std::uint32_t>(frame.descriptors.size()));
  writer.put(std::uint32_t{0});
  writer.put_bytes(builder.GetBufferPointer(), header_bytes);
  if (header_bytes > kKeepBuilderBytes) builder.Reset();
  return frame;
}

Result<Cut> decode_prefix(ByteView prefix) {
  ByteReader reader(prefix);
  const ByteView magic = reader.take_bytes(kMagic.size());
  Cut sizes;
  sizes.head_bytes = reader.take<std::uint32_t>();
  sizes.body_bytes = reader.take<std::uint64_t>();
  sizes.descriptors = reader.take<std::uint32_t>();
  const auto reserved = reader.take<std::uint32_t>();
  if (reader.failed()) return malformed_frame("it is shorter than a frame's first words");
  if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
    return malformed_frame("it does not start with SKY1; something else writes to the connection");
  }
  if (reserved != 0) return malformed_frame("it is of a later version");
  if (sizes.head_bytes == 0 || sizes.head_bytes > kMaxFrameHeaderBytes) {
    return malformed_frame(fmt::format("it announces a header of {} bytes; 1 to {} are allowed",
                                       sizes.head_bytes, kMaxFrameHeaderBytes));
  }
  if (sizes.body_bytes > kMaxFrameBodyBytes) {
    return malformed_frame(fmt::format("it announces a body of {} bytes; at most {} are allowed",
                                       sizes.body_bytes, kMaxFrameBodyBytes));
  }
  if (sizes.descriptors > kMaxFrameDescriptors) {
    return malformed_frame(fmt::format("it announces {} descriptors; at most {} are allowed",
                                       sizes.descriptors, kMaxFrameDescriptors));
  }
  return sizes;
}

Result<DecodedFrame> decode(ByteView header, SharedBytes body, std::vector<Blob> blobs) {
  if (reinterpret_cast<std::uintptr_t>(header.data()) % kHeaderAlignment == 0) {
    return read_frame(header, std::move(body), std::move(blobs));
  }
  const Bytes aligned(header.begin(), header.end());
  return read_frame(aligned, std::move(body), std::move(blobs));
}

}  // namespace skyward::wire
