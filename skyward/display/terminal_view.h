#pragma once

// Shows a pool's events to the person at the terminal: the C++ pool's eye on display.h, with the
// real clock and the real stderr.

#include <cstdint>
#include <memory>

#include "skyward/base/time.h"
#include "skyward/spec/event.h"

namespace skyward {

enum class Display : std::uint8_t {
  log,      // one line per event, and every line that tasks print; the receipt at the end
  spinner,  // what tasks print, above one line that says how things stand
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
  // Draws what moves; call at least every `pause()`.
  void tick();
  Duration pause() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skyward
