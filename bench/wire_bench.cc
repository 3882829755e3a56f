// How much a frame costs: small calls and results, the messages of which there are most.

#include <benchmark/benchmark.h>

#include <string>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/base/hash.h"
#include "skyward/wire/codec.h"
#include "skyward/wire/session.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::wire {
namespace {

Payload small_payload() { return {{small_buffer(SharedBytes(std::string(200, 'p')))}}; }

Message small_run() {
  RunTask run;
  run.task = TaskId{1};
  run.arguments = small_payload();
  return run;
}

Message small_result() {
  TaskResult result;
  result.task = TaskId{1};
  result.payload = small_payload();
  result.run_ns = 12'345;
  return result;
}

Message message_of(const benchmark::State& state) {
  return state.range(0) == 0 ? small_run() : small_result();
}

void encode_small(benchmark::State& state) {
  const Message message = message_of(state);
  std::uint64_t sequence = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(encode(message, {.sequence = ++sequence, .acknowledged = 1}));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(encode_small)->ArgName("result")->Arg(0)->Arg(1);

void decode_small(benchmark::State& state) {
  const Outgoing frame = encode(message_of(state), {.sequence = 1, .acknowledged = 1});
  const ByteView header = ByteView(frame.head).subspan(kFramePrefixBytes);
  for (auto _ : state) {
    benchmark::DoNotOptimize(decode_prefix(ByteView(frame.head).first(kFramePrefixBytes)));
    auto decoded = decode(header, frame.body[0], {});
    SKYWARD_CHECK(decoded.has_value());
    benchmark::DoNotOptimize(decoded);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(decode_small)->ArgName("result")->Arg(0)->Arg(1);

// One message through both ends of a session, without the codec.
void session_message(benchmark::State& state) {
  Session near;
  Session far;
  const Message message = small_run();
  for (auto _ : state) {
    far.arrived(near.number(message));
    if (far.should_acknowledge()) near.arrived(far.control());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(session_message);

void worker_round_trip(benchmark::State& state) {
  WorkerMessage run;
  run.payload = small_payload();
  for (auto _ : state) {
    const Outgoing encoded = encode_worker_message(run);
    Bytes bytes(encoded.head.begin() + kWorkerPrefixBytes, encoded.head.end());
    bytes.insert(bytes.end(), encoded.body[0].view.begin(), encoded.body[0].view.end());
    auto decoded = decode_worker_message(SharedBytes(std::move(bytes)), {});
    SKYWARD_CHECK(decoded.has_value());
    benchmark::DoNotOptimize(decoded);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(worker_round_trip);

void hash_bytes(benchmark::State& state) {
  const Bytes bytes(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(sha256(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hash_bytes)->Arg(1000)->Arg(1 << 20);

}  // namespace
}  // namespace skyward::wire

BENCHMARK_MAIN();
