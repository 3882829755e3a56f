#pragma once

// A program of MPI that runs for a world, with all that it starts, in a session of its own. Its
// output goes to a file.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/process.h"

namespace skyward::mpi {

class WorldChild {
 public:
  struct Options {
    std::string name{};  // for people
    std::vector<std::string> command{};
    std::map<std::string, std::string> environment{};
    std::string log{};
  };
  // `on_exit` may destroy the child.
  static Result<std::unique_ptr<WorldChild>> start(io::EventLoop& loop, Options options,
                                                   std::function<void()> on_exit);
  ~WorldChild();
  WorldChild(const WorldChild&) = delete;
  WorldChild& operator=(const WorldChild&) = delete;

  bool has_ended() const { return status_.has_value(); }
  void ask_to_end();
  // "mpirun ended (status 1); it wrote last: …".
  std::string how_it_ended() const;
  // The last lines of its log, as the end of a sentence.
  std::string tail() const;

 private:
  explicit WorldChild(Options options) : options_(std::move(options)) {}

  const Options options_;
  std::optional<io::ExitStatus> status_;
  std::unique_ptr<io::Process> process_;
};

}  // namespace skyward::mpi
