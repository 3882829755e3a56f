// The program `skyward`: reads the command line and calls one command.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/forever.h"
#include "skyward/base/nearest.h"
#include "skyward/cli/commands.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/own_process.h"

namespace {

namespace cli = skyward::cli;

constexpr double kTimeout_s = 300;
constexpr double kLifetime_s = 3600;  // of the machines of a run

// Says in words what a number must be.
CLI::Validator number(bool (*fits)(double), const char* wish) {
  return {[=](std::string& text) -> std::string {
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && fits(value) ? "" : fmt::format("{} is not {}", text, wish);
          },
          "", ""};
}
CLI::Validator above_zero() {
  return number([](double value) { return value > 0 && value < 1e9; }, "a number above 0");
}
CLI::Validator not_negative() {
  return number([](double value) { return value >= 0 && value < 1e9; }, "a non-negative number");
}

// One run of the program: CLI11 fills the fields and says which command was named.
struct CommandLine {
  CLI::App app{"Runs functions on machines that exist only while you need them.", "skyward"};
  bool json = false;
  bool all = false;
  bool origin = false;
  bool agreed = false;
  double timeout = kTimeout_s;
  std::string name;
  std::string region;
  std::string pool;
  int node = -1;
  cli::OffersOptions offers;
  cli::GcOptions gc;
  cli::RunOptions to_run;
  std::function<int(const cli::Streams&)> command;

  CommandLine();

