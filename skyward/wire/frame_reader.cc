#include "skyward/wire/frame_reader.h"

#include <flatbuffers/flatbuffers.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "skyward/spec/limits.h"
#include "skyward/wire/message_generated.h"

namespace skyward::wire {
namespace {

using flatbuffers::Offset;

template <typename T>
using Items = flatbuffers::Vector<T>;

// Only blobs of one message have no id, and may be many.
bool has_twins(const std::vector<Blob>& blobs) {
  for (auto blob = blobs.begin(); blob != blobs.end(); ++blob) {
    const auto same = [&blob](const Blob& other) { return other.id == blob->id; };
    if (blob->id.value != 0 && std::any_of(blobs.begin(), blob, same)) return true;
  }
  return false;
}

// The verifier looks where a list begins, not where its 8-byte entries do.
template <typename T>
bool is_aligned(const Items<T>& items) {
  return reinterpret_cast<std::uintptr_t>(items.Data()) % alignof(std::uint64_t) == 0;
}

// The parts of a frame, and what went wrong first. Reads go on after a failure and give empty
// values; the caller looks at `problem` once, at the end.
class ContentReader {
 public:
  ContentReader(std::size_t header_bytes, SharedBytes body, std::vector<Blob> blobs)
      : text_budget_(header_bytes), body_(std::move(body)), blobs_(std::move(blobs)) {}

  const char* problem() const { return problem_; }
  void fail(const char* why) {
    if (problem_ == nullptr) problem_ = why;
  }

  // The verifier lets many entries of a list point at one string; without a budget a small header
  // could so unfold into any amount of memory. Our own encoder writes each entry apart, so that
  // together they never exceed the header.
  std::string text(const flatbuffers::String* value) {
    if (value == nullptr || !spend(value->size())) return {};
    return value->str();
  }

  std::vector<std::string> texts(const Items<Offset<flatbuffers::String>>* values) {
    return list<std::string>(values, [this](const auto& value) { return text(&value); });
  }

  KeyValues key_values(const Items<Offset<schema::KeyValue>>* values) {
    return list<std::pair<std::string, std::string>>(values, [this](const auto& value) {
      return std::pair{text(value.key()), text(value.value())};
    });
  }

  template <typename T, typename Table, typename Read>
  std::vector<T> list(const Items<Offset<Table>>* values, Read read) {
    std::vector<T> result;
    if (values == nullptr || !spend(sizeof(flatbuffers::uoffset_t) * values->size())) return result;
    result.reserve(values->size());
    for (const Table* value : *values) {
      if (problem_ != nullptr) return {};
      result.push_back(read(*value));
    }
    return result;
  }

  template <typename AnyId>
  std::vector<AnyId> ids(const Items<std::uint64_t>* values) {
    std::vector<AnyId> result;
    if (values == nullptr || !check_aligned(*values)) return result;
    result.reserve(values->size());
    for (const std::uint64_t value : *values) result.push_back(AnyId{value});
    return result;
  }

  std::vector<FunctionId> functions(const Items<const schema::FunctionId*>* values) {
    std::vector<FunctionId> result;
    if (values == nullptr || !check_aligned(*values)) return result;
    result.reserve(values->size());
    for (const schema::FunctionId* value : *values) {
      std::memcpy(result.emplace_back().value.data(), value, sizeof *value);
    }
    return result;
  }

  Payload payload(const Items<const schema::Buffer*>* buffers) {
    Payload result;
    if (buffers == nullptr || !check_aligned(*buffers)) return result;
    if (buffers->size() > kMaxBuffers) {
      fail("a payload has too many buffers");
      return result;
    }
    result.buffers.reserve(buffers->size());
    for (const schema::Buffer* buffer : *buffers) {
      if (problem_ != nullptr) return {};
      result.buffers.push_back(this->buffer(*buffer));
    }
    return result;
  }

  Buffer buffer(const schema::Buffer& from) { return from.blob() < 0 ? small(from) : window(from); }

  // The next bytes of the body.
  SharedBytes take(std::uint64_t size) {
    if (size > body_.size() - taken_) {
      fail("its buffers are larger than its body");
      return {};
    }
    if (size == 0) return {};
    const ByteView view = body_.view.subspan(taken_, static_cast<std::size_t>(size));
    taken_ += view.size();
    return {body_.owner, view};
  }

