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

// For sky::init: from now on, an uncaught exception closes what is open first.
void watch_program_end();

// Call it now and then: a handler of the program's own has replaced ours if it was set while
// something was open, and has often left the default behind.
void watch_signals_again();

// Throws CancelledError once the program has begun to end: nothing may be opened any more.
void throw_if_program_ends();

// For tests: how long the program waits for what is open, instead of kProgramEndTimeout.
void set_program_end_timeout(Duration timeout);

// Ends this process by the signal, as if nobody had handled it.
[[noreturn]] void die_of(int number);

class ProgramEnd;

// Something that must end with the program, for as long as this exists. In a forked child it does
// nothing: the original belongs to the parent.
class EndsWithProgram {
 public:
  using End = std::function<void()>;

  // `end` is called at most once, on a thread of its own if the system has one. `hurry` is called
  // for every signal, on another thread; it must not block, and makes a running `end` take no
  // longer than is safe. Neither may throw.
  EndsWithProgram(End end, End hurry);
  // Waits for a running `end`.
  ~EndsWithProgram();
  EndsWithProgram(const EndsWithProgram&) = delete;
  EndsWithProgram& operator=(const EndsWithProgram&) = delete;

  // Call when it is open: exit() then ends it before the objects that opening created are
  // destroyed.
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
