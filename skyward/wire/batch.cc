#include "skyward/wire/batch.h"

#include <utility>

#include "skyward/base/check.h"

namespace skyward::wire {
namespace {

bool is_plain(const Payload& payload) {
  return payload.buffers.size() == 1 && !payload.buffers.front().in_blob() &&
         payload.buffers.front().size <= kMaxBatchedBufferBytes;
}

// Hands out `bytes`, row by row.
class Pieces {
 public:
  explicit Pieces(const SharedBytes& bytes) : bytes_(bytes) {}

  Payload next(std::uint32_t size) {
    SKYWARD_CHECK(size <= bytes_.size() - at_, "{} bytes of {}", size, bytes_.size());
    const ByteView view = bytes_.view.subspan(std::exchange(at_, at_ + size), size);
    Payload payload;
    payload.buffers.push_back(
        small_buffer(size == 0 ? SharedBytes() : SharedBytes(bytes_.owner, view)));
    return payload;
  }

 private:
  const SharedBytes& bytes_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<RunTask> RunTasks::tasks() const {
  std::vector<RunTask> tasks;
  tasks.reserve(rows.size());
  Pieces pieces(bytes);
  for (const Row& row : rows) {
    RunTask& task = tasks.emplace_back();
    task.task = row.task;
    task.attempt = row.attempt;
    task.function = function;
    task.arguments = pieces.next(row.size);
    task.timeout_ms = timeout_ms;
  }
  return tasks;
}

std::vector<TaskResult> TaskResults::results() const {
  std::vector<TaskResult> results;
  results.reserve(rows.size());
  Pieces pieces(bytes);
  for (const Row& row : rows) {
    TaskResult& result = results.emplace_back();
    result.task = row.task;
    result.attempt = row.attempt;
    result.status = row.status;
    result.worker = row.worker;
    result.payload = pieces.next(row.size);
    result.run_ns = row.run_ns;
  }
  return results;
}

// The rows that are being put together, unless they are of the other kind or there are too many.
template <typename Rows>
Rows* OutgoingBatch::open() {
  if (empty()) rows_.emplace<Rows>();
  auto* rows = std::get_if<Rows>(&rows_);
  return rows == nullptr || rows->rows.size() >= kMaxBatchRows ? nullptr : rows;
}

bool OutgoingBatch::append(const Payload& payload) {
  const ByteView bytes = payload.buffers.front().bytes.view;
  if (bytes_.size() + bytes.size() > kMaxBatchBytes) return false;
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  return true;
}

bool OutgoingBatch::add(const RunTask& run) {
  if (run.worker || !run.body.empty() || run.stream_window > 0 || !is_plain(run.arguments)) {
    return false;
  }
  auto* runs = open<RunTasks>();
  if (runs == nullptr) return false;
  const bool same = runs->function == run.function && runs->timeout_ms == run.timeout_ms;
  if (!runs->rows.empty() && !same) return false;
  if (!append(run.arguments)) return false;
  runs->function = run.function;
  runs->timeout_ms = run.timeout_ms;
  runs->rows.push_back({.task = run.task,
                        .attempt = run.attempt,
                        .size = static_cast<std::uint32_t>(run.arguments.buffers.front().size)});
  return true;
}

bool OutgoingBatch::add(const TaskResult& result) {
  const bool ended = result.status == TaskStatus::ok || result.status == TaskStatus::raised;
  if (!ended || !result.detail.empty() || !result.tail.empty() || !result.retained.empty() ||
      !is_plain(result.payload)) {
    return false;
  }
  auto* results = open<TaskResults>();
  if (results == nullptr || !append(result.payload)) return false;
  results->rows.push_back({.task = result.task,
                           .run_ns = result.run_ns,
                           .attempt = result.attempt,
                           .worker = result.worker,
                           .size = static_cast<std::uint32_t>(result.payload.buffers.front().size),
                           .status = result.status});
  return true;
}

std::variant<RunTasks, TaskResults> OutgoingBatch::take() {
  SharedBytes bytes(std::exchange(bytes_, {}));
  if (auto* runs = std::get_if<RunTasks>(&rows_)) {
    RunTasks taken = std::move(*runs);
    rows_ = std::monostate();
    taken.bytes = std::move(bytes);
    return taken;
  }
  TaskResults taken = std::move(std::get<TaskResults>(rows_));
  rows_ = std::monostate();
  taken.bytes = std::move(bytes);
  return taken;
}

}  // namespace skyward::wire