  // The rows of a batch, and the bytes of all of them.
  template <typename Row, typename Table, typename Read>
  std::vector<Row> rows(const Items<const Table*>* listed, SharedBytes& bytes, Read read) {
    std::vector<Row> result;
    if (listed == nullptr || !check_aligned(*listed)) return result;
    if (listed->size() > kMaxBatchRows) fail("a batch has too many rows");
    std::uint64_t size = 0;
    result.reserve(std::min<std::size_t>(listed->size(), kMaxBatchRows));
    for (const Table* row : *listed) {
      if (problem_ != nullptr) return {};
      result.push_back(read(*row));
      size += row->size();
    }
    bytes = take(size);
    return result;
  }

  void take_blobs(const Items<const schema::Blob*>* listed) {
    const std::size_t count = listed == nullptr ? 0 : listed->size();
    // Without any descriptor the receiver has the blobs already.
    const bool known = blobs_.empty();
    if (known) blobs_.resize(std::min(count, kMaxFrameDescriptors));
    if (count != blobs_.size()) {
      fail("it announces another number of blobs than it brings");
      return;
    }
    if (listed != nullptr && !check_aligned(*listed)) return;
    for (std::size_t i = 0; i < count; ++i) {
      const schema::Blob* blob = listed->Get(static_cast<flatbuffers::uoffset_t>(i));
      if (blob->size() == 0) fail("it has a blob without bytes");
      if (known && blob->id() == 0) fail("it lists a blob without a name");
      blobs_[i].id = BlobId{blob->id()};
      blobs_[i].size = blob->size();
    }
    if (has_twins(blobs_)) fail("it brings one blob twice");
  }

  void expect_all_taken() {
    if (taken_ != body_.size()) fail("its body is larger than its buffers");
  }

 private:
  template <typename T>
  bool check_aligned(const Items<T>& items) {
    if (!is_aligned(items)) fail("its entries are out of place");
    return problem_ == nullptr;
  }

  bool spend(std::size_t bytes) {
    if (bytes > text_budget_) {
      fail("its entries overlap");
      return false;
    }
    text_budget_ -= bytes;
    return true;
  }

  Buffer small(const schema::Buffer& buffer) {
    if (buffer.offset() != 0) fail("a buffer without a blob has an offset");
    return small_buffer(take(buffer.size()));
  }

  Buffer window(const schema::Buffer& buffer) {
    const auto index = static_cast<std::size_t>(buffer.blob());
    if (index >= blobs_.size()) {
      fail("a buffer names a blob that is not there");
      return {};
    }
    const Blob& blob = blobs_[index];
    if (buffer.offset() > blob.size || buffer.size() > blob.size - buffer.offset()) {
      fail("a buffer is outside its blob");
      return {};
    }
    return blob_buffer(blob, buffer.offset(), buffer.size());
  }

