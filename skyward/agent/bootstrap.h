#pragma once

// Runs the bootstrap script of a node. The script is never in a file or on a command line: bash
// reads it from a memfd. It reports its steps as lines on descriptor 3: "begin NAME" when one
// starts (optional) and "NAME" when it is done; "worker NAME=VALUE" sets a variable of the workers,
// "say TEXT" tells the user something, and "alive PATH" names a file that the agent touches every
// few seconds from then on.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/agent/core.h"
#include "skyward/agent/output.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/process.h"
#include "skyward/wire/message.h"

namespace skyward::agent {

class BootstrapProcess {
 public:
  struct Events {
    std::function<void(const std::string& line)> on_step;
    std::function<void(const BootstrapEnd&)> on_end;  // the last call
  };
  // Starts the script at once; reports a failure to start as on_end, later.
  BootstrapProcess(io::EventLoop& loop, const wire::Configure& configure, Events events);
  ~BootstrapProcess();
  BootstrapProcess(const BootstrapProcess&) = delete;
  BootstrapProcess& operator=(const BootstrapProcess&) = delete;

  // Sends SIGKILL to all its processes.
  void kill();

 private:
  Status start(const wire::Configure& configure);
  void read_steps();
  void read_output();
  void remember(std::vector<wire::OutputLine> lines);
  void end(const io::ExitStatus& status);

  io::EventLoop& loop_;
  Events events_;
  std::shared_ptr<bool> alive_;  // shared with a posted call
  io::FileDescriptor steps_;
  io::FileDescriptor output_;
  OutputSplitter step_splitter_;
  OutputSplitter output_splitter_;
  std::string failed_command_;
  std::vector<std::string> lines_;
  std::unique_ptr<io::Process> process_;
};

}  // namespace skyward::agent
