#include "skyward/display/display.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <variant>

#include "skyward/base/overloaded.h"
#include "skyward/base/text.h"
#include "skyward/display/display_text.h"

namespace skyward {

namespace {

constexpr std::int64_t kMetricsEveryMicroseconds = 30'000'000;
constexpr std::int64_t kTellStepAfterMicroseconds = 500'000;
constexpr std::string_view kInfo = "INFO";
constexpr std::string_view kWarning = "WARNING";
constexpr std::string_view kError = "ERROR";
constexpr std::string_view kWarningLevel = "warning";  // of a Notice

// As events have them of the local provider.
constexpr std::string_view kLocal = "local";
constexpr std::string_view kThisMachine = "localhost";

// Machines that are there already: they are not launched.
bool is_reached(std::string_view provider_or_region) {
  return provider_or_region == "ssh" || provider_or_region == "command" ||
         provider_or_region == "commands";
}

// Also when the clock has been set back.
bool has_passed(std::int64_t microseconds, std::int64_t since_us, std::int64_t now_us) {
  return now_us - since_us >= microseconds || now_us < since_us;
}

constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kRed = "\x1b[31m";
constexpr std::string_view kGreen = "\x1b[32m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kCyan = "\x1b[36m";
constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kWipe = "\r\x1b[K";  // to the line's begin, and all on it away

std::string_view without_trailing_blanks(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \t\r\n\v\f");
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 1);
}

std::string painted(std::string_view text, std::string_view color, const DisplayOptions& options) {
  if (!options.color || color.empty()) return std::string(text);
  return fmt::format("{}{}{}", color, text, kPlain);
}

std::string clock_text(std::int64_t wall_us, int utc_offset_seconds) {
  const std::int64_t day = 86400;
  const std::int64_t s = ((wall_us / 1'000'000 + utc_offset_seconds) % day + day) % day;
  return fmt::format("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

// "$12.50"; of little money more digits.
std::string cents_text(double dollars) {
  return dollars < 0.1 ? money_text(dollars) : fmt::format("${:.2f}", dollars);
}

// "2 spot + 1 on-demand", without the part that is none.
std::string kinds_text(int spot, int on_demand) {
  if (spot == 0) return fmt::format("{} on-demand", on_demand);
  if (on_demand == 0) return fmt::format("{} spot", spot);
  return fmt::format("{} spot + {} on-demand", spot, on_demand);
}

std::string metrics_text(const Metrics& event) {
  std::string out = fmt::format("cpu {:.0f}%, mem {:.1f}/{:.1f} GiB", event.cpu_percent,
                                event.memory_used_mb / 1024, event.memory_total_mb / 1024);
  if (event.gpu_utilization) out += fmt::format(", gpu {:.0f}%", *event.gpu_utilization);
  if (event.gpu_memory_used_mb && event.gpu_memory_total_mb) {
    out += fmt::format(" {:.1f}/{:.1f} GiB", *event.gpu_memory_used_mb / 1024,
                       *event.gpu_memory_total_mb / 1024);
  }
  return out;
}

// What a node is at once this step is done; the steps are told when they are. Empty: it is told
// another way.
std::string_view under_way_after(std::string_view step) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNext = {
      {{"uv", "installing system packages"},
       {"apt", "installing Python packages"},
       {"deps", "mounting volumes, unpacking modules"},
       {"volumes", "unpacking modules"},
       {"skyward", "starting workers"},
       {"server", ""}}};
  const auto* found = std::ranges::find(kNext, step, &decltype(kNext)::value_type::first);
  return found == kNext.end() ? "setting up the image" : found->second;
}

std::string warning_text(const RegionAutoSelected& e) {
  return fmt::format("{} is not available in {}, using {}", e.instance_type, e.requested_region,
                     e.selected_region);
}
std::string warning_text(const InstancePreempted& e) {
  const std::string when = e.seconds_left > 0
                               ? fmt::format("will be preempted in {:.0f} s", e.seconds_left)
                               : std::string("was preempted");
  return fmt::format("{} {}: {}", e.instance_id, when, e.reason);
}
std::string warning_text(const InstanceReplaced& e) {
  return fmt::format("{} replaced by {} (attempt {})", e.old_instance_id, e.new_instance_id,
                     e.attempt);
}
std::string warning_text(const BudgetWarning& e) {
  return fmt::format("{} of {} spent; at ${:.4g}/hr, the pool stops starting tasks in {}",
                     cents_text(e.spent), cents_text(e.budget), e.hourly_rate,
                     duration_text(e.seconds_left));
}

// When it happened: a slow consumer may be shown it much later.
std::int64_t time_of(const Event& event, std::int64_t now_us) {
  double timestamp = 0;
  if (const auto* line = std::get_if<LogLine>(&event)) timestamp = line->timestamp;
  if (const auto* metrics = std::get_if<Metrics>(&event)) timestamp = metrics->timestamp;
  return timestamp > 0 ? to_wall_us(timestamp) : now_us;
}

// Where nothing is installed, the environment is none.
bool is_nothing(double seconds) { return seconds < 0.005; }

std::uint64_t task_count(const PoolStopped& event, std::uint64_t NodeReceipt::* which) {
  std::uint64_t sum = 0;
  for (const NodeReceipt& node : event.nodes) sum += node.*which;
  return sum;
}

}  // namespace

bool wants_color(const Terminal& terminal) {
  if (terminal.no_color && !terminal.no_color->empty()) return false;
  if (terminal.force_color && !terminal.force_color->empty()) return *terminal.force_color != "0";
  return can_redraw(terminal);
}

bool can_redraw(const Terminal& terminal) {
  return terminal.is_tty && terminal.term.value_or("") != "dumb";
}

bool wants_ascii(const Terminal& terminal) {
  if (!terminal.is_tty) return false;
  const auto is_c = [](const std::string& locale) { return locale == "C" || locale == "POSIX"; };
  const std::string lang = terminal.lang.value_or("");
  std::string locale = terminal.lc_all.value_or("");
  if (locale.empty()) locale = terminal.lc_ctype.value_or("");
  // Python sets it where LANG=C.
  if (locale.empty() || (locale == "C.UTF-8" && is_c(lang))) locale = lang;
  const std::string name = upper(locale);
  return !name.empty() && !name.contains("UTF-8") && !name.contains("UTF8");
}

// One overload per event that has something to say; what it says in `out`.
struct LogDisplay::Renderer {
  LogDisplay& display;
  const std::int64_t wall_us;
  std::string out;

