#include "skyward/display/display_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "skyward/base/utc.h"
#include "skyward/spec/cost.h"

namespace skyward {

namespace {

constexpr std::size_t kMaxReceiptRows = 16;  // a longer table says nothing at a glance
constexpr double kLeastLife_s = 60;          // what clouds count at least
constexpr MicroDollars kShown = 100;         // the last digit of money_text()
constexpr std::string_view kReplacement = "\uFFFD";

bool starts_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

struct NodeRow {
  std::string node;
  std::string instance;
  NodeReceipt numbers;
  double cost = 0;
};

// One line of the receipt. `instance` has as many columns as all other rows give it.
std::string row_text(const NodeRow& row, int instance_width, bool with_cost) {
  std::string out = fmt::format("  {:>5}  {}", row.node, row.instance);
  out.append(static_cast<std::size_t>(std::max(0, instance_width - text_width(row.instance))), ' ');
  out += fmt::format("  {:>6}  {:>6}  {:>8}", row.numbers.tasks, row.numbers.failed,
                     duration_text(row.numbers.busy_seconds));
  // How long a pool was up is no sum over its nodes.
  const bool is_total = row.numbers.node < 0;
  if (!is_total || with_cost) {
    out += fmt::format("  {:>8}", is_total ? "" : duration_text(row.numbers.up_seconds));
  }
  if (with_cost) out += fmt::format("  {:>8}", money_text(row.cost));
  return out + "\n";
}

// Where the money went, without what took none.
std::vector<std::pair<std::string_view, double>> parts_of(const CostFinal& cost) {
  std::vector<std::pair<std::string_view, double>> parts = {{"useful", cost.useful_cost},
                                                            {"set-up", cost.setup_cost},
                                                            {"idle", cost.idle_cost},
                                                            {"lost", cost.lost_cost}};
  std::erase_if(parts, [](const auto& part) { return part.second <= 0; });
  return parts;
}

// They add up to 100.
std::vector<MicroDollars> percents(const CostFinal& cost) {
  std::vector<MicroDollars> shares;
  for (const auto& [name, part] : parts_of(cost)) {
    shares.push_back(std::llround(1e6 * part / cost.total_cost));
  }
  return round_parts(shares, 10'000);
}

std::string parts_text(const CostFinal& cost) {
  const auto parts = parts_of(cost);
  std::vector<MicroDollars> amounts;
  for (const auto& [name, part] : parts) amounts.push_back(to_micro_dollars(part));
  amounts = round_parts(amounts, kShown);
  const auto shares = percents(cost);
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    // Of a machine that lived less than its cloud's minimum, the rest of that is here.
    const bool with_minimum = parts[i].first == "idle" && cost.total_seconds < kLeastLife_s;
    out += fmt::format("  {:>6}  {:>9}  {:>3}%{}\n", parts[i].first,
                       money_text(to_dollars(amounts[i] * kShown)), shares[i],
                       with_minimum ? "  with the rest of the cloud's minimum" : "");
  }
  return out;
}

}  // namespace

std::string duration_text(double seconds) {
  seconds = std::max(seconds, 0.0);
  if (seconds > 0 && seconds < 0.00995) {
    return fmt::format("{:.0f} ms", std::max(1.0, seconds * 1000));
  }
  if (seconds < 0.995) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole % 3600 / 60);
}

std::string utc_text(std::int64_t wall_us) {
  const std::chrono::microseconds moment(wall_us);
  const auto second = std::chrono::floor<std::chrono::seconds>(moment);
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(moment - second).count();
  return fmt::format("{}.{:03}Z", utc_moment(second.count(), "%Y-%m-%dT%H:%M:%S"), ms);
}

std::string money_text(double dollars) { return fmt::format("${:.4f}", dollars); }

