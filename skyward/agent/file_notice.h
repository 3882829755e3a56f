#pragma once

// Watches for a file that announces the preemption of this machine: the notice of clouds that are
// simulated on this computer (provider/fake).

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/agent/preemption_watch.h"
#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"

namespace skyward::agent {

// Configure::preemption is this prefix and the file's path, relative to the agent's directory.
inline constexpr std::string_view kFileNotice = "file:";

// "30000 why": the milliseconds that are left, and a reason. Empty for anything else.
std::optional<Announcement> parse_file_notice(std::string_view text);

class FileNotice {
 public:
  // `on_notice` is called once, on the loop.
  FileNotice(io::EventLoop& loop, std::string path, PreemptionWatch::OnNotice on_notice);
  ~FileNotice();
  FileNotice(const FileNotice&) = delete;
  FileNotice& operator=(const FileNotice&) = delete;

 private:
  void look();

  io::EventLoop& loop_;
  const std::string path_;
  const PreemptionWatch::OnNotice on_notice_;
  io::EventLoop::TimerId timer_ = 0;
};

}  // namespace skyward::agent
