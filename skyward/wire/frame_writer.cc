#include "skyward/wire/frame_writer.h"

#include <cstring>
#include <type_traits>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"
#include "skyward/wire/distinct_blobs.h"
#include "skyward/wire/message_generated.h"

namespace skyward::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

template <typename T>
using Items = flatbuffers::Vector<T>;

static_assert(
    static_cast<int>(schema::TaskStatus::ok) == static_cast<int>(TaskStatus::ok) &&
    static_cast<int>(schema::TaskStatus::raised) == static_cast<int>(TaskStatus::raised) &&
    static_cast<int>(schema::TaskStatus::worker_died) ==
        static_cast<int>(TaskStatus::worker_died) &&
    static_cast<int>(schema::TaskStatus::cancelled) == static_cast<int>(TaskStatus::cancelled) &&
    static_cast<int>(schema::TaskStatus::timed_out) == static_cast<int>(TaskStatus::timed_out) &&
    static_cast<int>(schema::TaskStatus::not_begun) == static_cast<int>(TaskStatus::not_begun) &&
    static_cast<int>(schema::TaskStatus::undelivered) ==
        static_cast<int>(TaskStatus::undelivered) &&
    schema::TaskStatus::MAX == schema::TaskStatus::undelivered);
static_assert(static_cast<int>(schema::OutputStream::out) == static_cast<int>(OutputStream::out) &&
              static_cast<int>(schema::OutputStream::err) == static_cast<int>(OutputStream::err));

static_assert(static_cast<int>(schema::FetchEnd::whole) == static_cast<int>(FetchEnd::whole) &&
              static_cast<int>(schema::FetchEnd::unreached) ==
                  static_cast<int>(FetchEnd::unreached) &&
              static_cast<int>(schema::FetchEnd::missing) == static_cast<int>(FetchEnd::missing) &&
              static_cast<int>(schema::FetchEnd::broken) == static_cast<int>(FetchEnd::broken) &&
              static_cast<int>(schema::FetchEnd::stopped) == static_cast<int>(FetchEnd::stopped) &&
              schema::FetchEnd::MAX == schema::FetchEnd::stopped);

schema::ContentId content_id(const ContentId& from) {
  schema::ContentId content;
  static_assert(sizeof content == sizeof from);
  std::memcpy(&content, from.data(), sizeof content);
  return content;
}

// The table under construction and the frame that its buffers go to.
class Writer {
 public:
  Writer(FlatBufferBuilder& table, Outgoing& frame) : builder_(table), frame_(frame) {}

  FlatBufferBuilder& builder() { return builder_; }

  // An empty string or list is left out; it reads as empty.
  Offset<flatbuffers::String> text(const std::string& value) {
    return value.empty() ? 0 : builder_.CreateString(value);
  }

  Offset<Items<Offset<flatbuffers::String>>> texts(const std::vector<std::string>& values) {
    return list(values, [this](const std::string& value) { return builder_.CreateString(value); });
  }

  Offset<Items<Offset<schema::KeyValue>>> key_values(const KeyValues& values) {
    return list(values, [this](const std::pair<std::string, std::string>& value) {
      const auto key = text(value.first);
      return schema::CreateKeyValue(builder_, key, text(value.second));
    });
  }

  template <typename T, typename Write>
  auto list(const std::vector<T>& values, Write write)
      -> Offset<Items<decltype(write(values.front()))>> {
    if (values.empty()) return 0;
    std::vector<decltype(write(values.front()))> offsets;
    offsets.reserve(values.size());
    for (const T& value : values) offsets.push_back(write(value));
    return builder_.CreateVector(offsets);
  }

  template <typename AnyId>
  Offset<Items<std::uint64_t>> ids(const std::vector<AnyId>& values) {
    if (values.empty()) return 0;
    std::uint64_t* out = nullptr;
    const Offset<Items<std::uint64_t>> offset =
        builder_.CreateUninitializedVector<std::uint64_t>(values.size(), &out);
    for (const AnyId& id : values) *out++ = flatbuffers::EndianScalar(id.value);
    return offset;
  }

