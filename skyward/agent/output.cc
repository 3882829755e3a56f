#include "skyward/agent/output.h"

#include <algorithm>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

// Where to cut a line of too many bytes: not inside a UTF-8 sequence.
std::size_t cut_length(std::string_view text, std::size_t limit) {
  std::size_t cut = limit;
  while (cut > limit - 4 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
  return cut > limit - 4 ? cut : limit;
}

// The line's length without what moves the cursor up at its end: "\x1b[A", "\x1b[2A".
std::size_t without_cursor_up(std::string_view line) {
  while (line.ends_with('A')) {
    std::string_view rest = line.substr(0, line.size() - 1);
    while (!rest.empty() && is_digit(rest.back())) rest.remove_suffix(1);
    if (!rest.ends_with("\x1b[")) break;
    line = rest.substr(0, rest.size() - 2);
  }
  return line.size();
}

}  // namespace

OutputSplitter::OutputSplitter(wire::OutputStream stream, std::uint32_t worker,
                               const OutputMark& mark)
    : stream_(stream), worker_(worker), mark_(mark) {}

void OutputSplitter::feed(ByteView bytes, Stamp stamp, std::vector<wire::OutputLine>& lines) {
  std::string joined;
  std::string_view text = as_text(bytes);
  if (!held_.empty()) {
    joined = std::exchange(held_, {});
    joined.append(text);
    text = joined;
  }
  const std::string_view mark(mark_.data(), mark_.size());
  while (!text.empty()) {
    const std::size_t start = std::min(text.find(mark[0]), text.size());
    append(text.substr(0, start), stamp, lines);
    text.remove_prefix(start);
    if (text.empty()) return;
    const std::size_t known = std::min(mark.size(), text.size());
    if (text.substr(0, known) != mark.substr(0, known)) {
      append(text.substr(0, 1), stamp, lines);
      text.remove_prefix(1);
    } else if (text.size() < wire::kWorkerMarkBytes) {
      held_ = text;
      return;
    } else {
      flush(stamp, lines);
      std::uint64_t id = 0;
      std::memcpy(&id, text.data() + mark.size(), sizeof id);
      task_ = TaskId{id};
      text.remove_prefix(wire::kWorkerMarkBytes);
    }
  }
}

void OutputSplitter::end(TaskId task, Stamp stamp, std::vector<wire::OutputLine>& lines) {
  if (task_ == task) finish(stamp, lines);
}

void OutputSplitter::finish(Stamp stamp, std::vector<wire::OutputLine>& lines) {
  const std::string held = std::exchange(held_, {});
  append(held, stamp, lines);
  flush(stamp, lines);
  task_ = TaskId{};
}

void OutputSplitter::append(std::string_view text, Stamp stamp,
                            std::vector<wire::OutputLine>& lines) {
  moved_at_ = stamp.now;
  while (!text.empty()) {
    if (text.front() == '\n') {
      // tqdm draws a bar below others as "\n\r50%\x1b[A": a newline moves down to it.
      if (without_cursor_up(line_) < line_.size()) {
        carriage_return(stamp, lines);
        moves_down_ = true;
      } else if (!moves_down_) {
        end_line(stamp, lines);
      }
      text.remove_prefix(1);
      continue;
    }
    moves_down_ = false;
    if (returned_) carriage_return(stamp, lines);
    if (text.front() == '\r') {
      returned_ = true;
      text.remove_prefix(1);
      continue;
    }
    const auto ends = [](char c) { return c == '\n' || c == '\r'; };  // find_first_of is slow
    const auto stop = std::find_if(text.begin(), text.end(), ends) - text.begin();
    line_.append(text.substr(0, static_cast<std::size_t>(stop)));
    is_told_ = false;
    text.remove_prefix(static_cast<std::size_t>(stop));
    while (line_.size() > kMaxLineBytes) {
      const std::size_t cut = cut_length(line_, kMaxLineBytes);
      emit(std::string_view(line_).substr(0, cut), stamp, lines);
      line_.erase(0, cut);
    }
  }
}

// What the line holds is one state of a progress bar; the next is about to be written over it.
void OutputSplitter::carriage_return(Stamp stamp, std::vector<wire::OutputLine>& lines) {
  returned_ = false;
  is_bar_ = true;
  line_.resize(without_cursor_up(line_));
  if (std::exchange(is_told_, false)) line_.clear();
  if (line_.empty()) return;
  progress_ = std::exchange(line_, {});
  if (progress_since_ == kNever) progress_since_ = stamp.now;
  if (stamp.now - progress_since_ < kProgressInterval) return;
  emit(std::exchange(progress_, {}), stamp, lines);
  progress_since_ = stamp.now;
}

void OutputSplitter::end_line(Stamp stamp, std::vector<wire::OutputLine>& lines) {
  // "50%\r100%\r\n": the newline shows what the line holds; an empty one over a bar shows the bar's
  // last state.
  const bool after_bar = progress_since_ != kNever;
  line_.resize(without_cursor_up(line_));
  if (!line_.empty()) {
    if (!is_told_) emit(line_, stamp, lines);
  } else if (!progress_.empty()) {
    emit(progress_, stamp, lines);
  } else if (!after_bar) {
    emit("", stamp, lines);
  }
  line_.clear();
  progress_.clear();
  progress_since_ = kNever;
  returned_ = is_bar_ = is_told_ = false;
}

Time OutputSplitter::due() const {
  const bool is_unreported =
      line_.empty() ? !progress_.empty() : (is_bar_ || returned_) && !is_told_;
  return is_unreported ? moved_at_ + kProgressInterval : kNever;
}

void OutputSplitter::tick(Stamp stamp, std::vector<wire::OutputLine>& lines) {
  if (stamp.now < due()) return;
  const std::string state = std::exchange(progress_, {});
  if (line_.empty()) {
    emit(state, stamp, lines);
  } else {
    const std::string_view shown = std::string_view(line_).substr(0, without_cursor_up(line_));
    if (!shown.empty()) emit(shown, stamp, lines);
    is_told_ = true;
  }
  progress_since_ = stamp.now;
}

void OutputSplitter::flush(Stamp stamp, std::vector<wire::OutputLine>& lines) {
  if (!line_.empty() || !progress_.empty()) end_line(stamp, lines);
  progress_since_ = kNever;
  returned_ = is_bar_ = is_told_ = moves_down_ = false;
}

void OutputSplitter::emit(std::string_view text, Stamp stamp,
                          std::vector<wire::OutputLine>& lines) const {
  const auto add = [&](std::string piece) {
    lines.push_back({.task = task_,
                     .worker = worker_,
                     .stream = stream_,
                     .wall_us = stamp.wall_us,
                     .text = std::move(piece)});
  };
  std::string rest = to_utf8(text);  // three bytes for each one that is not UTF-8
  while (rest.size() > kMaxLineBytes) {
    const std::size_t cut = cut_length(rest, kMaxLineBytes);
    add(rest.substr(0, cut));
    rest.erase(0, cut);
  }
  add(std::move(rest));
}

}  // namespace skyward::agent