  std::size_t text_budget_;
  SharedBytes body_;
  std::size_t taken_ = 0;
  std::vector<Blob> blobs_;
  const char* problem_ = nullptr;
};

Hello read(ContentReader& reader, const schema::Hello& from) {
  return {.protocol = from.protocol(),
          .version = reader.text(from.version()),
          .pool = reader.text(from.pool()),
          .node = NodeId{from.node()},
          .descriptors = from.descriptors(),
          .last_received = from.last_received(),
          .token = reader.text(from.token())};
}

Configure read(ContentReader& reader, const schema::Configure& from) {
  return {.worker_command = reader.texts(from.worker_command()),
          .directory = reader.text(from.directory()),
          .workers =
              reader.list<WorkerSpec>(from.workers(),
                                      [&reader](const schema::WorkerSpec& worker) {
                                        return WorkerSpec{reader.key_values(worker.environment())};
                                      }),
          .concurrency = from.concurrency(),
          .bootstrap = reader.text(from.bootstrap()),
          .bootstrap_environment = reader.key_values(from.bootstrap_environment()),
          .heartbeat_ms = from.heartbeat_ms(),
          .metrics_ms = from.metrics_ms(),
          .lease_ms = from.lease_ms(),
          .lifetime_ms = from.lifetime_ms(),
          .end_command = reader.texts(from.end_command()),
          .end_script = reader.text(from.end_script()),
          .preemption = reader.text(from.preemption()),
          .peer_key = reader.text(from.peer_key()),
          .peer_address = reader.text(from.peer_address())};
}

RunTask read(ContentReader& reader, const schema::RunTask& from) {
  RunTask task;
  task.task = TaskId{from.task()};
  task.attempt = from.attempt();
  if (const auto worker = from.worker()) task.worker = *worker;
  if (from.function() == nullptr) {
    reader.fail("a task has no function");
  } else {
    std::memcpy(task.function.value.data(), from.function(), sizeof task.function.value);
  }
  if (from.body() != nullptr) task.body = reader.buffer(*from.body());
  task.arguments = reader.payload(from.arguments());
  task.timeout_ms = from.timeout_ms();
  task.stream_window = from.stream_window();
  task.group = from.group();
  return task;
}

RunTasks read(ContentReader& reader, const schema::RunTasks& from) {
  RunTasks tasks;
  if (from.function() == nullptr) {
    reader.fail("tasks have no function");
  } else {
    std::memcpy(tasks.function.value.data(), from.function(), sizeof tasks.function.value);
  }
  tasks.timeout_ms = from.timeout_ms();
  tasks.rows = reader.rows<RunTasks::Row>(from.rows(), tasks.bytes, [](const schema::RunRow& row) {
    return RunTasks::Row{TaskId{row.task()}, row.attempt(), row.size()};
  });
  return tasks;
}

CancelTask read(ContentReader&, const schema::CancelTask& from) { return {TaskId{from.task()}}; }

RecallTasks read(ContentReader&, const schema::RecallTasks& from) { return {from.count()}; }

StreamCredit read(ContentReader&, const schema::StreamCredit& from) {
  return {TaskId{from.task()}, from.count()};
}

DropBlobs read(ContentReader& reader, const schema::DropBlobs& from) {
  return {reader.ids<BlobId>(from.blobs())};
}

DropFunctions read(ContentReader& reader, const schema::DropFunctions& from) {
  return {reader.functions(from.functions())};
}

PeerMoved read(ContentReader& reader, const schema::PeerMoved& from) {
  return {.node = NodeId{from.node()}, .address = reader.text(from.address())};
}

EndAhead read(ContentReader& reader, const schema::EndAhead& from) {
  return {.left_ms = from.left_ms(), .reason = reader.text(from.reason())};
}

Shutdown read(ContentReader&, const schema::Shutdown& from) { return {from.grace_ms()}; }

Welcome read(ContentReader& reader, const schema::Welcome& from) {
  return {.protocol = from.protocol(),
          .version = reader.text(from.version()),
          .process = from.process(),
          .hostname = reader.text(from.hostname()),
          .last_received = from.last_received(),
          .refusal = reader.text(from.refusal()),
          .blob_bytes = from.blob_bytes()};
}

BootstrapStep read(ContentReader& reader, const schema::BootstrapStep& from) {
  return {reader.text(from.step()), from.elapsed_ms()};
}

Ready read(ContentReader& reader, const schema::Ready& from) {
  return {.accelerators = reader.texts(from.accelerators()),
          .elapsed_ms = from.elapsed_ms(),
          .peer_port = from.peer_port(),
          .memory_bytes = from.memory_bytes(),
          .device_error = reader.text(from.device_error()),
          .devices_unknown = from.devices_unknown()};
}

Failed read(ContentReader& reader, const schema::Failed& from) {
  return {.step = reader.text(from.step()),
          .command = reader.text(from.command()),
          .reason = reader.text(from.reason()),
          .lines = reader.texts(from.lines())};
}

TaskResult read(ContentReader& reader, const schema::TaskResult& from) {
  if (from.status() > schema::TaskStatus::MAX) reader.fail("a result has an unknown status");
  return {.task = TaskId{from.task()},
          .attempt = from.attempt(),
          .status = static_cast<TaskStatus>(from.status()),
          .worker = from.worker(),
          .payload = reader.payload(from.payload()),
          .run_ns = from.run_ns(),
          .detail = reader.text(from.detail()),
          .tail = reader.texts(from.tail()),
          .retained = reader.ids<BlobId>(from.retained())};
}

TaskResults read(ContentReader& reader, const schema::TaskResults& from) {
  TaskResults results;
  results.rows = reader.rows<TaskResults::Row>(
      from.rows(), results.bytes, [&reader](const schema::ResultRow& row) {
        const auto raised = static_cast<std::uint32_t>(TaskStatus::raised);
        if (row.status() > raised) reader.fail("a result of a batch has an unknown status");
        return TaskResults::Row{.task = TaskId{row.task()},
                                .run_ns = row.run_ns(),
                                .attempt = row.attempt(),
                                .worker = row.worker(),
                                .size = row.size(),
                                .status = static_cast<TaskStatus>(row.status())};
      });
  return results;
}

StreamItem read(ContentReader& reader, const schema::StreamItem& from) {
  return {TaskId{from.task()}, from.attempt(), reader.payload(from.payload()),
          reader.text(from.undelivered())};
}

Output read(ContentReader& reader, const schema::Output& from) {
  return {reader.list<OutputLine>(from.lines(), [&reader](const schema::OutputLine& line) {
    if (line.stream() != schema::OutputStream::out && line.stream() != schema::OutputStream::err) {
      reader.fail("a line of output comes from an unknown stream");
    }
    return OutputLine{.task = TaskId{line.task()},
                      .worker = line.worker(),
                      .stream = static_cast<OutputStream>(line.stream()),
                      .wall_us = line.wall_us(),
                      .text = reader.text(line.text())};
  })};
}

Recalled read(ContentReader& reader, const schema::Recalled& from) {
  return {reader.ids<TaskId>(from.tasks())};
}

MetricsSample read(ContentReader&, const schema::MetricsSample& from) {
  const auto optional = [](const flatbuffers::Optional<double>& value) {
    return value ? std::optional<double>(*value) : std::nullopt;
  };
  return {.cpu_percent = from.cpu_percent(),
          .memory_percent = from.memory_percent(),
          .memory_used_mb = from.memory_used_mb(),
          .memory_total_mb = from.memory_total_mb(),
          .gpu_utilization = optional(from.gpu_utilization()),
          .gpu_memory_used_mb = optional(from.gpu_memory_used_mb()),
          .gpu_memory_total_mb = optional(from.gpu_memory_total_mb()),
          .gpu_temperature = optional(from.gpu_temperature())};
}

Preempted read(ContentReader& reader, const schema::Preempted& from) {
  return {.left_ms = from.left_ms(), .reason = reader.text(from.reason())};
}

Farewell read(ContentReader& reader, const schema::Farewell& from) {
  return {reader.text(from.reason())};
}

ContentId content_id(const schema::ContentId* from) {
  ContentId content{};
  if (from != nullptr) std::memcpy(content.data(), from, sizeof content);
  return content;
}

FetchBlob read(ContentReader& reader, const schema::FetchBlob& from) {
  return {.blob = BlobId{from.blob()},
          .content = content_id(from.content()),
          .size = from.size(),
          .attempt = from.attempt(),
          .peer = NodeId{from.peer()},
          .address = reader.text(from.address()),
          .port = from.port()};
}

BlobFetched read(ContentReader& reader, const schema::BlobFetched& from) {
  if (from.end() > schema::FetchEnd::MAX) reader.fail("a fetch has an unknown end");
  return {.blob = BlobId{from.blob()},
          .content = content_id(from.content()),
          .attempt = from.attempt(),
          .end = static_cast<FetchEnd>(from.end()),
          .received = from.received(),
          .detail = reader.text(from.detail())};
}

BlobChunk read(ContentReader& reader, const schema::BlobChunk& from) {
  BlobChunk chunk{.blob = BlobId{from.blob()},
                  .size = from.size(),
                  .offset = from.offset(),
                  .bytes = reader.take(from.bytes()),
                  .content = content_id(from.content())};
  if (chunk.bytes.empty()) reader.fail("a part of a blob is empty");
  if (chunk.offset > chunk.size || chunk.bytes.size() > chunk.size - chunk.offset) {
    reader.fail("a part of a blob is outside of it");
  }
  return chunk;
}

Heartbeat read(ContentReader&, const schema::Heartbeat&) { return {}; }

Message read_body(ContentReader& reader, const schema::Frame& frame) {
  switch (frame.body_type()) {
    case schema::Body::Hello:
      return read(reader, *frame.body_as_Hello());
    case schema::Body::Configure:
      return read(reader, *frame.body_as_Configure());
    case schema::Body::RunTask:
      return read(reader, *frame.body_as_RunTask());
    case schema::Body::RunTasks:
      return read(reader, *frame.body_as_RunTasks());
    case schema::Body::TaskResults:
      return read(reader, *frame.body_as_TaskResults());
    case schema::Body::CancelTask:
      return read(reader, *frame.body_as_CancelTask());
    case schema::Body::RecallTasks:
      return read(reader, *frame.body_as_RecallTasks());
    case schema::Body::StreamCredit:
      return read(reader, *frame.body_as_StreamCredit());
    case schema::Body::DropBlobs:
      return read(reader, *frame.body_as_DropBlobs());
    case schema::Body::DropFunctions:
      return read(reader, *frame.body_as_DropFunctions());
    case schema::Body::PeerMoved:
      return read(reader, *frame.body_as_PeerMoved());
    case schema::Body::EndAhead:
      return read(reader, *frame.body_as_EndAhead());
    case schema::Body::Shutdown:
      return read(reader, *frame.body_as_Shutdown());
    case schema::Body::Welcome:
      return read(reader, *frame.body_as_Welcome());
    case schema::Body::BootstrapStep:
      return read(reader, *frame.body_as_BootstrapStep());
    case schema::Body::Ready:
      return read(reader, *frame.body_as_Ready());
    case schema::Body::Failed:
      return read(reader, *frame.body_as_Failed());
    case schema::Body::TaskResult:
      return read(reader, *frame.body_as_TaskResult());
    case schema::Body::StreamItem:
      return read(reader, *frame.body_as_StreamItem());
    case schema::Body::Output:
      return read(reader, *frame.body_as_Output());
    case schema::Body::Recalled:
      return read(reader, *frame.body_as_Recalled());
    case schema::Body::MetricsSample:
      return read(reader, *frame.body_as_MetricsSample());
    case schema::Body::Farewell:
      return read(reader, *frame.body_as_Farewell());
    case schema::Body::BlobChunk:
      return read(reader, *frame.body_as_BlobChunk());
    case schema::Body::Heartbeat:
      return read(reader, *frame.body_as_Heartbeat());
    case schema::Body::Preempted:
      return read(reader, *frame.body_as_Preempted());
    case schema::Body::FetchBlob:
      return read(reader, *frame.body_as_FetchBlob());
    case schema::Body::BlobFetched:
      return read(reader, *frame.body_as_BlobFetched());
    case schema::Body::NONE:
      break;
  }
  reader.fail("its kind is unknown");
  return Heartbeat{};
}

}  // namespace

std::unexpected<Error> malformed_frame(std::string_view why) {
  return fail(
      ErrorKind::invalid, fmt::format("a frame cannot be read: {}", why),
      "install the same version of skyward on both sides; if they are the same, report a bug");
}

Result<DecodedFrame> read_frame(ByteView header, SharedBytes body, std::vector<Blob> blobs) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(header.data());
  flatbuffers::Verifier verifier(data, header.size());
  if (!schema::VerifyFrameBuffer(verifier)) return malformed_frame("its header is damaged");
  const schema::Frame& frame = *schema::GetFrame(data);
  if (frame.body() == nullptr) return malformed_frame("it holds no message");
  ContentReader reader(header.size(), std::move(body), std::move(blobs));
  reader.take_blobs(frame.blobs());
  if (reader.problem() != nullptr) return malformed_frame(reader.problem());
  DecodedFrame decoded{.envelope = {frame.sequence(), frame.acknowledged()},
                       .message = read_body(reader, frame)};
  reader.expect_all_taken();
  if (reader.problem() != nullptr) return malformed_frame(reader.problem());
  return decoded;
}

}  // namespace skyward::wire