  template <typename Table, typename Row, typename Write>
  Offset<Items<const Table*>> rows(const std::vector<Row>& rows, Write write) {
    if (rows.empty()) return 0;
    Table* out = nullptr;
    const Offset<Items<const Table*>> offset =
        builder_.CreateUninitializedVectorOfStructs<Table>(rows.size(), &out);
    for (const Row& row : rows) *out++ = write(row);
    return offset;
  }

  Offset<Items<const schema::Buffer*>> payload(const Payload& payload) {
    if (payload.buffers.empty()) return 0;
    SKYWARD_CHECK(payload.buffers.size() <= kMaxBuffers, "{} buffers", payload.buffers.size());
    frame_.body.reserve(frame_.body.size() + payload.buffers.size());
    schema::Buffer* out = nullptr;
    const Offset<Items<const schema::Buffer*>> offset =
        builder_.CreateUninitializedVectorOfStructs<schema::Buffer>(payload.buffers.size(), &out);
    for (const Buffer& next : payload.buffers) *out++ = buffer(next);
    return offset;
  }

  schema::Buffer buffer(const Buffer& from) {
    const std::int32_t blob = from.in_blob() ? position(from.blob) : -1;
    if (blob < 0) append(from.bytes);
    return {from.size, from.offset, blob, 0};
  }

  void append(const SharedBytes& bytes) {
    if (!bytes.empty()) frame_.body.push_back(bytes);
  }

  Offset<Items<const schema::Blob*>> blobs() {
    if (blobs_.count() == 0) return 0;
    schema::Blob* out = nullptr;
    const Offset<Items<const schema::Blob*>> offset =
        builder_.CreateUninitializedVectorOfStructs<schema::Blob>(blobs_.count(), &out);
    for (std::size_t i = 0; i < blobs_.count(); ++i) {
      *out++ = schema::Blob(blobs_[i].id.value, blobs_[i].size);
    }
    return offset;
  }

 private:
  std::int32_t position(const Blob& blob) {
    const std::size_t position = blobs_.find(blob);
    if (position == blobs_.count()) {
      blobs_.add(blob);
      if (blob.descriptor >= 0) {
        frame_.descriptors.push_back(blob.descriptor);
        frame_.keep.push_back(blob.storage);
      }
    }
    return static_cast<std::int32_t>(position);
  }

  FlatBufferBuilder& builder_;
  Outgoing& frame_;
  DistinctBlobs blobs_;
};

auto write(Writer& to, const Hello& from) {
  const auto version = to.text(from.version);
  const auto pool = to.text(from.pool);
  const auto token = to.text(from.token);
  return schema::CreateHello(to.builder(), from.protocol, version, pool, from.node.value,
                             from.descriptors, from.last_received, token);
}

auto write(Writer& to, const Configure& from) {
  const auto worker_command = to.texts(from.worker_command);
  const auto directory = to.text(from.directory);
  const auto workers = to.list(from.workers, [&to](const WorkerSpec& worker) {
    const auto environment = to.key_values(worker.environment);
    return schema::CreateWorkerSpec(to.builder(), environment);
  });
  const auto bootstrap = to.text(from.bootstrap);
  const auto bootstrap_environment = to.key_values(from.bootstrap_environment);
  const auto end_command = to.texts(from.end_command);
  const auto preemption = to.text(from.preemption);
  const auto end_script = to.text(from.end_script);
  const auto peer_key = to.text(from.peer_key);
  const auto peer_address = to.text(from.peer_address);
  return schema::CreateConfigure(to.builder(), worker_command, directory, workers, from.concurrency,
                                 bootstrap, bootstrap_environment, from.heartbeat_ms,
                                 from.metrics_ms, from.lease_ms, from.lifetime_ms, end_command,
                                 preemption, end_script, peer_key, peer_address);
}

