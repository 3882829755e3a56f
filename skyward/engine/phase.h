#pragma once

// The phases of a pool, and which may follow which. Every failure leads through `closing`, so
// clean-up is guaranteed:
//
//     idle → offering → preparing → provisioning → starting → running → closing → terminating →
//     removing → closed
//
// A region without capacity: → offering again, → moving (what was prepared there is removed) →
// preparing, in another region. Machines that are found when what they shared cannot be removed:
// → terminating again, once.

#include <cstdint>
#include <string_view>

namespace skyward::engine {

enum class Phase : std::uint8_t {
  idle,
  offering,      // the provider lists what it sells
  moving,        // what was prepared in the previous region is removed
  preparing,     // shared resources are created: a network, a key
  provisioning,  // machines are requested
  starting,      // machines have launched; their agents set up the nodes
  running,       // tasks run
  closing,       // agents exit, and pending requests to the provider finish
  terminating,   // machines end
  removing,      // what the machines shared is removed
  closed,
};

// The one table of transitions.
constexpr bool may_follow(Phase from, Phase to) {
  using enum Phase;
  switch (from) {
    case idle:
      return to == offering || to == closed;
    case offering:
      return to == preparing || to == moving || to == closing;
    case moving:
      return to == preparing || to == closing;
    case preparing:
      return to == provisioning || to == offering || to == closing;
    case provisioning:
      return to == starting || to == offering || to == closing;
    case starting:
      return to == running || to == closing;
    case running:
      return to == closing;
    case closing:
      return to == terminating;
    case terminating:
      return to == removing;
    case removing:
      return to == closed || to == terminating;
    case closed:
      return false;
  }
  return false;
}

// Opened, but not ready yet.
constexpr bool is_opening(Phase phase) {
  using enum Phase;
  return phase == offering || phase == moving || phase == preparing || phase == provisioning ||
         phase == starting;
}

// The pool is closing or closed.
constexpr bool is_closing(Phase phase) {
  using enum Phase;
  return phase == closing || phase == terminating || phase == removing || phase == closed;
}

// The machines have launched.
constexpr bool has_machines(Phase phase) {
  return phase == Phase::starting || phase == Phase::running;
}

std::string_view name(Phase phase);

// A pool's phase: reads as a Phase; only set() changes it.
class CheckedPhase {
 public:
  operator Phase() const { return phase_; }
  // CHECKs that `next` may follow.
  void set(Phase next);

 private:
  Phase phase_ = Phase::idle;
};

}  // namespace skyward::engine
