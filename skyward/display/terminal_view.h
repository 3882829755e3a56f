#pragma once

// Shows a pool's events at the terminal: display.h with the real clock and the real stderr, for C++
// pools.

#include <cstdint>
#include <memory>

#include "skyward/base/time.h"
#include "skyward/spec/event.h"

namespace skyward {

enum class Display : std::uint8_t {
  log,      // one line per event, and every line that tasks print; the receipt at the end
  spinner,  // what tasks print, above a status line; where no line can be redrawn, `log`
  quiet,    // nothing
};

// Writes to stderr. One thread.
class TerminalView {
 public:
  explicit TerminalView(Display display);
  ~TerminalView();
  TerminalView(const TerminalView&) = delete;
  TerminalView& operator=(const TerminalView&) = delete;

  void show(const Event& event);
  // Redraws what moves; call at least every `pause()`.
  void tick();
  Duration pause() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skyward
