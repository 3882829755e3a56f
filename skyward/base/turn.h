#pragma once

// A core is in a turn from the event to the last of its effects. The loop, which performs the
// effects, calls the core again only after the turn: inside of it, the state may be half changed.

#include "skyward/base/check.h"

namespace skyward {

// Of one core.
class Turns {
 public:
  // Runs `step`, which calls the core. Debug builds abort inside another turn.
  template <typename Step>
  decltype(auto) take(Step&& step) {
    const Turn turn(*this);
    return step();
  }

 private:
  class Turn {
   public:
    explicit Turn(Turns& turns) : turns_(turns) {
#ifndef NDEBUG
      SKYWARD_CHECK(!turns_.in_turn_, "an effect has called back into its core");
#endif
      turns_.in_turn_ = true;
    }
    ~Turn() { turns_.in_turn_ = false; }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Turns& turns_;
  };

  bool in_turn_ = false;
};

}  // namespace skyward
