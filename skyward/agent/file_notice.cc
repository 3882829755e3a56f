#include "skyward/agent/file_notice.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/io/file.h"

namespace skyward::agent {

namespace {

constexpr Duration kPause = std::chrono::milliseconds(50);
constexpr std::size_t kMostBytes = 4096;

}  // namespace

std::optional<Announcement> parse_file_notice(std::string_view text) {
  std::int64_t left_ms = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), left_ms);
  if (error != std::errc{} || left_ms < 0) return std::nullopt;
  std::string_view reason(rest, text.data() + text.size());
  while (reason.starts_with(' ')) reason.remove_prefix(1);
  while (reason.ends_with('\n')) reason.remove_suffix(1);
  return Announcement{.left = std::chrono::milliseconds(left_ms), .action = to_utf8(reason)};
}

FileNotice::FileNotice(io::EventLoop& loop, std::string path, PreemptionWatch::OnNotice on_notice)
    : loop_(loop), path_(std::move(path)), on_notice_(std::move(on_notice)) {
  timer_ = loop_.start_timer(io::EventLoop::now(), [this] { look(); });
}

FileNotice::~FileNotice() { loop_.cancel_timer(timer_); }

void FileNotice::look() {
  timer_ = 0;
  const auto text = io::read_file(path_, kMostBytes);
  const auto notice = text ? parse_file_notice(*text) : std::nullopt;
  if (notice) return on_notice_(notice->left, notice->action);
  timer_ = loop_.start_timer(io::EventLoop::now() + kPause, [this] { look(); });
}

}  // namespace skyward::agent