std::string count_text(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string printable_text(std::string_view text) {
  constexpr char kBeforeControl = '\xc2';  // of U+0080 to U+009F, which UTF-8 has in two bytes
  const auto byte_of = [](char c) { return static_cast<unsigned char>(c); };
  const auto is_control = [&](char c) { return byte_of(c) < 0x20 || c == 0x7f; };
  const auto is_plain = [&](char c) { return !is_control(c) && c != kBeforeControl; };
  if (std::ranges::all_of(text, is_plain)) return std::string(text);
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::size_t color = text.substr(at).starts_with("\x1b[")
                                  ? text.find_first_not_of("0123456789;:", at + 2)
                                  : std::string_view::npos;
    if (color != std::string_view::npos && text[color] == 'm') {
      out += text.substr(at, color + 1 - at);
      at = color;
    } else if (text[at] == kBeforeControl && at + 1 < text.size() &&
               byte_of(text[at + 1]) >= 0x80 && byte_of(text[at + 1]) < 0xa0) {
      out += kReplacement;
      ++at;
    } else if (is_control(text[at]) && text[at] != '\t' && text[at] != '\n') {
      out += kReplacement;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::string printable_line(std::string_view text) {
  std::string out;
  for (const char c : printable_text(text)) {
    if (c == '\n' || c == '\x1b') {
      out += kReplacement;
    } else {
      out += c;
    }
  }
  return out;
}

int text_width(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(text, starts_code_point));
}

std::string cut_text(std::string_view text, int width) {
  if (text_width(text) <= width) return std::string(text);
  std::string out;
  int columns = 0;
  for (const char c : text) {
    if (starts_code_point(c) && ++columns >= width) break;
    out += c;
  }
  return width > 0 ? out + "…" : std::string();
}

std::string fold_text(std::string_view text, int width) {
  std::string out;
  int column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    const int columns = text_width(word);
    if (column > 0 && column + 1 + columns >= width) {
      out += "\n ";
      column = 1;
    }
    if (column > 0) out += ' ';
    out += word;
    column += columns + (column > 0 ? 1 : 0);
  }
  return out;
}

std::string ascii_text(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kSigns = {
      {{"×", "x"}, {"·", "-"}, {"…", "~"}, {"✓", "ok"}, {"✗", "failed"}, {kReplacement, "?"}}};
  std::string out;
  while (!text.empty()) {
    const auto* sign =
        std::ranges::find_if(kSigns, [&](const auto& one) { return text.starts_with(one.first); });
    const bool found = sign != kSigns.end();
    out += found ? sign->second : text.substr(0, 1);
    text.remove_prefix(found ? sign->first.size() : 1);
  }
  return out;
}

std::string split_text(const CostFinal& cost) {
  std::string out = money_text(cost.total_cost);
  const auto parts = parts_of(cost);
  const auto shares = percents(cost);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    out += fmt::format("{}{}% {}", i == 0 ? ": " : ", ", shares[i], parts[i].first);
  }
  return out;
}

std::string receipt_text(const PoolStopped& event, const CostFinal& cost, int width) {
  const bool with_cost = cost.total_cost > 0;
  std::vector<NodeRow> rows;
  NodeReceipt sum{.node = -1};
  std::vector<MicroDollars> costs;
  for (const NodeReceipt& node : event.nodes) {
    rows.push_back({std::to_string(node.node), node.instance_id, node});
    costs.push_back(to_micro_dollars(node.cost));
    sum.tasks += node.tasks;
    sum.failed += node.failed;
    sum.busy_seconds += node.busy_seconds;
  }
  // What machines cost that no node ever got: they were not ready before the pool closed, or their
  // launch failed.
  costs.push_back(std::max<MicroDollars>(
      0, std::llround(1e6 * cost.total_cost) - std::accumulate(costs.begin(), costs.end(), 0LL)));
  costs = round_parts(costs, kShown);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].cost = to_dollars(costs[i] * kShown);
  NodeRow others;
  others.node = "-";
  others.instance = "not ready";
  others.cost = to_dollars(costs.back() * kShown);

  constexpr int kOtherColumns = 45;  // all but the instance, with the blanks between
  constexpr int kCostColumns = 10;
  const int room = std::max(8, width - kOtherColumns - (with_cost ? kCostColumns : 0));
  int instance_width = 8;
  for (NodeRow& row : rows) {
    row.instance = cut_text(row.instance, room);
    instance_width = std::max(instance_width, text_width(row.instance));
  }
  if (others.cost > 0) instance_width = std::max(instance_width, text_width(others.instance));

  std::string out = fmt::format("  {:>5}  {:<{}}  {:>6}  {:>6}  {:>8}  {:>8}", "node", "instance",
                                instance_width, "tasks", "failed", "busy", "up");
  out += with_cost ? fmt::format("  {:>8}\n", "cost") : "\n";
  const std::size_t shown = rows.size() > kMaxReceiptRows ? kMaxReceiptRows - 1 : rows.size();
  for (std::size_t i = 0; i < shown; ++i) out += row_text(rows[i], instance_width, with_cost);
  if (shown < rows.size()) out += fmt::format("      …  and {} more\n", rows.size() - shown);
  if (others.cost > 0) out += row_text(others, instance_width, with_cost);
  if (rows.size() > 1 || others.cost > 0) {
    out += row_text({"total", "", sum, cost.total_cost}, instance_width, with_cost);
  }
  if (with_cost) out += parts_text(cost);
  return out;
}

}  // namespace skyward