schema::FunctionId written(const FunctionId& from) {
  schema::FunctionId function;
  static_assert(sizeof function == sizeof from.value);
  std::memcpy(&function, from.value.data(), sizeof function);
  return function;
}

auto write(Writer& to, const RunTask& from) {
  const schema::FunctionId function = written(from.function);
  const schema::Buffer body = from.body.empty() ? schema::Buffer() : to.buffer(from.body);
  const auto arguments = to.payload(from.arguments);
  const auto worker =
      from.worker ? flatbuffers::Optional<std::uint32_t>(*from.worker) : flatbuffers::nullopt;
  return schema::CreateRunTask(to.builder(), from.task.value, from.attempt, worker, &function,
                               from.body.empty() ? nullptr : &body, arguments, from.timeout_ms,
                               from.stream_window, from.group);
}

auto write(Writer& to, const RunTasks& from) {
  to.append(from.bytes);
  const auto rows = to.rows<schema::RunRow>(from.rows, [](const RunTasks::Row& row) {
    return schema::RunRow(row.task.value, row.attempt, row.size);
  });
  const schema::FunctionId function = written(from.function);
  return schema::CreateRunTasks(to.builder(), &function, from.timeout_ms, rows);
}

auto write(Writer& to, const CancelTask& from) {
  return schema::CreateCancelTask(to.builder(), from.task.value);
}

auto write(Writer& to, const RecallTasks& from) {
  return schema::CreateRecallTasks(to.builder(), from.count);
}

auto write(Writer& to, const StreamCredit& from) {
  return schema::CreateStreamCredit(to.builder(), from.task.value, from.count);
}

auto write(Writer& to, const DropBlobs& from) {
  const auto blobs = to.ids(from.blobs);
  return schema::CreateDropBlobs(to.builder(), blobs);
}

auto write(Writer& to, const DropFunctions& from) {
  std::vector<schema::FunctionId> functions;
  for (const FunctionId& function : from.functions) functions.push_back(written(function));
  if (functions.empty()) return schema::CreateDropFunctions(to.builder());
  return schema::CreateDropFunctions(to.builder(), to.builder().CreateVectorOfStructs(functions));
}

auto write(Writer& to, const PeerMoved& from) {
  const auto address = to.text(from.address);
  return schema::CreatePeerMoved(to.builder(), from.node.value, address);
}

auto write(Writer& to, const EndAhead& from) {
  const auto reason = to.text(from.reason);
  return schema::CreateEndAhead(to.builder(), from.left_ms, reason);
}

auto write(Writer& to, const Shutdown& from) {
  return schema::CreateShutdown(to.builder(), from.grace_ms);
}

auto write(Writer& to, const Welcome& from) {
  const auto version = to.text(from.version);
  const auto hostname = to.text(from.hostname);
  const auto refusal = to.text(from.refusal);
  return schema::CreateWelcome(to.builder(), from.protocol, version, from.process, hostname,
                               from.last_received, refusal, from.blob_bytes);
}

auto write(Writer& to, const BootstrapStep& from) {
  const auto step = to.text(from.step);
  return schema::CreateBootstrapStep(to.builder(), step, from.elapsed_ms);
}

auto write(Writer& to, const Ready& from) {
  const auto accelerators = to.texts(from.accelerators);
  const auto device_error = to.text(from.device_error);
  return schema::CreateReady(to.builder(), accelerators, from.elapsed_ms, from.peer_port,
                             from.memory_bytes, device_error, from.devices_unknown);
}

auto write(Writer& to, const Failed& from) {
  const auto step = to.text(from.step);
  const auto command = to.text(from.command);
  const auto reason = to.text(from.reason);
  const auto lines = to.texts(from.lines);
  return schema::CreateFailed(to.builder(), step, command, reason, lines);
}

auto write(Writer& to, const TaskResult& from) {
  const auto payload = to.payload(from.payload);
  const auto detail = to.text(from.detail);
  const auto tail = to.texts(from.tail);
  const auto retained = to.ids(from.retained);
  return schema::CreateTaskResult(to.builder(), from.task.value, from.attempt,
                                  static_cast<schema::TaskStatus>(from.status), from.worker,
                                  payload, from.run_ns, detail, tail, retained);
}

