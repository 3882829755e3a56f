#include "skyward/cli/run_node.h"

#include <chrono>
#include <exception>
#include <span>
#include <utility>

#include "skyward/call/error.h"
#include "skyward/call/sendable.h"
#include "skyward/cli/commands.h"
#include "skyward/display/display_text.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/machine.h"
#include "skyward/pool/stream.h"

namespace skyward::cli {

namespace {

using run::Piece;
using run::PieceKind;

constexpr int kOutput = 1;
constexpr int kError = 2;
// Where the reader of a stream that does not block is slow.
constexpr Duration kWritePause = std::chrono::milliseconds(10);

// It may name files of a node.
std::string told(const std::string& line) { return "skyward: " + printable_text(line) + "\n"; }

}  // namespace

bool RunTerminal::write(int stream, std::string_view bytes) {
  const std::scoped_lock lock(stream == kOutput ? out_mutex_ : err_mutex_);
  std::span<const std::byte> left = std::as_bytes(std::span(bytes));
  while (!left.empty()) {
    const auto count = io::write_part(stream, left);
    if (!count) {
      if (stream == kOutput) broken_ = true;
      return false;
    }
    if (*count == 0) io::pause_thread(kWritePause);
    left = left.subspan(*count);
  }
  return true;
}

void RunTerminal::tell(const std::string& line) { write(kError, told(line)); }

void RunTerminal::tell_now(const std::string& line) {
  const std::unique_lock lock(err_mutex_, std::try_to_lock);
  if (!lock || !io::can_write_now(kError)) return;
  const std::string text = told(line);
  (void)io::write_part(kError, std::as_bytes(std::span(text)));
}

RunNode::RunNode(RunShared& shared, Handle handle, std::string prefix, std::string output)
    : shared_(shared),
      handle_(std::move(handle)),
      prefix_(std::move(prefix)),
      results_(std::move(output), [this](const std::string& line) { tell(line); }),
      out_(prefix_),
      err_(prefix_) {}

CommandState RunNode::state() const {
  const std::scoped_lock lock(shared_.mutex);
  return state_;
}

void RunNode::update(const std::function<void(CommandState&)>& change) {
  const std::scoped_lock lock(shared_.mutex);
  change(state_);
  shared_.changed.notify_all();
}

void RunNode::tell(const std::string& line) { shared_.terminal.tell(prefix_ + line); }

void RunNode::read() {
  std::optional<std::string> why;
  try {
    read_all();
  } catch (const std::exception& error) {
    why = in_options(error.what());
  }
  if (!prefix_.empty()) {
    shared_.terminal.write(kOutput, out_.finish());
    shared_.terminal.write(kError, err_.finish());
  }
  if (why && !cancelled_) tell(*why);
  results_.tell_end(why.has_value());
  update([&](CommandState& state) {
    state.why = why;
    state.incomplete = !results_.is_complete();
    state.done = true;
    if (!why || cancelled_ || shared_.first_code != 0) return;
    shared_.first_code = kRunFailed;
    shared_.failed_first = true;
  });
}

void RunNode::read_all() {
  Stream<Piece> pieces(handle_, "run");  // cancels the task if this throws
  while (const auto piece = pieces.next()) take(*piece);
  if (Status ended = results_.finish(); !ended) throw_error(ended.error());
}

void RunNode::take(const Piece& piece) {
  switch (piece.kind) {
    case PieceKind::begun:
      return update([](CommandState& state) { state.begun = true; });
    case PieceKind::out:
      return pass_on(kOutput, piece.bytes);
    case PieceKind::err:
      return pass_on(kError, piece.bytes);
    case PieceKind::ended:
      return take_end(piece);
    case PieceKind::directory:
    case PieceKind::link:
    case PieceKind::file:
    case PieceKind::data:
    case PieceKind::note:
    case PieceKind::left_out:
      if (Status taken = results_.take(piece); !taken) throw_error(taken.error());
      return;
  }
  throw SerializationError("the node sent a piece of an unknown kind");
}

void RunNode::pass_on(int stream, std::string_view bytes) {
  if (prefix_.empty()) {
    shared_.terminal.write(stream, bytes);
  } else {
    shared_.terminal.write(stream, (stream == kOutput ? out_ : err_).add(bytes));
  }
  if (shared_.terminal.is_broken()) shared_.changed.notify_all();
}

void RunNode::take_end(const Piece& piece) {
  if (!piece.bytes.empty()) tell(piece.bytes);
  const int code = exit_code_of(piece.code, piece.signal);
  update([&](CommandState& state) {
    state.begun = true;
    state.code = code;
    if (shared_.first_code == 0) shared_.first_code = code;
  });
}

}  // namespace skyward::cli
