#pragma once

// Many plain tasks, or many plain results, in one message: a message of its own costs more than a
// short task. The link puts them together (conversation.h) and takes them apart where they arrive,
// so the cores know RunTask and TaskResult alone.
//
// A plain task has one small buffer of arguments, and needs neither a certain worker, nor a body,
// nor a stream. A plain result has one small buffer, and nothing else to tell.

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/spec/id.h"
#include "skyward/wire/to_agent.h"
#include "skyward/wire/to_engine.h"

namespace skyward::wire {

inline constexpr std::size_t kMaxBatchRows = 256;
inline constexpr std::size_t kMaxBatchBytes = std::size_t{64} << 10;
inline constexpr std::size_t kMaxBatchedBufferBytes = std::size_t{4} << 10;  // larger ones go alone

struct RunTasks {
  struct Row {
    TaskId task;
    std::uint32_t attempt = 1;
    std::uint32_t size = 0;  // of its arguments: the next bytes of `bytes`
    bool operator==(const Row&) const = default;
  };
  FunctionId function{};
  std::uint64_t timeout_ms = 0;
  std::vector<Row> rows;
  SharedBytes bytes;
  bool operator==(const RunTasks&) const = default;

  // They share `bytes`.
  std::vector<RunTask> tasks() const;
};

struct TaskResults {
  struct Row {
    TaskId task;
    std::uint64_t run_ns = 0;
    std::uint32_t attempt = 1;
    std::uint32_t worker = 0;
    std::uint32_t size = 0;
    TaskStatus status = TaskStatus::ok;  // or raised
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows;
  SharedBytes bytes;
  bool operator==(const TaskResults&) const = default;

  std::vector<TaskResult> results() const;
};

// Puts together what goes out. Empty at first.
class OutgoingBatch {
 public:
  // False if the message is not plain, or does not fit what is there.
  bool add(const RunTask& run);
  bool add(const TaskResult& result);

  bool empty() const { return std::holds_alternative<std::monostate>(rows_); }
  // What was added, as a RunTasks or a TaskResults; empty again. Not if it is empty.
  std::variant<RunTasks, TaskResults> take();

 private:
  template <typename Rows>
  Rows* open();
  bool append(const Payload& payload);

  std::variant<std::monostate, RunTasks, TaskResults> rows_;
  Bytes bytes_;
};

}  // namespace skyward::wire
