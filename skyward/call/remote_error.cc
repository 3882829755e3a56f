#include "skyward/call/remote_error.h"

#include <utility>

namespace skyward {
namespace {

std::string where(const Outcome& outcome, const std::string& function, std::uint64_t task) {
  std::string text = "in " + function + " (task " + std::to_string(task);
  if (outcome.node >= 0) {
    text += " on node " + std::to_string(outcome.node);
    if (outcome.worker >= 0) text += ", worker " + std::to_string(outcome.worker);
  }
  if (!outcome.instance_id.empty()) text += ", instance " + outcome.instance_id;
  return text + ")";
}

std::string last_output(const Outcome& outcome) {
  if (outcome.tail.empty()) return {};
  std::string text = "\nlast output of the task:";
  for (const std::string& line : outcome.tail) text += "\n  | " + line;
  return text;
}

}  // namespace

wire::Payload write_exception(const std::string& type, const std::string& message) {
  // A text too long for the stream would need shared memory, which may be what failed.
  constexpr std::size_t kLongest = 16 << 10;
  ArchiveWriter archive({});
  archive(type.substr(0, kLongest), message.substr(0, kLongest));
  return archive.finish();
}

void throw_unless_ok(const Outcome& outcome, const std::string& function, std::uint64_t task,
                     BufferMapper map) {
  switch (outcome.status) {
    case OutcomeStatus::ok:
      return;
    case OutcomeStatus::raised: {
      std::string type;
      std::string message;
      ArchiveReader archive(outcome.payload, map);
      archive(type, message);
      const std::string text =
          type + ": " + message + "\n" + where(outcome, function, task) + last_output(outcome);
      throw RemoteError(std::move(type), std::move(message), outcome, text);
    }
    case OutcomeStatus::failed: {
      Error error = outcome.error;
      error.message += "\n" + where(outcome, function, task) + last_output(outcome);
      if (error.kind == ErrorKind::lost) throw InstanceTerminatedError(text_of(error));
      if (error.kind == ErrorKind::unreachable) throw ConnectionLostError(text_of(error));
      throw_error(error);
    }
  }
}

}  // namespace skyward
