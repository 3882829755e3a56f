#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/cli/print_json.h"
#include "skyward/display/display_text.h"

namespace skyward::cli {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return 2;
    case ErrorKind::denied:
    case ErrorKind::over_budget:
      return 77;
    case ErrorKind::exhausted:
      return 75;
    case ErrorKind::unavailable:
    case ErrorKind::lost:
    case ErrorKind::unreachable:
      return 69;
    case ErrorKind::timeout:
      return 124;
    case ErrorKind::cancelled:
      return 130;
    case ErrorKind::unsupported:
    case ErrorKind::task:
    case ErrorKind::undelivered:
      return 1;
  }
  return 1;
}

int complain(const Streams& streams, const Error& error) {
  if (streams.json) {
    const nlohmann::ordered_json line = {
        {"error", to_string(error.kind)}, {"message", error.message}, {"hint", error.hint}};
    print_json(streams, line);
  }
  streams.err << "skyward: " << printable_text(error.message) << '\n';
  if (!error.hint.empty()) streams.err << "  hint: " << printable_text(error.hint) << '\n';
  return exit_code(error.kind);
}

int complain_of_ledger(const Streams& streams, const Error& error) {
  constexpr int kLedger = 74;
  (void)complain(streams, error);
  return kLedger;
}

void print_table(std::ostream& out, const std::vector<std::string>& heads,
                 std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> widths;
  for (const std::string& head : heads) widths.push_back(head.size());
  for (auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = printable_line(row[i]);
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  const auto print = [&](const std::vector<std::string>& row) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    out << line.substr(0, line.find_last_not_of(' ') + 1) << '\n';
  };
  print(heads);
  for (const auto& row : rows) print(row);
}

}  // namespace skyward::cli
