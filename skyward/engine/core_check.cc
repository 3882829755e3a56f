#include "skyward/engine/core_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <variant>

#include "skyward/wire/group.h"

namespace skyward::engine {
namespace {

std::unexpected<Error> broken(std::string what) {
  return fail(ErrorKind::lost, "its agent broke the protocol: " + std::move(what),
              "this is a bug, or a program other than skyward-agent is answering");
}

// Tasks that the core has given up waiting for, and whose slots stay taken until the node says so.
std::size_t forgotten(const NodeLoad& load) { return load.outstanding - load.tasks.size(); }

struct Checker {
  const Node& node;
  const Tasks& tasks;
  const NodeLoad& load;

  bool ready() const { return node.state == NodeState::ready; }
  bool stopping() const { return node.state == NodeState::stopping; }

  // A known task must be the node's own.
  bool has(const Task& task) const { return task.assigned && task.node == node.id; }

  Status operator()(const wire::BootstrapStep&) const {
    if (ready()) return broken("a step of the bootstrap after its end");
    return {};
  }
  Status operator()(const wire::Ready&) const {
    if (ready()) return broken("it reported ready twice");
    return {};
  }
  Status operator()(const wire::TaskResult& result) const {
    if (stopping()) return {};
    const Task* task = tasks.find(result.task);
    const bool expected =
        task == nullptr ? forgotten(load) > 0 : has(*task) && task->attempt == result.attempt;
    if (ready() && expected) return {};
    return broken(fmt::format("a result of task {}, attempt {}, which was not sent to it",
                              result.task.value, result.attempt));
  }
  Status operator()(const wire::StreamItem& item) const {
    const Task* task = tasks.find(item.task);
    if (stopping() || (ready() && task == nullptr)) return {};
    if (!ready() || !has(*task) || task->attempt != item.attempt ||
        task->call.options.stream_window == 0) {
      return broken(fmt::format("an item of task {}, attempt {}, which is no stream of this node",
                                item.task.value, item.attempt));
    }
    if (!item.undelivered.empty()) return {};
    if (task->call.options.group) return check_group_item(*task, item);
    if (task->items_ahead < task->call.options.stream_window) return {};
    return broken(fmt::format("more items of task {} than the {} that were asked for",
                              item.task.value, task->call.options.stream_window));
  }
  // The outcome of the call that runs last is the task's own.
  Status check_group_item(const Task& task, const wire::StreamItem& item) const {
    const auto group = wire::group_item(item.payload);
    if (!group) return broken(group.error().message);
    if (group->results.size() + group->withdrawn < task.group_calls) return {};
    return broken(fmt::format("too many results of group {}, which has {} calls left",
                              item.task.value, task.group_calls));
  }
  Status operator()(const wire::Recalled& recalled) const {
    if (stopping()) return {};
    if (!ready() || !load.recalling) return broken("it returned tasks that were not withdrawn");
    std::unordered_set<TaskId> seen;
    std::size_t unknown = 0;
    for (const TaskId id : recalled.tasks) {
      const Task* task = tasks.find(id);
      if (task == nullptr) ++unknown;
      if ((task == nullptr || has(*task)) && seen.insert(id).second) continue;
      return broken(fmt::format("task {} came back, which it did not receive", id.value));
    }
    if (unknown <= forgotten(load)) return {};
    return broken("more tasks came back than it was given");
  }
  Status operator()(const wire::BlobFetched&) const {
    if (ready() || stopping()) return {};
    return broken("it fetched a blob before it was ready");
  }

  // A node that is ready fails if no worker process has ever begun a task there.
  Status operator()(const wire::Failed&) const { return {}; }
  Status operator()(const wire::Output&) const { return {}; }
  Status operator()(const wire::MetricsSample&) const { return {}; }
  Status operator()(const wire::Preempted&) const { return {}; }
  Status operator()(const wire::Heartbeat&) const { return {}; }

  // The link handles greetings, parts of blobs and farewells; only the engine sends the rest.
  template <typename Other>
  Status operator()(const Other&) const {
    return broken("a message that it may not send here");
  }
};

}  // namespace

Status check_message(const Node& node, const Tasks& tasks, const wire::Message& message) {
  return std::visit(Checker{node, tasks, tasks.on(node.id)}, message);
}

}  // namespace skyward::engine
