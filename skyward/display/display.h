#pragma once

// Events as text for people. Pure: an event and a time go in, text for a terminal or a file comes
// out. The caller reads the environment, determines the width and writes.
//
// A line is "HH:MM:SS source level message", where the source is "pool" or "node 2", behind the
// label of the pool where it has one. On a terminal of less than 60 columns it is "source message",
// with the level before the message if it is not INFO. What tasks print is shown whole and as it
// is; its level is empty for stdout and "stderr" for stderr. Metrics are a line per node every 30
// seconds, the first one after 30 seconds: often enough to see a stuck GPU, too rare to drown the
// output; the cost so far is shown as often. A set-up step is shown once it has taken half a
// second. A pool that costs nothing shows no money, and a local pool no machines.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "skyward/spec/event.h"

namespace skyward {

struct DisplayOptions {
  int width = 80;  // columns
  bool color = false;
  int utc_offset_seconds = 0;  // of the local time at the start of each line
  bool dated = false;          // lines begin with date and time, as in all log files
  bool ascii = false;          // signs of our own are ASCII: what tasks print stays as it is
};

// Facts about the output; variables as they are in the environment.
struct Terminal {
  bool is_tty = false;
  std::optional<std::string> no_color{};     // NO_COLOR
  std::optional<std::string> force_color{};  // FORCE_COLOR
  std::optional<std::string> term{};         // TERM
  std::optional<std::string> lc_all{};       // LC_ALL
  std::optional<std::string> lc_ctype{};     // LC_CTYPE
  std::optional<std::string> lang{};         // LANG
};
// Colour on a terminal that is not dumb; NO_COLOR turns it off everywhere, FORCE_COLOR (not "0") on
// everywhere.
bool wants_color(const Terminal& terminal);
// True where a line can be redrawn in place.
bool can_redraw(const Terminal& terminal);
// True on a terminal whose locale is not one of UTF-8: LANG=C.
bool wants_ascii(const Terminal& terminal);

// One or more whole lines per event, or nothing.
class LogDisplay {
 public:
  explicit LogDisplay(DisplayOptions options) : options_(options) {}

  // `wall_us`: now, in microseconds since 1970. Output and metrics have their own time.
  std::string render(const Event& event, std::int64_t wall_us);

  void set_width(int columns) { options_.width = columns; }
  void set_utc_offset(int seconds) { options_.utc_offset_seconds = seconds; }
  // To tell the lines of several pools apart.
  void set_label(std::string label) { label_ = std::move(label); }
  // What ended the pool, if it was not its program: "KeyboardInterrupt".
  void set_ended_by(std::string what) { ended_by_ = std::move(what); }

  // The lines of steps that have taken long enough by now. Call about every kTickMicroseconds while
  // is_waiting(); otherwise the next render() includes them.
  std::string tick(std::int64_t wall_us);
  bool is_waiting() const { return !steps_.empty(); }
  static constexpr std::int64_t kTickMicroseconds = 250'000;

 private:
  struct Renderer;
  struct Step {
    std::string text;
    std::int64_t since_us = 0;
  };

  DisplayOptions options_;
  std::string label_;
  std::string ended_by_;
  std::set<std::string> local_;  // instance ids
  bool stopping_ = false;
  std::map<std::string, int> nodes_;           // by instance id
  std::map<int, std::int64_t> metrics_since_;  // by node: time of the last line or first sample
  std::map<std::string, Step> steps_;          // by instance id: in progress and not shown yet
  int free_machines_ = 0;                      // that cost nothing
  std::optional<std::int64_t> cost_told_us_{};
  CostFinal cost_{};
};

// A status line at the bottom, redrawn in place; what tasks print goes above it.
class SpinnerDisplay {
 public:
  explicit SpinnerDisplay(DisplayOptions options) : options_(options) {}

  std::string render(const Event& event, std::int64_t wall_us);

  // Redraws the line. Call about every kFrameMicroseconds; empty when there is nothing to draw.
  std::string tick(std::int64_t wall_us);
  static constexpr std::int64_t kFrameMicroseconds = 80'000;

  // Sets the numbers of tasks, which events do not have.
  void set_tasks(std::uint64_t done, std::uint64_t running, std::uint64_t waiting);

  void set_width(int columns) { options_.width = columns; }
  void set_label(std::string label) { label_ = std::move(label); }
  void set_ended_by(std::string what) { ended_by_ = std::move(what); }

 private:
  // Removes the line: before other text is written, or for good.
  std::string clear();
  void follow(const Event& event, std::int64_t wall_us);
  std::string lines_above(const Event& event) const;
  std::string final_line(const PoolStopped& event) const;

  DisplayOptions options_;
  std::string label_;
  std::string ended_by_;
  bool active_ = false;  // between a pool's first event and its last
  bool running_ = false;
  bool closing_ = false;
  bool drawn_ = false;  // the line is on the terminal
  std::string phase_{};
  std::int64_t started_us_ = 0;
  int nodes_wanted_ = 0;
  std::set<std::string> ready_{};  // instance ids
  std::map<int, double> cpu_{};    // per cent, by node
  std::uint64_t tasks_done_ = 0;
  std::uint64_t tasks_running_ = 0;
  std::uint64_t tasks_waiting_ = 0;  // for a slot
  bool saw_error_ = false;
  CostFinal cost_{};
};

}  // namespace skyward
