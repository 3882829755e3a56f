#pragma once

// From the raw bytes of a worker's pipe to lines that belong to tasks. One splitter per pipe.
//
// A newline ends a line. A carriage return that no newline follows starts the line over, as
// progress bars do: such a bar is told at most every kProgressInterval, and its last state always.
// Lines over kMaxLineBytes are cut, bytes that are not UTF-8 become U+FFFD. A mark in the stream
// (wire/worker_protocol.h) ends the output of one task and names the next. Pure: bytes and time
// come in, lines go out.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/bytes.h"
#include "skyward/base/time.h"
#include "skyward/wire/message.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::agent {

using OutputMark = std::array<char, 8>;

class OutputSplitter {
 public:
  OutputSplitter(wire::OutputStream stream, std::uint32_t worker, const OutputMark& mark);

  // When bytes were read, for the lines and for the pace of progress bars.
  struct Stamp {
    Time now;
    std::int64_t wall_us = 0;
  };
  void feed(ByteView bytes, Stamp stamp, std::vector<wire::OutputLine>& lines);

  // What follows belongs to the task, which an idle worker was just given.
  void begin(TaskId task) { task_ = task; }
  // The task has ended and all that it wrote was fed: its last line goes out, terminated or not.
  // Nothing happens when a mark has begun the next task already.
  void end(TaskId task, Stamp stamp, std::vector<wire::OutputLine>& lines);
  // The worker is gone: the same for whatever was written last.
  void finish(Stamp stamp, std::vector<wire::OutputLine>& lines);

  TaskId task() const { return task_; }

 private:
  void append(std::string_view text, Stamp stamp, std::vector<wire::OutputLine>& lines);
  void carriage_return(Stamp stamp, std::vector<wire::OutputLine>& lines);
  void end_line(Stamp stamp, std::vector<wire::OutputLine>& lines);
  void flush(Stamp stamp, std::vector<wire::OutputLine>& lines);
  void emit(std::string_view text, Stamp stamp, std::vector<wire::OutputLine>& lines) const;

  const wire::OutputStream stream_;
  const std::uint32_t worker_;
  const OutputMark mark_;
  TaskId task_;
  std::string held_;              // a beginning of a mark, until more is known
  std::string line_;              // being built
  bool returned_ = false;         // the last byte was a carriage return
  std::string progress_;          // last state of a progress bar, not told yet
  Time progress_since_ = kNever;  // when the bar began or was last told
};

// `text` with every byte that does not belong to valid UTF-8 replaced by U+FFFD, as Python's
// errors="replace" does.
std::string to_utf8(std::string_view text);

}  // namespace skyward::agent