auto write(Writer& to, const TaskResults& from) {
  to.append(from.bytes);
  const auto rows = to.rows<schema::ResultRow>(from.rows, [](const TaskResults::Row& row) {
    return schema::ResultRow(row.task.value, row.run_ns, row.attempt, row.worker, row.size,
                             static_cast<std::uint32_t>(row.status));
  });
  return schema::CreateTaskResults(to.builder(), rows);
}

auto write(Writer& to, const StreamItem& from) {
  const auto payload = to.payload(from.payload);
  const auto undelivered = to.text(from.undelivered);
  return schema::CreateStreamItem(to.builder(), from.task.value, from.attempt, payload,
                                  undelivered);
}

auto write(Writer& to, const Output& from) {
  const auto lines = to.list(from.lines, [&to](const OutputLine& line) {
    const auto text = to.text(line.text);
    return schema::CreateOutputLine(to.builder(), line.task.value, line.worker,
                                    static_cast<schema::OutputStream>(line.stream), line.wall_us,
                                    text);
  });
  return schema::CreateOutput(to.builder(), lines);
}

auto write(Writer& to, const Recalled& from) {
  const auto tasks = to.ids(from.tasks);
  return schema::CreateRecalled(to.builder(), tasks);
}

auto write(Writer& to, const MetricsSample& from) {
  const auto optional = [](const std::optional<double>& value) {
    return value ? flatbuffers::Optional<double>(*value) : flatbuffers::nullopt;
  };
  return schema::CreateMetricsSample(
      to.builder(), from.cpu_percent, from.memory_percent, from.memory_used_mb,
      from.memory_total_mb, optional(from.gpu_utilization), optional(from.gpu_memory_used_mb),
      optional(from.gpu_memory_total_mb), optional(from.gpu_temperature));
}

auto write(Writer& to, const Farewell& from) {
  const auto reason = to.text(from.reason);
  return schema::CreateFarewell(to.builder(), reason);
}

auto write(Writer& to, const Preempted& from) {
  const auto reason = to.text(from.reason);
  return schema::CreatePreempted(to.builder(), from.left_ms, reason);
}

auto write(Writer& to, const BlobChunk& from) {
  to.append(from.bytes);
  const schema::ContentId content = content_id(from.content);
  return schema::CreateBlobChunk(to.builder(), from.blob.value, from.size, from.offset,
                                 from.bytes.size(), &content);
}

auto write(Writer& to, const FetchBlob& from) {
  const auto address = to.text(from.address);
  const schema::ContentId content = content_id(from.content);
  return schema::CreateFetchBlob(to.builder(), from.blob.value, &content, from.size, from.attempt,
                                 from.peer.value, address, from.port);
}

auto write(Writer& to, const BlobFetched& from) {
  const auto detail = to.text(from.detail);
  const schema::ContentId content = content_id(from.content);
  return schema::CreateBlobFetched(to.builder(), from.blob.value, &content, from.attempt,
                                   static_cast<schema::FetchEnd>(from.end), from.received, detail);
}

auto write(Writer& to, const Heartbeat&) { return schema::CreateHeartbeat(to.builder()); }

template <typename Table>
constexpr schema::Body kind_of(Offset<Table>) {
  return schema::BodyTraits<Table>::enum_value;
}

}  // namespace

void write_frame(FlatBufferBuilder& builder, const Message& message, Envelope envelope,
                 Outgoing& frame) {
  Writer writer(builder, frame);
  std::visit(
      [&](const auto& value) {
        const auto body = write(writer, value);
        const auto blobs = writer.blobs();
        builder.Finish(schema::CreateFrame(builder, envelope.sequence, envelope.acknowledged, blobs,
                                           kind_of(body), body.Union()));
      },
      message);
}

}  // namespace skyward::wire
