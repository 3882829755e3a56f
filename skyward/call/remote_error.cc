#include "skyward/call/remote_error.h"

#include <algorithm>
#include <exception>
#include <ranges>
#include <typeinfo>
#include <utility>

#include "skyward/base/type_text.h"
#include "skyward/call/thrown_type.h"
#include "skyward/spec/loss.h"

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
  constexpr std::size_t kShownLines = 20;
  std::string text = "\nlast output of the task:";
  const std::size_t left_out = outcome.tail.size() - std::min(outcome.tail.size(), kShownLines);
  for (const std::string& line : outcome.tail | std::views::drop(left_out)) text += "\n  | " + line;
  return text;
}

// What an exception was thrown for, and that one in turn: a line for each.
std::string causes_of(const std::exception& error) {
  constexpr int kMost = 8;
  std::string text;
  std::exception_ptr held;  // what `at` points to
  const std::exception* at = &error;
  for (int depth = 0; depth < kMost && at != nullptr; ++depth) {
    const auto* nesting = dynamic_cast<const std::nested_exception*>(at);
    if (nesting == nullptr || nesting->nested_ptr() == nullptr) break;
    const std::exception_ptr next = nesting->nested_ptr();
    at = nullptr;
    try {
      std::rethrow_exception(next);
    } catch (const std::exception& cause) {
      text += "\ncaused by " + type_text(typeid(cause)) + ": " + cause.what();
      at = &cause;
    } catch (...) {
      text += "\ncaused by something that is not a std::exception";
    }
    held = next;
  }
  return text;
}

// Throws the exception as the type that it had, around the RemoteError; if that cannot be built
// from the bytes, the RemoteError alone.
[[noreturn]] void throw_as(const RegisteredException* known, const RemoteError& error,
                           ArchiveReader& archive) {
  std::exception_ptr made;
  try {
    throw error;
  } catch (const RemoteError&) {
    if (known == nullptr) throw;
    try {
      made = known->make(error.message(), archive);
    } catch (const std::exception&) {  // of the user's constructor, or the bytes are none of ours
    }
    if (!made) throw;
  }
  std::rethrow_exception(made);
}

}  // namespace

wire::Payload write_exception(const std::string& type, const std::string& message,
                              const std::exception* error, BlobStore store) {
  // A text too long for the stream would need shared memory, which may be what failed.
  constexpr std::size_t kLongest = 16 << 10;
  const std::string causes = error == nullptr ? std::string() : causes_of(*error);
  const auto begin = [&](ArchiveWriter& archive, const std::string& symbol) {
    archive(type.substr(0, kLongest), message.substr(0, kLongest), causes.substr(0, kLongest),
            symbol);
  };
  if (error != nullptr) {
    try {
      if (const RegisteredException* known = find_exception(typeid(*error))) {
        ArchiveWriter archive(std::move(store));
        begin(archive, known->symbol());
        known->write(*error, archive);
        return archive.finish();
      }
    } catch (const std::exception&) {  // of the user's `serialize`: the text arrives all the same
    }
  }
  ArchiveWriter archive({});
  begin(archive, "");
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
      std::string causes;
      std::string symbol;
      ArchiveReader archive(outcome.payload, map);
      archive(type, message, causes, symbol);
      const std::string text = type + ": " + message + causes + "\n" +
                               where(outcome, function, task) + last_output(outcome);
      const RegisteredException* known = symbol.empty() ? nullptr : find_exception(symbol);
      throw_as(known, RemoteError(std::move(type), std::move(message), outcome, text), archive);
    }
    case OutcomeStatus::failed: {
      Error error = outcome.error;
      error.message += "\n" + where(outcome, function, task) + last_output(outcome);
      if (error.kind == ErrorKind::lost) {
        if (loss_of(error).preempted) throw PreemptionError(text_of(error));
        throw InstanceTerminatedError(text_of(error));
      }
      if (error.kind == ErrorKind::unreachable) throw ConnectionLostError(text_of(error));
      throw_error(error);
    }
  }
}

std::string failure_line(const Outcome& outcome, const std::string& function, BufferMapper map) {
  std::string text = outcome.error.message;
  if (outcome.status == OutcomeStatus::raised) {
    std::string type;
    std::string message;
    try {
      ArchiveReader archive(outcome.payload, map);
      archive(type, message);
    } catch (const std::exception&) {  // the bytes are none of ours
      type = "an exception that cannot be read";
    }
    text = function + " failed: " + type;
    if (!message.empty()) text += ": " + message;
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace skyward