  static constexpr int kPool = -1;

  bool is_narrow() const { return display.options_.width < 60 && !display.options_.dated; }

  // Lines after the first of a message stand below its beginning.
  void line(int node, std::string_view level, std::string_view message) {
    const DisplayOptions& options = display.options_;
    std::string source = fmt::format(
        "{:<{}}", node == kPool ? "pool" : fmt::format("node {}", node), is_narrow() ? 6 : 8);
    if (!display.label_.empty()) source = display.label_ + " " + source;
    const std::string_view color = level == kError                          ? kRed
                                   : level == kWarning || level == "stderr" ? kYellow
                                                                            : kDim;
    const std::string clock =
        options.dated ? utc_text(wall_us) : clock_text(wall_us, options.utc_offset_seconds);
    std::size_t indent = source.size() + 1;
    if (!is_narrow()) {
      out += painted(clock, kDim, options) + " ";
      indent += clock.size() + 1;
    }
    out += painted(source, node == kPool ? "" : kCyan, options) + " ";
    if (!is_narrow()) {
      out += painted(fmt::format("{:<7}", level), color, options) + " ";
      indent += 8;
    } else if (!level.empty() && level != kInfo) {
      out += painted(level, color, options) + " ";
    }
    for (const char c : printable_text(message)) {
      out += c;
      if (c == '\n') out.append(indent, ' ');
    }
    out += '\n';
  }

