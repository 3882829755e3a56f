#pragma once

// What a simulated function does, and what its result must be. The plan travels as the arguments of
// the task, so that worker and user share nothing else.

#include <cstdint>
#include <cstring>

#include "skyward/base/bytes.h"
#include "skyward/base/check.h"
#include "skyward/wire/group.h"
#include "skyward/wire/payload.h"

namespace skyward::sim {

enum class TaskKind : std::uint32_t {
  returns,
  raises,
  dies,      // kills its process
  hangs,     // until it is interrupted
  stubborn,  // ignores interrupts
  stream,
  group,  // of calls that return, see first
};

struct TaskPlan {
  std::uint64_t key = 0;  // no two tasks have the same
  std::uint64_t run_ns = 0;
  TaskKind kind = TaskKind::returns;
  std::uint32_t items = 0;  // of a stream; calls of a group
  std::uint32_t first = 0;  // of a group: its first call; the results are the items from there on
  std::uint32_t lines = 0;  // of output
  std::uint32_t blobs = 0;  // buffers after the first
  std::uint32_t together = 0;  // 1: it needs the tasks on all other workers
  std::uint32_t unused = 0;
};

// One of the calls of a group takes so much longer.
inline constexpr std::uint64_t kSlowCallFactor = 50;

inline SharedBytes bytes_of(const TaskPlan& plan) {
  return SharedBytes(
      Bytes(std::as_bytes(std::span(&plan, 1)).begin(), std::as_bytes(std::span(&plan, 1)).end()));
}

inline TaskPlan plan_of(const wire::Payload& arguments) {
  TaskPlan plan;
  SKYWARD_CHECK(!arguments.buffers.empty() && arguments.buffers[0].bytes.size() == sizeof plan);
  std::memcpy(&plan, arguments.buffers[0].bytes.view.data(), sizeof plan);
  SKYWARD_CHECK(arguments.buffers.size() == 1 + plan.blobs, "buffers of task {}", plan.key);
  return plan;
}

// Each call of a group brings the whole plan.
inline TaskPlan plan_of_group(const wire::Payload& arguments) {
  const auto calls = wire::group_arguments(arguments);
  SKYWARD_CHECK(calls && !calls->empty());
  wire::Payload one;
  one.buffers.push_back(
      wire::small_buffer(SharedBytes(Bytes(calls->front().begin(), calls->front().end()))));
  const TaskPlan plan = plan_of(one);
  SKYWARD_CHECK(calls->size() == plan.items, "calls of group {}", plan.key);
  return plan;
}

// The nth item, the result (item 0) or the exception of a task.
inline std::uint64_t value_of(std::uint64_t key, std::uint64_t item = 0) {
  return (key ^ (item << 32U)) * 0x9e3779b97f4a7c15U + 1;
}

inline wire::Payload payload_of(std::uint64_t value) {
  wire::Payload payload;
  payload.buffers.push_back(wire::small_buffer(SharedBytes(
      to_bytes(std::string_view(reinterpret_cast<const char*>(&value), sizeof value)))));
  return payload;
}

inline std::uint64_t value_in(const wire::Payload& payload) {
  std::uint64_t value = 0;
  SKYWARD_CHECK(payload.buffers.size() == 1 && payload.buffers[0].bytes.size() == sizeof value);
  std::memcpy(&value, payload.buffers[0].bytes.view.data(), sizeof value);
  return value;
}

}  // namespace skyward::sim
