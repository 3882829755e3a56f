#pragma once

// kubectl's commands, for the Kubernetes double on virtual time: what 1.20 and 1.32 ask the API
// server, and what they print, as far as both agree. A word that it does not know is a violation.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doubles/command_reply.h"
#include "doubles/kubernetes.h"

namespace skyward::doubles {

class Kubectl {
 public:
  using Words = std::vector<std::string>;

  // The cluster outlives this. `sleep`: kubectl itself waits when it asks too fast.
  Kubectl(Kubernetes& cluster, std::function<Time()> now, std::function<void(Duration)> sleep)
      : cluster_(cluster), now_(std::move(now)), sleep_(std::move(sleep)) {}

  CommandReply run(const Words& words, std::string_view input);

  // Its one context, which is the current one.
  std::string context = "x1";
  std::string name_space = "default";

 private:
  // A command, taken apart.
  struct Command {
    Words words{};                               // "get", "pods", names
    std::map<std::string, std::string> flags{};  // with their values; "" without
    std::string space{};
  };

  CommandReply violate(const std::string& what);
  io::HttpReply ask(const std::string& method, const std::string& path, const Json& body = nullptr);
  CommandReply view() const;
  CommandReply get(const Command& command);
  CommandReply get_named(const Command& command);
  CommandReply create(const Command& command, std::string_view input);
  CommandReply remove(const Command& command);

  Kubernetes& cluster_;
  const std::function<Time()> now_;
  const std::function<void(Duration)> sleep_;
};

}  // namespace skyward::doubles
