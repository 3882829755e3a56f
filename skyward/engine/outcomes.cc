#include "skyward/engine/outcomes.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "skyward/spec/limits.h"
#include "skyward/spec/loss.h"

namespace skyward::engine {
namespace {

std::string failed_text(const Task& task, const NodeLoad& node, const wire::TaskResult& result,
                        std::string_view what) {
  return fmt::format("{}: {} (node {}, worker {}, {}): {}", task.call.function->name, what,
                     node.id.value, result.worker, node.instance, result.detail);
}

}  // namespace

wire::Outcome failure(Error error) {
  wire::Outcome outcome;
  outcome.status = wire::OutcomeStatus::failed;
  outcome.error = std::move(error);
  return outcome;
}

wire::Outcome failure_on(const NodeLoad& node, Error error) {
  wire::Outcome outcome = failure(std::move(error));
  outcome.begun = true;
  outcome.node = static_cast<int>(node.id.value);
  outcome.instance_id = node.instance;
  return outcome;
}

Error lost_error(const NodeLoad& node, const Task& task, const Error& why) {
  const auto kind = why.kind == ErrorKind::unreachable ? why.kind : ErrorKind::lost;
  Loss loss = loss_of(why);
  loss.attempts = static_cast<int>(task.attempt);
  if (task.call.options.together) {
    return with_loss({kind,
                      fmt::format("{}: node {} was lost, and the call needs all nodes: {}",
                                  task.call.function->name, node.id.value, why.message),
                      "the next call starts when all nodes are ready"},
                     loss);
  }
  const std::string tries =
      task.item_seen ? "" : fmt::format(" (attempt {} of {})", task.attempt, kMaxAttempts);
  return with_loss({kind,
                    fmt::format("{}: node {} was lost while it ran this task{}: {}",
                                task.call.function->name, node.id.value, tries, why.message),
                    task.item_seen ? "a stream that has delivered items is not retried" : ""},
                   loss);
}

Error undelivered_error(const NodeLoad& node, const Task& task, const std::string& why) {
  return {ErrorKind::undelivered,
          fmt::format("{}: {} is lost (node {}, {}): {}", task.call.function->name,
                      task.call.options.group ? "a result" : "an item of its stream", node.id.value,
                      node.instance, why),
          {}};
}

wire::Outcome make_outcome(const Task& task, const NodeLoad& node, wire::TaskResult& result) {
  wire::Outcome outcome;
  outcome.begun = true;
  outcome.node = static_cast<int>(node.id.value);
  outcome.worker = static_cast<int>(result.worker);
  outcome.instance_id = node.instance;
  outcome.run_seconds = static_cast<double>(result.run_ns) * 1e-9;
  outcome.tail = std::move(result.tail);
  outcome.payload = std::move(result.payload);
  switch (result.status) {
    case wire::TaskStatus::ok:
      outcome.status = wire::OutcomeStatus::ok;
      break;
    case wire::TaskStatus::raised:
      outcome.status = wire::OutcomeStatus::raised;
      break;
    case wire::TaskStatus::worker_died:
      outcome.error = {ErrorKind::task, failed_text(task, node, result, "the worker process died"),
                       "Skyward replaces the worker; the pool continues"};
      break;
    case wire::TaskStatus::not_begun:
      outcome.begun = false;
      outcome.error = {
          ErrorKind::task, failed_text(task, node, result, "the call did not begin"), {}};
      break;
    case wire::TaskStatus::undelivered:
      outcome.error = {
          ErrorKind::undelivered, failed_text(task, node, result, "the result is lost"), {}};
      break;
    case wire::TaskStatus::cancelled:
      outcome.error = {
          ErrorKind::cancelled, fmt::format("{} was cancelled", task.call.function->name), {}};
      break;
    case wire::TaskStatus::timed_out:
      outcome.error = {
          ErrorKind::timeout,
          fmt::format("{} on node {}: {}", task.call.function->name, node.id.value, result.detail),
          "give it more time with .with_timeout(…)"};
      break;
  }
  return outcome;
}

}  // namespace skyward::engine
