#pragma once

// An engine that answers podman's and docker's commands as 4.3 and 28 do, on virtual time. A word
// that it does not know is a violation.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doubles/command_reply.h"
#include "skyward/base/time.h"

namespace skyward::doubles {

struct EngineContainer {
  std::string name{};
  std::string state = "running";
  std::string image{};
  std::map<std::string, std::string> options{};  // of `run`, without labels: "--cpus" → "2.00"
  std::map<std::string, std::string> labels{};
  std::string script{};  // that its shell runs
};

class ContainerEngine {
 public:
  using Words = std::vector<std::string>;

  CommandReply run(const Words& words);

  // From outside: what `--rm` does follows.
  void kill(const std::string& name);
  int standing() const { return static_cast<int>(containers.size()); }

  std::string runtime = "podman";
  std::set<std::string> images{"python:3.x"};
  std::set<std::string> registry{};  // what can be pulled
  std::set<std::string> networks{"lab"};
  std::vector<std::string> gpus{};  // as nvidia-smi lists them
  bool has_cdi = true;
  // What goes wrong.
  bool off = false;           // the daemon does not run
  bool forbidden = false;     // its socket is another user's
  bool is_docker_27 = false;  // of which `info` ends with 0 all the same
  bool rm_is_late = false;    // docker removes the container already
  bool is_alias = false;      // docker's name runs podman
  bool lose_reply = false;    // obeyed, and the connection breaks: every second command
  bool breaks = false;        // not obeyed, and the connection breaks: every second command
  std::string refusal{};      // of the next `run`: what it says
  std::string no_pull{};      // of each `pull`: why
  // Before and after each command, by number. Whatever it throws passes through run().
  std::function<void(int number, bool after)> on_request{};
  int requests = 0;
  std::vector<EngineContainer> containers{};
  std::vector<std::string> violations{};

 private:
  CommandReply violate(const std::string& what);
  CommandReply refused(const std::string& why, int code) const;
  CommandReply answer(const Words& words);
  CommandReply start(const Words& words);
  CommandReply list(const Words& words);
  CommandReply inspect(const Words& words);
  CommandReply remove(const Words& words);
  CommandReply images_and_networks(const Words& words);
  CommandReply broken() const;
  EngineContainer* find(const std::string& name);
};

}  // namespace skyward::doubles
