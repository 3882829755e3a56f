#pragma once

// Watches for a file whose appearance says that this machine will be taken away: the notice of
// clouds that are played on this very computer (provider/fake).

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/agent/preemption_watch.h"
#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"

namespace skyward::agent {

// Configure::preemption is this word and the file's path, from where the agent stands.
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
