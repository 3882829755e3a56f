#pragma once

// Tasks with news, for the thread that hands over answers.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "bindings.h"
#include "groups.h"
#include "skyward/pool/pool.h"

namespace skyward::python {

// Tasks that have ended, and groups of which results have come, by the number under which they
// were watched. The engine's thread puts them in, one Python thread takes them out: the engine
// never needs the GIL.
class Completions {
 public:
  void watch(Handle& handle, std::uint64_t token);
  // Under this number and those that follow.
  void watch_all(const std::vector<Handle*>& handles, std::uint64_t first);
  // Its number comes whenever it has news.
  void watch_group(Group& group, std::uint64_t token);
  void close();
  // Waits. Empty when closed and all were taken.
  std::vector<std::uint64_t> next();
  // Waits for some, in a thread that Ctrl-C may interrupt.
  std::vector<std::uint64_t> wait();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::uint64_t> tokens;
    bool closed = false;
  };
  // Shared with the callbacks of tasks that outlive this object.
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

void bind_completions(nb::module_& module);

}  // namespace skyward::python
