#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/cli/print_json.h"
#include "skyward/display/display_text.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/settings.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

using nlohmann::ordered_json;
using provider::SettingOrigin;

// Some clouds' credentials come from a server.
static constexpr Duration kCredentialsTimeout = std::chrono::seconds(20);

// What such a provider has said proves nothing about the credentials.
static bool is_out_of_reach(ErrorKind kind) {
  return kind == ErrorKind::unavailable || kind == ErrorKind::unreachable ||
         kind == ErrorKind::lost || kind == ErrorKind::timeout;
}

Result<SettingOrigin> region_of(const provider::World& world, const std::string& name,
                                const std::string& said) {
  if (!said.empty()) return SettingOrigin{"region", said, "--region"};
  const auto files = provider::read_settings(world);
  if (!files) return fail(files);
  const auto settings = provider::settings_of(world, *files, name, {});
  if (!settings) return fail(settings);
  const auto found = std::ranges::find(*settings, "region", &SettingOrigin::name);
  return found == settings->end() ? SettingOrigin{"region"} : *found;
}

int list_providers(const Streams& streams) {
  std::vector<std::vector<std::string>> rows;
  const provider::World world = provider::world_of_this_process();
  const Time deadline = io::EventLoop::now() + kCredentialsTimeout;
  for (const provider::TableRow& row : provider::provider_table()) {
    if (row.simulated) continue;
    ordered_json line = {{"name", row.name}, {"credentials", nullptr}};
    if (row.credentials != nullptr) {
      line["credentials"] = row.credentials(world, deadline).has_value();
    }
    if (streams.json) print_json(streams, line);
    const char* found = line["credentials"] == true ? "found" : "none";
    rows.push_back({std::string(row.name), line["credentials"].is_null() ? "not needed" : found});
  }
  if (!streams.json) print_table(streams.out, {"PROVIDER", "CREDENTIALS"}, rows);
  return 0;
}

int check_provider(const Streams& streams, const std::string& name, const std::string& region,
                   Time deadline) {
  warn_of_variables(streams);
  const provider::TableRow* row = provider::find_row(name);
  if (row == nullptr || row->diagnose == nullptr) {
    const auto made = provider::make_provider({.name = name});
    if (!made) return complain(streams, made.error());
    streams.err << fmt::format("{} needs no credentials; nothing was tried\n", name);
    return 0;
  }
  const provider::World world = provider::world_of_this_process();
  const auto where = region_of(world, name, region);
  if (!where) return complain(streams, where.error());
  bool good = true;
  std::optional<Error> unchecked;
  const Status status = row->diagnose(
      world, *where,
      [&](const provider::Finding& finding) {
        if (!finding.good && is_out_of_reach(finding.kind)) {
          unchecked =
              Error{finding.kind,
                    fmt::format("{} could not be checked: {}", finding.what, finding.detail),
                    finding.hint};
          return;
        }
        good = good && finding.good;
        if (streams.json) {
          print_json(streams, ordered_json{{"what", finding.what},
                                           {"good", finding.good},
                                           {"detail", finding.detail},
                                           {"hint", finding.hint}});
          return;
        }
        streams.out << fmt::format("{}  {}: {}\n", finding.good ? "ok     " : "MISSING",
                                   finding.what, printable_line(finding.detail));
        if (!finding.good && !finding.hint.empty()) {
          streams.out << fmt::format("         hint: {}\n", printable_line(finding.hint));
        }
      },
      deadline);
  if (!status) return complain(streams, status.error());
  if (unchecked) {
    const int code = complain(streams, *unchecked);
    if (good) return code;
  }
  if (good) return 0;
  return complain(streams, {ErrorKind::denied, fmt::format("{}: something is missing", name),
                            "the lines on standard output say what"});
}

}  // namespace skyward::cli
