#pragma once

// From the raw bytes of a worker's pipe to lines that belong to tasks. One splitter per pipe.
//
// A newline ends a line. A carriage return that no newline follows starts the line over, as
// progress bars do: such a bar is reported at most every kProgressInterval, and always when it has
// not moved for that long, or has ended. Lines over kMaxLineBytes are cut, bytes that are not UTF-8
// become U+FFFD. A mark in the stream (wire/worker_protocol.h) ends the output of one task and
// names the next. Pure: bytes and time come in, lines go out.

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

  // When bytes were read, for the lines and for the interval of progress bars.
  struct Stamp {
    Time now;
    std::int64_t wall_us = 0;
  };
  void feed(ByteView bytes, Stamp stamp, std::vector<wire::OutputLine>& lines);

  // When a progress bar that does not move any more is to be reported, if it has not been.
  Time due() const;
  void tick(Stamp stamp, std::vector<wire::OutputLine>& lines);

  // From here on, output belongs to this task, which was just sent to an idle worker.
  void begin(TaskId task) { task_ = task; }
  // The task has ended and all its output was fed: emits its last line, terminated or not. Does
  // nothing if a mark has begun the next task already.
  void end(TaskId task, Stamp stamp, std::vector<wire::OutputLine>& lines);
  // The worker has exited: the same for its last output.
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
  std::string held_;              // what may be the beginning of a mark
  std::string line_;              // being built
  bool returned_ = false;         // the last byte was a carriage return
  bool is_bar_ = false;           // the line stands after a carriage return
  bool is_told_ = false;          // ... and was reported as it is
  Time moved_at_{};               // when bytes came last
  bool moves_down_ = false;       // newlines lead from one bar to another below it
  std::string progress_;          // last state of a progress bar, not reported yet
  Time progress_since_ = kNever;  // when the bar began or was last reported
};

}  // namespace skyward::agent
