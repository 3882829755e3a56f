#pragma once

// Events of tasks: what they write, and, where a pool collects that, when they begin and end; see
// event.h for what all events share.

#include <cstdint>
#include <string>

namespace skyward {

// The engine sent a task to a node, which starts it now, or as soon as a slot is free. Emitted
// again, with the new node, when a waiting task moves to an idle node or its node is lost; the last
// one counts.
struct TaskStarted {
  std::uint64_t task = 0;
  std::string name{};  // of the function
  int node = 0;
  double timestamp = 0;  // seconds since 1970
  std::string pool{};
  bool operator==(const TaskStarted&) const = default;
};

// A task has returned.
struct TaskFinished {
  std::uint64_t task = 0;
  std::string name{};
  int node = 0;
  int worker = 0;
  double run_seconds = 0;  // inside the function
  double timestamp = 0;
  std::string pool{};
  bool operator==(const TaskFinished&) const = default;
};

// A task has raised, or got no answer: its worker died, it was cancelled, it timed out. A retry
// that `retries` allows is another task.
struct TaskFailed {
  std::uint64_t task = 0;
  std::string name{};
  int node = -1;  // -1: it never reached one
  int worker = -1;
  double run_seconds = 0;
  std::string reason{};  // "it raised" for an exception; otherwise what happened
  double timestamp = 0;
  std::string pool{};
  bool operator==(const TaskFailed&) const = default;
};

// A line over kMaxLineBytes comes in pieces of that size.
struct LogLine {
  int node = 0;
  std::string instance_id{};
  std::string line{};    // without its newline
  double timestamp = 0;  // seconds since 1970
  int worker = 0;
  std::uint64_t task = 0;  // 0: written while no task ran; quick calls may share one
  std::string stream{};    // "stdout" or "stderr"
  std::string pool{};
  bool operator==(const LogLine&) const = default;
};

}  // namespace skyward
