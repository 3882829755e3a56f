#pragma once

// Pools end with their program, however it ends: by an exception that nothing catches, by exit(),
// or by SIGINT, SIGTERM or SIGHUP where the program has no handler of its own for them. The program
// then ends as it would have ended, at most kProgramEndTimeout later.
//
// In Python, SIGINT is Python's: it raises KeyboardInterrupt (python/src/bindings.h), and leaving
// the block closes the pool (python/skyward/pool/compute_pool.py).

#include <chrono>
#include <functional>
#include <list>

#include "skyward/base/time.h"

namespace skyward {

// For sky::init: from now on, uncaught exceptions end what is open first.
void watch_program_end();

// Throws CancelledError once the program has begun to end: nothing is opened any more.
void throw_if_program_ends();

class ProgramEnd;

// Something that must end with the program, for as long as this lives. In a forked child it is
// nothing: there it is the parent's.
class EndsWithProgram {
 public:
  using End = std::function<void()>;

  // `end` is called once at most, on a thread of its own. `hurry` is called for every signal, on
  // another one, and must not wait: an end that is under way shall take no longer than is safe.
  // Neither may throw.
  EndsWithProgram(End end, End hurry);
  // Waits for an `end` that has been called.
  ~EndsWithProgram();
  EndsWithProgram(const EndsWithProgram&) = delete;
  EndsWithProgram& operator=(const EndsWithProgram&) = delete;

  // It is open now: exit() shall end it before what opening has made is destroyed.
  void note_open();

 private:
  friend class ProgramEnd;
  const End end_;
  const End hurry_;
  ProgramEnd& program_;
  bool called_ = false;
  bool returned_ = false;
  std::list<EndsWithProgram*>::iterator place_;
};

}  // namespace skyward
