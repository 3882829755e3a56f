#pragma once

// The commands of the program `skyward`: options in, exit code out. Data goes to `out`; what went
// wrong, and what is worth knowing beside the data, goes to `err`.
//
// Exit codes: 0 success · 1 it failed · 2 the request is wrong · 69 the provider does not answer ·
// 74 this computer's ledger cannot be used · 75 no capacity, try later · 77 credentials or
// permissions are missing · 124 timed out · 130 interrupted.

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/cli/hardware.h"
#include "skyward/provider/table.h"
#include "skyward/provider/world.h"

namespace skyward::cli {

struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool json = false;
};

int exit_code(ErrorKind kind);
// Tells what went wrong, in words to `err` and with --json as an object to `out`, too; gives the
// exit code.
int complain(const Streams& streams, const Error& error);
int complain_of_ledger(const Streams& streams, const Error& error);

// Rows of words below their heads, in columns as wide as they must be. The words may be a cloud's.
void print_table(std::ostream& out, const std::vector<std::string>& heads,
                 std::vector<std::vector<std::string>> rows);

struct OffersOptions : Hardware {
  std::string provider{};  // empty: every cloud that this computer has credentials for
  std::string region{};
  std::string machine{};
  std::string architecture{};
  bool spot = false;
  std::optional<std::size_t> limit{};  // 0: all; empty: as many as somebody reads
  Time deadline{};                     // for all clouds together
};
int list_offers(const Streams& streams, const OffersOptions& options);

int list_providers(const Streams& streams);
// Which credentials are used, and what they may do.
int check_provider(const Streams& streams, const std::string& name, const std::string& region,
                   Time deadline);

// What this computer has opened at clouds, and the log files of all its pools.
int list_pools(const Streams& streams, bool all);
int show_pool(const Streams& streams, const std::string& id);
// The log files of a pool: its own, or one node's.
int show_logs(const Streams& streams, const std::string& id, std::optional<int> node);

struct GcOptions {
  std::string provider{};  // empty: every cloud that this computer has credentials for
  std::vector<std::string> regions{};
  bool dry_run = false;
  std::string pool{};  // this one only
  Time deadline{};     // for all clouds together
};
int collect_garbage(const Streams& streams, const GcOptions& options);
// The machines of the pool `options.pool`, by any of its names.
int delete_pool(const Streams& streams, const GcOptions& options);

// Takes the pool `name` off the ledger, whose machines no command can look for any more: the
// account is gone. Without `agreed`, only lists what may still exist.
int forget_pool(const Streams& streams, const std::string& name, bool agreed);

// Waits in the background for the end of the program that opened a pool, and terminates the pool's
// machines. `order`: what that program says on standard input (provider/renting/reaping.h). Returns
// twice: at once, and in the process in the background when nothing is left.
int reap(const Streams& streams, const std::string& order);

// When `skyward run` itself fails, and no command's exit code is known.
inline constexpr int kRunFailed = 125;

struct RunOptions : Hardware {
  std::vector<std::string> words{};  // the script and its arguments, or the command
  bool is_command = false;           // they follow "--"
  std::string provider{};            // empty: as pools choose it
  std::string region{};
  int nodes = 1;
  std::string machine{};
  std::string architecture{};
  std::string spot = "always";
  std::optional<double> budget{};
  Duration timeout{};  // lifetime of the machines
  double lease_s = 0;  // 0: as pools have it
  std::string python{};
  std::vector<std::string> pip{};
  std::vector<std::string> apt{};
  std::vector<std::string> env{};
  std::string sync{};  // empty: the working directory
  bool no_sync = false;
  std::string max_sync = "1GB";
  std::string output{};
  bool quiet = false;
};
// Runs a script or a command on a pool of its own. Returns its exit code, else 125; does not return
// while anything of the pool is left, except that it may end the process.
int run_program(const Streams& streams, const RunOptions& options);

// What the pools in the ledger have cost until now.
int show_cost(const Streams& streams, const std::string& pool);

// Where a provider's machines are sought: as said on the command line, else where pools would.
Result<provider::SettingOrigin> region_of(const provider::World& world, const std::string& provider,
                                          const std::string& said);

// Variables like SKYWARD_AWS_REGOIN, which nobody reads.
void warn_of_variables(const Streams& streams);

// Settings, and with `origin` where each comes from.
int show_settings(const Streams& streams, bool origin);

// Trust a project's file, or the skyward.toml in a folder, until it changes; stop trusting it; list
// the trusted files.
int trust_settings(const Streams& streams, const std::string& path);
int distrust_settings(const Streams& streams, const std::string& path);
int list_trusted(const Streams& streams);

}  // namespace skyward::cli