  int node_of(const std::string& instance_id) const {
    const auto found = display.nodes_.find(instance_id);
    return found == display.nodes_.end() ? kPool : found->second;
  }

  void operator()(const InfraCreating& e) {
    line(kPool, kInfo, e.pool.empty() ? "opening" : fmt::format("opening {}", e.pool));
  }
  void operator()(const InfraCreated& e) {
    if (e.region == kThisMachine || is_reached(e.region)) return;
    line(kPool, kInfo, fmt::format("infrastructure ready ({})", e.region));
    if (!e.unattended.empty()) line(kPool, kInfo, e.unattended);
  }
  void operator()(const RegionAutoSelected& e) { line(kPool, kWarning, warning_text(e)); }
  void operator()(const InstanceLaunching& e) {
    if (e.provider == kLocal) return;
    if (is_reached(e.provider)) {
      line(kPool, kInfo,
           fmt::format("connecting to {}",
                       count_text(static_cast<std::uint64_t>(e.count), "machine")));
      return;
    }
    line(kPool, kInfo,
         fmt::format("launching {} × {} on {}", e.count, e.instance_type, e.provider));
  }
  void operator()(const InstanceProvisioned& e) {
    const std::optional<double>& price = e.spot ? e.price_spot : e.price_on_demand;
    display.nodes_[e.instance_id] = e.node;
    if (price == 0.0) ++display.free_machines_;
    if (e.provider == kLocal) {
      display.local_.insert(e.instance_id);
      return;
    }
    std::string text = e.instance_id;
    if (e.instance_type && *e.instance_type != e.provider) text += ", " + *e.instance_type;
    text += fmt::format(" on {}", e.provider);
    if (price.value_or(0) > 0) {
      text += fmt::format(" [{}, ${:.4g}/hr]", e.spot ? "spot" : "on-demand", *price);
    }
    line(e.node, kInfo, text);
  }
  void operator()(const ProvisioningCompleted& e) {
    if (e.provider == kLocal || is_reached(e.provider)) return;
    for (const std::string& one : e.instances) display.steps_[one] = {"connecting", wall_us};
    const int count = e.spot + e.on_demand;
    const std::string kinds = display.free_machines_ < count
                                  ? fmt::format(" ({})", kinds_text(e.spot, e.on_demand))
                                  : std::string();
    line(kPool, kInfo,
         fmt::format("{} provisioned{} on {}, {}",
                     count_text(static_cast<std::uint64_t>(count), "instance"), kinds, e.provider,
                     e.region));
  }
  void operator()(const BootstrapStarting& e) {
    display.steps_[e.instance_id] = {"setting up Python", wall_us};
  }
  void operator()(const BootstrapProgress& e) {
    const std::string_view next = under_way_after(e.step);
    display.steps_.erase(e.instance_id);
    if (!next.empty()) display.steps_[e.instance_id] = {std::string(next), wall_us};
  }
  void operator()(const BootstrapCompleted& e) {
    display.steps_.erase(e.instance_id);
    if (display.local_.contains(e.instance_id) && is_nothing(e.environment_seconds)) return;
    std::string text = "ready: connect " + duration_text(e.connect_seconds);
    if (e.agent_seconds > 0) text += ", agent " + duration_text(e.agent_seconds);
    if (!is_nothing(e.environment_seconds)) {
      text += ", environment " + duration_text(e.environment_seconds);
    }
    line(node_of(e.instance_id), kInfo,
         fmt::format("{}, workers {}", text, duration_text(e.workers_seconds)));
  }
  void operator()(const ClusterSetupCompleted& e) {
    line(kPool, kInfo,
         fmt::format("{} ready in {}",
                     count_text(static_cast<std::uint64_t>(e.instance_count), "node"),
                     duration_text(e.duration_seconds)));
  }
  void operator()(const Metrics& e) {
    const auto [since, is_first] = display.metrics_since_.try_emplace(e.node, wall_us);
    if (is_first || !has_passed(kMetricsEveryMicroseconds, since->second, wall_us)) return;
    since->second = wall_us;
    line(e.node, kInfo, metrics_text(e));
  }
  void operator()(const LogLine& e) {
    const std::string_view text = without_trailing_blanks(e.line);
    if (!text.empty()) line(e.node, e.stream == "stderr" ? "stderr" : "", text);
  }
  void operator()(const InstanceStopping& e) {
    display.steps_.erase(e.instance_id);
    if (display.stopping_ && display.local_.contains(e.instance_id)) return;
    line(node_of(e.instance_id), kInfo, e.instance_id + " stopping");
  }
  void operator()(const InstancePreempted& e) {
    display.steps_.erase(e.instance_id);
    line(e.node, kWarning, warning_text(e));
  }
  void operator()(const InstanceReplaced& e) {
    display.nodes_[e.new_instance_id] = e.node;
    line(e.node, kWarning, warning_text(e));
  }
  void operator()(const CostUpdate& e) {
    std::optional<std::int64_t>& told = display.cost_told_us_;
    if (e.hourly_rate <= 0 || (told && !has_passed(kMetricsEveryMicroseconds, *told, wall_us))) {
      return;
    }
    told = wall_us;
    line(kPool, kInfo,
         fmt::format("{} ({}) | ${:.4g}/hr | {}", money_text(e.accumulated_cost),
                     duration_text(e.elapsed_seconds), e.hourly_rate,
                     kinds_text(e.spot_count, e.ondemand_count)));
  }
  void operator()(const BudgetWarning& e) { line(kPool, kWarning, warning_text(e)); }
  void operator()(const CostFinal& e) {
    display.cost_ = e;
    if (e.total_cost <= 0) return;
    std::string text =
        fmt::format("final {} ({}) | {}", money_text(e.total_cost), duration_text(e.total_seconds),
                    kinds_text(e.spot_count, e.ondemand_count));
    if (e.savings_vs_ondemand > 0) text += " | saved " + money_text(e.savings_vs_ondemand);
    line(kPool, kInfo, text);
  }
  void operator()(const PoolStopped& e) {
    std::string text = fmt::format("closed after {}, set-up {}", duration_text(e.total_seconds),
                                   duration_text(e.setup_seconds));
    if (e.first_call_seconds > 0) {
      text +=
          fmt::format(", first call {} ({} in the function)", duration_text(e.first_call_seconds),
                      duration_text(e.first_call_run_seconds));
    }
    if (!display.ended_by_.empty()) text += ", ended by " + display.ended_by_;
    line(kPool, kInfo, text);
    if (e.nodes.empty()) return;
    out += receipt_text(e, display.cost_, display.options_.width);
  }
  void operator()(const Notice& e) {
    line(e.instance_id ? node_of(*e.instance_id) : kPool,
         e.level == kWarningLevel ? kWarning : kInfo, without_trailing_blanks(e.message));
  }
  void operator()(const ErrorEvent& e) {
    line(e.instance_id ? node_of(*e.instance_id) : kPool, kError,
         without_trailing_blanks(e.message));
  }
  void operator()(const PoolStarted&) {}
  void operator()(const TaskStarted&) {}
  void operator()(const TaskFinished&) {}
  void operator()(const TaskFailed&) {}
  void operator()(const TaskPoolInitCompleted&) {}
  void operator()(const PoolStopping&) { display.stopping_ = true; }
};

std::string LogDisplay::render(const Event& event, std::int64_t wall_us) {
  Renderer renderer{*this, time_of(event, wall_us), tick(wall_us)};
  std::visit(renderer, event);
  const bool ours = !std::holds_alternative<LogLine>(event);
  return options_.ascii && ours ? ascii_text(renderer.out) : std::move(renderer.out);
}

std::string LogDisplay::tick(std::int64_t wall_us) {
  std::string out;
  for (auto step = steps_.begin(); step != steps_.end();) {
    const auto& [instance, what] = *step;
    if (!has_passed(kTellStepAfterMicroseconds, what.since_us, wall_us)) {
      ++step;
      continue;
    }
    Renderer renderer{*this, what.since_us, {}};
    renderer.line(renderer.node_of(instance), kInfo, what.text);
    out += renderer.out;
    step = steps_.erase(step);
  }
  return out;
}

void SpinnerDisplay::follow(const Event& event, std::int64_t wall_us) {
  if (!active_) {
    SpinnerDisplay fresh(options_);
    fresh.label_ = std::move(label_);
    *this = std::move(fresh);
    active_ = true;
    started_us_ = wall_us;
    phase_ = "starting";
  }
  std::visit(Overloaded{
                 [&](const InfraCreating&) { phase_ = "opening"; },
                 [&](const InstanceLaunching& e) {
                   if (e.provider != kLocal && !running_) {
                     phase_ = is_reached(e.provider)
                                  ? "connecting"
                                  : fmt::format("launching {} × {}", e.count, e.instance_type);
                   }
                   nodes_wanted_ = std::max(nodes_wanted_, e.count);
                 },
                 [&](const ProvisioningCompleted& e) {
                   if (e.provider != kLocal && !running_) phase_ = "connecting";
                 },
                 // While others work, a machine that takes a node's place is no news.
                 [&](const BootstrapStarting&) {
                   if (!running_) phase_ = "setting up Python";
                 },
                 [&](const BootstrapProgress& e) {
                   const std::string_view next = under_way_after(e.step);
                   if (!next.empty() && !running_) phase_ = next;
                 },
                 [&](const BootstrapCompleted& e) { ready_.insert(e.instance_id); },
                 [&](const ClusterSetupCompleted& e) {
                   phase_ = "running";
                   running_ = true;
                   nodes_wanted_ = std::max(nodes_wanted_, e.instance_count);
                 },
                 [&](const PoolStarted&) {
                   phase_ = "running";
                   running_ = true;
                 },
                 [&](const Metrics& e) { cpu_[e.node] = e.cpu_percent; },
                 [&](const PoolStopping&) {
                   phase_ = "closing";
                   closing_ = true;
                 },
                 [&](const InstanceStopping& e) { ready_.erase(e.instance_id); },
                 [&](const InstancePreempted& e) { ready_.erase(e.instance_id); },
                 [&](const InstanceReplaced& e) { ready_.erase(e.old_instance_id); },
                 [&](const CostFinal& e) { cost_ = e; },
                 [&](const ErrorEvent&) { saw_error_ = true; },
                 [](const auto&) {},
             },
             event);
}

std::string SpinnerDisplay::render(const Event& event, std::int64_t wall_us) {
  follow(event, wall_us);
  if (const auto* stopped = std::get_if<PoolStopped>(&event)) {
    std::string out = clear() + final_line(*stopped);
    active_ = false;
    return out;
  }
  const std::string above = lines_above(event);
  if (above.empty()) return tick(wall_us);
  const std::string out = clear() + above;
  return out + tick(wall_us);
}

std::string SpinnerDisplay::lines_above(const Event& event) const {
  const auto line = [&](const char* sign, std::string_view color, std::string_view message) {
    const std::string shown = options_.ascii ? ascii_text(sign) : sign;
    return painted(shown, color, options_) + " " +
           printable_text(without_trailing_blanks(message)) + "\n";
  };
  const auto warning = [&](const std::string& message) { return line("!", kYellow, message); };
  const auto of_node = [&](const auto& e) {
    return warning(fmt::format("node {}: {}", e.node, warning_text(e)));
  };
  return std::visit(
      Overloaded{
          [&](const LogLine& e) {
            const std::string_view text = without_trailing_blanks(e.line);
            if (text.empty()) return std::string();
            const std::string whose = label_.empty() ? "" : label_ + " ";
            std::string out =
                painted(fmt::format("[{}node {}]", whose, e.node), kCyan, options_) + " ";
            if (e.stream == "stderr") out += painted("stderr", kYellow, options_) + " ";
            return out + printable_text(text) + "\n";
          },
          [&](const Notice& e) {
            return e.level == kWarningLevel ? warning(e.message) : line("·", kDim, e.message);
          },
          [&](const RegionAutoSelected& e) { return warning(warning_text(e)); },
          [&](const InstancePreempted& e) { return of_node(e); },
          [&](const InstanceReplaced& e) { return of_node(e); },
          [&](const BudgetWarning& e) { return warning(warning_text(e)); },
          [&](const ErrorEvent& e) { return line("✗", kRed, e.message); },
          [](const auto&) { return std::string(); },
      },
      event);
}

std::string SpinnerDisplay::final_line(const PoolStopped& event) const {
  const std::uint64_t tasks = task_count(event, &NodeReceipt::tasks);
  const std::uint64_t failed = task_count(event, &NodeReceipt::failed);
  const bool good = failed == 0 && !saw_error_ && ended_by_.empty();
  std::string sign = good ? "✓" : "✗";
  std::string text = sign;
  if (!label_.empty()) text += " " + label_ + ":";
  if (!ended_by_.empty()) text += fmt::format(" ended by {}:", ended_by_);
  text += fmt::format(" {} in {}", count_text(tasks, "task"), duration_text(event.total_seconds));
  if (failed > 0) text += fmt::format(", {} failed", failed);
  text += fmt::format(" · {} · set-up {}", count_text(event.nodes.size(), "node"),
                      duration_text(event.setup_seconds));
  if (cost_.total_cost > 0) text += " · " + split_text(cost_);
  if (options_.ascii) {
    sign = ascii_text(sign);
    text = ascii_text(text);
  }
  text = fold_text(text, options_.width);
  return painted(sign, good ? kGreen : kRed, options_) + text.substr(sign.size()) + "\n";
}

std::string SpinnerDisplay::tick(std::int64_t wall_us) {
  if (!active_) return "";
  constexpr std::array<std::string_view, 10> kFrames = {"⠋", "⠙", "⠹", "⠸", "⠼",
                                                        "⠴", "⠦", "⠧", "⠇", "⠏"};
  constexpr std::array<std::string_view, 4> kAsciiFrames = {"-", "\\", "|", "/"};
  const std::int64_t elapsed = std::max<std::int64_t>(wall_us - started_us_, 0);
  std::string text = label_.empty() ? phase_ : label_ + " " + phase_;
  if (nodes_wanted_ > 0) text += fmt::format(" · {}/{} nodes", ready_.size(), nodes_wanted_);
  if (tasks_done_ + tasks_running_ > 0) {
    text += fmt::format(" · {} done", tasks_done_);
    // What was not done when the pool began to close is cancelled.
    if (!closing_) text += fmt::format(", {} running", tasks_running_);
    if (!closing_ && tasks_waiting_ > 0) text += fmt::format(", {} waiting", tasks_waiting_);
  }
  if (!cpu_.empty()) {
    double sum = 0;
    for (const auto& [node, percent] : cpu_) sum += percent;
    text += fmt::format(" · cpu {:.0f}%", sum / static_cast<double>(cpu_.size()));
  }
  text += fmt::format(" · {}:{:02}", elapsed / 60'000'000, elapsed / 1'000'000 % 60);

  drawn_ = true;
  const auto frame = static_cast<std::size_t>(elapsed / kFrameMicroseconds) % kFrames.size();
  // The last column stays free: a terminal would move on to the next line.
  text = cut_text(text, options_.width - 3);
  return fmt::format(
      "{}{} {}", kWipe,
      painted(options_.ascii ? kAsciiFrames[frame % kAsciiFrames.size()] : kFrames[frame], kCyan,
              options_),
      options_.ascii ? ascii_text(text) : text);
}

void SpinnerDisplay::set_tasks(std::uint64_t done, std::uint64_t running, std::uint64_t waiting) {
  tasks_done_ = done;
  tasks_running_ = running;
  tasks_waiting_ = waiting;
}

std::string SpinnerDisplay::clear() {
  if (!drawn_) return "";
  drawn_ = false;
  return std::string(kWipe);
}

}  // namespace skyward
