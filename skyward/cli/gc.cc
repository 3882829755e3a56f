#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/io/event_loop.h"
#include "skyward/provider/table.h"

namespace skyward::cli {

int collect_garbage(const Streams& streams, const GcOptions& options) {
  const provider::TableRow* row = provider::find_row(options.provider);
  if (row == nullptr || row->sweep == nullptr) {
    return complain(streams, {ErrorKind::invalid,
                              fmt::format("pools of \"{}\" leave nothing behind that could be "
                                          "removed from here",
                                          options.provider),
                              "'skyward providers list' shows the providers"});
  }
  provider::SweepOptions sweep{.dry_run = options.dry_run, .regions = options.regions};
  if (!options.pool.empty()) sweep.pool = options.pool;
  int removed = 0;
  int kept = 0;
  int failed = 0;
  const auto tell = [&](const provider::Swept& swept) {
    using provider::SweepAction;
    if (swept.action == SweepAction::kept) ++kept;
    if (swept.action == SweepAction::failed) ++failed;
    if (swept.action == SweepAction::removed || swept.action == SweepAction::would_remove)
      ++removed;
    const provider::Thing& thing = swept.thing;
    if (streams.json) {
      streams.out << nlohmann::ordered_json{{"action", to_string(swept.action)},
                                            {"kind", thing.kind},
                                            {"id", thing.id},
                                            {"pool", thing.pool},
                                            {"region", thing.region},
                                            {"owner", thing.owner},
                                            {"expires", thing.expires_s},
                                            {"why", swept.why}}
                         .dump()
                  << std::endl;
      return;
    }
    streams.out << fmt::format("{} {} {} of pool {} in {}: {}", to_string(swept.action), thing.kind,
                               thing.id, thing.pool, thing.region, swept.why)
                << std::endl;
  };
  const Status status = row->sweep(provider::world_of_this_process(), sweep, tell,
                                   io::EventLoop::now() + options.timeout);
  if (!status) return complain(streams, status.error());
  streams.err << fmt::format("{} {}, {} kept, {} failed\n", removed,
                             options.dry_run ? "would be removed" : "removed", kept, failed);
  // Somebody who names a pool wants it gone.
  const bool refused = !options.pool.empty() && !options.dry_run && kept > 0;
  return failed > 0 || refused ? 1 : 0;
}

}  // namespace skyward::cli
