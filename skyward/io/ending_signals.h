#pragma once

// The signals by which people and systems ask a program to end, for one that has something to do
// first.

#include <functional>
#include <memory>

namespace skyward::io {

inline constexpr int kInterruptSignal = 2;   // SIGINT: Ctrl-C
inline constexpr int kTerminateSignal = 15;  // SIGTERM
inline constexpr int kKillSignal = 9;        // SIGKILL

// From now on, none of them ends this process. Not passed on to the programs that it starts.
void ignore_ending_signals();

// As long as this exists, SIGINT, SIGTERM and SIGHUP do not end the process but are passed to
// `tell`, on a thread of its own. Those that the process ignores stay ignored (nohup).
class EndingSignals {
 public:
  explicit EndingSignals(std::function<void(int number)> tell);
  ~EndingSignals();
  EndingSignals(const EndingSignals&) = delete;
  EndingSignals& operator=(const EndingSignals&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace skyward::io