  skyward::Duration time() const {
    return std::min(skyward::limit_from_seconds(timeout), skyward::kLongestWait);
  }
  // Of a command that begins now.
  skyward::Time deadline() const { return skyward::io::EventLoop::now() + time(); }
  CLI::App* noun(const char* word, const char* what);
  CLI::App* verb(CLI::App* noun, const char* word, const char* what,
                 std::function<int(const cli::Streams&)> run);
  // One that asks somebody, and waits for the answer.
  CLI::App* asking(CLI::App* noun, const char* word, const char* what,
                   std::function<int(const cli::Streams&)> run);
  void add_offers();
  void add_providers();
  void add_pools();
  void add_run();
  void add_command(const std::vector<std::string>& behind);
  void add_rest();
};

CLI::App* CommandLine::noun(const char* word, const char* what) {
  CLI::App* made = app.add_subcommand(word, what)->require_subcommand(1);
  made->add_flag("--json", json)->group("");  // wherever it stands
  return made;
}

CLI::App* CommandLine::verb(CLI::App* noun, const char* word, const char* what,
                            std::function<int(const cli::Streams&)> run) {
  CLI::App* made = noun->add_subcommand(word, what);
  made->add_flag("--json", json, "print one JSON object per line");
  made->callback([this, run = std::move(run)] { command = run; });
  return made;
}

CLI::App* CommandLine::asking(CLI::App* noun, const char* word, const char* what,
                              std::function<int(const cli::Streams&)> run) {
  CLI::App* made = verb(noun, word, what, std::move(run));
  made->add_option("--timeout", timeout,
                   fmt::format("time limit of the command in seconds ({})", kTimeout_s))
      ->check(above_zero());
  return made;
}

void CommandLine::add_offers() {
  CLI::App* list =
      asking(noun("offers", "machines you can rent"), "list",
             "list machines that fit, cheapest first", [this](const cli::Streams& streams) {
               offers.deadline = deadline();
               return cli::list_offers(streams, offers);
             });
  list->add_option("--provider", offers.provider,
                   "only this provider (default: every cloud with credentials here)");
  list->add_option("--region", offers.region,
                   "only this region (default: where a pool would look)");
  list->add_option("--accelerator", offers.accelerator, "a model, for example A100 or H100-80GB");
  list->add_option("--count", offers.count, "devices per machine (1)")->check(above_zero());
  list->add_option("--cpu", offers.cpus, "minimum number of CPU cores per machine")
      ->check(not_negative());
  list->add_option("--memory", offers.memory, "minimum memory per machine, such as 32GB");
  list->add_option("--machine", offers.machine, "only this machine type");
  list->add_option("--architecture", offers.architecture,
                   "x86_64 or arm64 (default: at AWS, this computer's)")
      ->check(CLI::IsMember({"x86_64", "arm64"}));
  list->add_flag("--spot", offers.spot, "spot machines, by spot price");
  list->add_option("--limit", offers.limit,
                   "maximum number of rows (default: 20, or all with --json; 0: all)")
      ->check(not_negative());
}

void CommandLine::add_providers() {
  CLI::App* providers = noun("providers", "where machines come from");
  verb(providers, "list", "list the providers that this version supports",
       [](const cli::Streams& streams) { return cli::list_providers(streams); });
  CLI::App* check =
      asking(providers, "check", "check which credentials Skyward finds, and what they may do",
             [this](const cli::Streams& streams) {
               return cli::check_provider(streams, name, region, deadline());
             });
  check->add_option("provider", name, "for example aws")->required();
  check->add_option("--region", region, "which region to check");
}

void CommandLine::add_pools() {
  CLI::App* pools = noun("pool", "the pools that this computer opened: list, logs, delete");
  verb(pools, "list", "list pools that are open or left behind",
       [this](const cli::Streams& streams) { return cli::list_pools(streams, all); })
      ->add_flag("--all", all, "include closed pools and pools of which only log files remain");
  verb(pools, "get", "show what a pool launched",
       [this](const cli::Streams& streams) { return cli::show_pool(streams, pool); })
      ->add_option("pool", pool, "its id")
      ->required();
  CLI::App* logs =
      verb(pools, "logs", "print the log of a pool, or of one node",
           [this](const cli::Streams& streams) {
             return cli::show_logs(streams, pool, node < 0 ? std::nullopt : std::optional(node));
           });
  logs->add_option("pool", pool, "its id, or the name of its directory")->required();
  logs->add_option("--node", node,
                   "print what tasks on this node printed, instead of the pool's log")
      ->check(not_negative());
  CLI::App* remove =
      asking(pools, "delete", "terminate the machines of a pool whose program is gone",
             [this](const cli::Streams& streams) {
               gc.pool = pool;
               gc.deadline = deadline();
               return cli::delete_pool(streams, gc);
             });
  remove->add_option("pool", pool, "its id")->required();
  remove->add_flag("--dry-run", gc.dry_run, "only report what it would remove");
  remove->add_option("--region", gc.regions, "search only this region");
  CLI::App* forget =
      verb(pools, "forget", "forget a pool whose account you can no longer use",
           [this](const cli::Streams& s) { return cli::forget_pool(s, pool, agreed); });
  forget->add_option("pool", pool, "its id")->required();
  forget->add_flag("--yes", agreed, "do it; without, list what may still exist and cost money");
}

constexpr const char* kRunHelp =
    "skyward run train.py --epochs 3        python train.py --epochs 3, on a node\n"
    "skyward run --nodes 2 -- ./bench.sh    a command, on every node\n\n"
    "Sends the working directory (as git sees it), shows the output, and returns the exit code of\n"
    "the command; 124 if that is 0 although --timeout, --budget or a preemption ended it, and 125\n"
    "if Skyward itself fails. Standard input is not passed on. Options come before the script or\n"
    "the --.";

void CommandLine::add_run() {
  CLI::App* made = app.add_subcommand("run", "run a script or a command on new machines");
  made->prefix_command()->footer(kRunHelp);
  made->callback([this, made] {
    to_run.words = made->remaining();
    if (!to_run.words.empty() && to_run.words.front().starts_with('-')) {
      throw CLI::ExtrasError(to_run.words);  // an option that there is not
    }
    if (made->count("--timeout") == 0) timeout = kLifetime_s;
    to_run.timeout = time();
    command = [this](const cli::Streams& streams) { return cli::run_program(streams, to_run); };
  });
  made->add_option("--provider", to_run.provider,
                   "where machines come from (default: as for pools)");
  made->add_option("--region", to_run.region, "region of the provider");
  made->add_option("--nodes", to_run.nodes, "how many machines; the command runs on all (1)");
  made->add_option("--accelerator", to_run.accelerator, "a model, for example A100 or H100-80GB");
  made->add_option("--count", to_run.count, "devices per machine (1)")->check(above_zero());
  made->add_option("--cpu", to_run.cpus, "minimum number of CPU cores per machine")
      ->check(not_negative());
  made->add_option("--memory", to_run.memory, "minimum memory per machine, such as 32GB");
  made->add_option("--machine", to_run.machine, "exactly this machine type");
  made->add_option("--architecture", to_run.architecture, "x86_64 or arm64");
  made->add_option(
      "--spot", to_run.spot,
      "always, if-available, never, cheapest, or a minimum share such as 0.5 (default: always)");
  made->add_option("--budget", to_run.budget, "limit in dollars")->check(above_zero());
  made->add_option("--timeout", timeout, "lifetime of the pool in seconds (3600)")
      ->check(above_zero());
  made->add_option("--lease", to_run.lease_s,
                   "seconds that nodes work without contact with this program (600)")
      ->check(above_zero());
  made->add_option("--python", to_run.python,
                   "Python version on the nodes (default: the one Skyward is installed in, else "
                   "your python3's)");
  made->add_option("--pip", to_run.pip, "a Python package to install; may be repeated")
      ->allow_extra_args(false);
  made->add_option("--apt", to_run.apt, "a system package to install; may be repeated")
      ->allow_extra_args(false);
  made->add_option(
          "--env", to_run.env,
          "NAME=VALUE, or NAME to pass on the value from your environment; may be repeated")
      ->allow_extra_args(false);
  made->add_option("--sync", to_run.sync,
                   "the directory to send and to run in (the working directory)");
  made->add_flag("--no-sync", to_run.no_sync, "send nothing");
  made->add_option("--max-sync", to_run.max_sync, "refuse to send more than this (1GB)");
  made->add_option("--output", to_run.output,
                   "the directory to bring back: on the node, relative to the command's working "
                   "directory; here, relative to the current directory; with several nodes, into "
                   "node-0, node-1, … inside it");
  made->add_flag("--quiet", to_run.quiet, "show no events of the pool and no receipt");
}

void CommandLine::add_rest() {
  CLI::App* collect = asking(&app, "gc", "remove what dead programs left behind at your clouds",
                             [this](const cli::Streams& streams) {
                               gc.deadline = deadline();
                               return cli::collect_garbage(streams, gc);
                             });
  collect->add_flag("--dry-run", gc.dry_run, "only report what it would remove");
  collect->add_option("--provider", gc.provider,
                      "only this provider (default: every cloud with credentials here)");
  collect->add_option(
      "--region", gc.regions,
      "search only this region; may be repeated; without --provider, an AWS region");
  verb(&app, "cost", "what pools have cost so far", [this](const cli::Streams& streams) {
    return cli::show_cost(streams, pool);
  })->add_option("pool", pool, "only this pool");
  verb(&app, "reap", "started by pools, to terminate their machines when they are gone",
       [](const cli::Streams& streams) {
         return cli::reap(streams, std::string(std::istreambuf_iterator(std::cin), {}));
       })
      ->group("");  // not listed
  CLI::App* config = noun("config", "settings, where each comes from, and which files you trust");
  CLI::App* show = verb(config, "show", "show the settings that apply when a program sets none",
                        [this](const cli::Streams& s) { return cli::show_settings(s, origin); });
  show->add_flag("--origin", origin, "where each value comes from");
  const char* path_help = "a skyward.toml, or the folder that it is in";
  verb(config, "trust", "let a project's file, as it is now, set hosts, commands, keys and images",
       [this](const cli::Streams& s) { return cli::trust_settings(s, name); })
      ->add_option("path", name, path_help)
      ->required();
  verb(config, "untrust", "stop trusting a project's file",
       [this](const cli::Streams& s) { return cli::distrust_settings(s, name); })
      ->add_option("path", name, path_help)
      ->required();
  verb(config, "trusted", "the files that are trusted",
       [](const cli::Streams& s) { return cli::list_trusted(s); });
}

// The names below a command that --help lists, too.
std::vector<std::string> names_below(const CLI::App& noun) {
  std::vector<std::string> names;
  for (const CLI::App* one : noun.get_subcommands([](const CLI::App*) { return true; })) {
    if (!one->get_group().empty()) names.push_back(one->get_name());
  }
  return names;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* one : command.get_options()) {
    for (const std::string& name : one->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string nearest_of(const std::string& word, const std::vector<std::string>& names) {
  return skyward::did_you_mean(word, std::vector<std::string_view>(names.begin(), names.end()));
}

// What is wrong with the command line: a word that is no command, an option that its command does
// not have, or what the parser says.
skyward::Error explain(const CLI::App& app, const std::vector<std::string>& words,
                       std::string parser_says) {
  const CLI::App* command = &app;
  std::string said = "skyward";
  const auto wrong = [](std::string message, std::string hint) {
    return skyward::Error{skyward::ErrorKind::invalid, std::move(message), std::move(hint)};
  };
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      const std::string option = word.substr(0, word.find('='));
      const std::vector<std::string> options = options_of(*command);
      const bool known = std::ranges::find(options, option) != options.end();
      if (known || option == "--json") continue;
      return wrong(
          fmt::format("'{}' has no option {}", said, option),
          fmt::format("{}'{} --help' lists its options", nearest_of(option, options), said));
    }
    const std::vector<std::string> names = names_below(*command);
    const bool letter = word.size() > 1 && word[0] == '-' && std::isalpha(word[1]) != 0;
    if (letter && word != "-h" && word != "-V") {
      return wrong(fmt::format("'{}' has no option {}", said, word),
                   fmt::format("'{} --help' lists its options", said));
    }
    if (word.starts_with('-') || names.empty()) continue;
    const auto below =
        command->get_subcommands([&](const CLI::App* one) { return one->get_name() == word; });
    if (below.empty()) {
      return wrong(
          fmt::format("there is no command '{} {}'", said, word),
          fmt::format("{}{} knows {}", nearest_of(word, names), said, fmt::join(names, ", ")));
    }
    command = below.front();
    said += " " + word;
  }
  const std::vector<std::string> names = names_below(*command);
  if (!names.empty()) {
    return wrong(fmt::format("'{}' needs a subcommand", said),
                 fmt::format("{} knows {}", said, fmt::join(names, ", ")));
  }
  return wrong(fmt::format("{}: {}", said, parser_says),
               fmt::format("'{} --help' shows how to use it", said));
}

// Cuts off what is not the parser's: from the first "--" on.
std::vector<std::string> cut_command(std::vector<std::string>& words) {
  const auto dashes = std::ranges::find(words, "--");
  std::vector<std::string> behind(dashes, words.end());
  words.erase(dashes, words.end());
  return behind;
}

// "--" and what follows: the command, or some more arguments of a script.
void CommandLine::add_command(const std::vector<std::string>& behind) {
  to_run.is_command = to_run.words.empty();
  to_run.words.insert(to_run.words.end(), behind.begin() + (to_run.is_command ? 1 : 0),
                      behind.end());
}

// What people say in place of an option: 'skyward help pool', 'skyward version'.
std::vector<std::string> in_our_words(std::vector<std::string> words) {
  if (words.empty() || (words.front() != "help" && words.front() != "version")) return words;
  const std::string option = "--" + words.front();
  words.erase(words.begin());
  words.push_back(option);
  return words;
}

CommandLine::CommandLine() {
  app.require_subcommand(1);
  app.set_version_flag("-V,--version", "skyward " SKYWARD_VERSION);
  app.add_flag("--json", json)->group("");
  add_offers();
  add_providers();
  add_pools();
  add_run();
  add_rest();
}

// Fails if the output did not all get out.
int with_output(const cli::Streams& streams, int code) {
  streams.out.flush();
  if (streams.out.good()) return code;
  (void)cli::complain(
      streams, {skyward::ErrorKind::unavailable, "could not write everything to standard output",
                "check that the disk is not full and that the reader is still there"});
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  skyward::io::keep_exit_codes();
  CommandLine line;
  std::vector<std::string> words = in_our_words(std::vector<std::string>(argv + 1, argv + argc));
  const auto is_option = [](const std::string& word) { return word.starts_with('-'); };
  const auto verb = std::ranges::find_if_not(words, is_option);
  const bool runs = verb != words.end() && *verb == "run";
  const std::vector<std::string> behind = runs ? cut_command(words) : std::vector<std::string>();
  try {
    line.app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // as CLI11 takes them
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      const int code = line.app.exit(error, std::cout, std::cerr);
      return with_output({std::cout, std::cerr, false}, code);
    }
    const bool json = std::ranges::find(words, "--json") != words.end();
    const int code =
        cli::complain({std::cout, std::cerr, json}, explain(line.app, words, error.what()));
    return runs ? cli::kRunFailed : code;
  }
  if (!behind.empty()) line.add_command(behind);
  const cli::Streams streams{std::cout, std::cerr, line.json};
  return with_output(streams, line.command(streams));
}
