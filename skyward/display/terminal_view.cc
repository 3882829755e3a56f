#include "skyward/display/terminal_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <variant>

#include "skyward/display/display.h"
#include "skyward/io/event_loop.h"

namespace skyward {
namespace {

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

int utc_offset_seconds(std::int64_t wall_us) {
  const std::time_t now = wall_us / 1'000'000;
  std::tm local{};
  return localtime_r(&now, &local) == nullptr ? 0 : static_cast<int>(local.tm_gmtoff);
}

int terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return DisplayOptions{}.width;
  return size.ws_col;
}

}  // namespace

struct TerminalView::Impl {
  std::variant<std::monostate, LogDisplay, SpinnerDisplay> display;
};

TerminalView::TerminalView(Display display) : impl_(std::make_unique<Impl>()) {
  const Terminal terminal{.is_tty = isatty(STDERR_FILENO) == 1,
                          .no_color = variable("NO_COLOR"),
                          .force_color = variable("FORCE_COLOR"),
                          .term = variable("TERM"),
                          .lc_all = variable("LC_ALL"),
                          .lc_ctype = variable("LC_CTYPE"),
                          .lang = variable("LANG")};
  const DisplayOptions options{
      .width = terminal_width(), .color = wants_color(terminal), .ascii = wants_ascii(terminal)};
  if (display == Display::spinner && can_redraw(terminal)) {
    impl_->display = SpinnerDisplay(options);
  } else if (display != Display::quiet) {
    impl_->display = LogDisplay(options);
  }
}

TerminalView::~TerminalView() = default;

void TerminalView::show(const Event& event) {
  const std::int64_t now = io::EventLoop::wall_us();
  std::string text;
  if (auto* log = std::get_if<LogDisplay>(&impl_->display)) {
    if (std::holds_alternative<PoolStopped>(event)) log->set_width(terminal_width());
    log->set_utc_offset(utc_offset_seconds(now));
    text = log->render(event, now);
  }
  if (auto* spinner = std::get_if<SpinnerDisplay>(&impl_->display)) {
    spinner->set_width(terminal_width());
    text = spinner->render(event, now);
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
}

void TerminalView::tick() {
  const std::int64_t now = io::EventLoop::wall_us();
  std::string text;
  if (auto* log = std::get_if<LogDisplay>(&impl_->display)) text = log->tick(now);
  if (auto* spinner = std::get_if<SpinnerDisplay>(&impl_->display)) {
    spinner->set_width(terminal_width());
    text = spinner->tick(now);
  }
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Duration TerminalView::pause() const {
  if (std::holds_alternative<SpinnerDisplay>(impl_->display)) {
    return std::chrono::microseconds(SpinnerDisplay::kFrameMicroseconds);
  }
  const auto* log = std::get_if<LogDisplay>(&impl_->display);
  if (log == nullptr || !log->is_waiting()) return std::chrono::hours(1);
  return std::chrono::microseconds(LogDisplay::kTickMicroseconds);
}

}  // namespace skyward
