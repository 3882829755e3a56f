#include "skyward/cli/run_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "skyward/base/forever.h"
#include "skyward/cli/clouds.h"
#include "skyward/cli/hardware.h"
#include "skyward/cli/run_policy.h"
#include "skyward/cli/run_results.h"
#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/pool/executable.h"
#include "skyward/pool/providers.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/table.h"
#include "skyward/provider/world.h"
#include "skyward/spec/memory_size.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::cli {

namespace {

namespace fs = std::filesystem;

constexpr Duration kPythonTimeout = std::chrono::seconds(20);
constexpr int kIdDigits = 16;
constexpr const char* kDefaultPython = "3.13";  // of nodes, where there is none here
// Set by the package's own console script: its interpreter.
constexpr const char* kPythonVariable = "SKYWARD_PYTHON";

// ---- Paths

fs::path home_directory() {
  std::error_code error;
  return fs::canonical(io::home_directory(), error);
}

Result<std::string> sync_root(const RunOptions& options) {
  const std::string said = options.sync.empty() ? "." : options.sync;
  std::error_code error;
  const fs::path root = fs::canonical(said, error);
  if (error || !fs::is_directory(root, error)) {
    return fail(ErrorKind::invalid, fmt::format("--sync {}: there is no such directory here", said),
                "name the directory to send; the command runs in its copy");
  }
  if (options.sync.empty() && (root == "/" || root == home_directory())) {
    return fail(ErrorKind::invalid,
                fmt::format("not sending all of {}: it is {}", root.native(),
                            root == "/" ? "the root of this computer" : "your home directory"),
                "change to the directory of your project, or name one with --sync DIR");
  }
  return root.native();
}

// The script's path below the directory that is sent.
Result<std::string> script_below(const std::string& root, const std::string& said) {
  std::error_code error;
  const fs::path folder = fs::canonical(fs::absolute(said, error).parent_path(), error);
  const fs::path path = folder / fs::path(said).filename();
  if (error || !fs::exists(path, error)) {
    return fail(ErrorKind::invalid, fmt::format("there is no script {}", said),
                fmt::format("to run a program that is on the node: 'skyward run -- {}'", said));
  }
  if (!fs::is_regular_file(path, error)) {
    return fail(ErrorKind::invalid, fmt::format("{} is not a file", said),
                "name the Python script to run, or a command after --");
  }
  if (path.extension() != ".py") {
    return fail(ErrorKind::invalid, fmt::format("{} does not end with .py", said),
                fmt::format("for anything but a Python script: 'skyward run -- ./{}'", said));
  }
  auto below = path_below(root, path.native());
  if (!below) {
    return fail(ErrorKind::invalid,
                fmt::format("{} is not in {}, the directory that is sent", said, root),
                "name the directory that holds it with --sync");
  }
  return *std::move(below);
}

// A link on the way to the results may be a stranger's: it came with the files here, and could lead
// what the nodes send to ~/.ssh. `directory`: below the working directory.
Status check_links(const std::string& said, const fs::path& directory) {
  std::error_code error;
  const fs::path leads_to = fs::weakly_canonical(directory, error);
  if (error || leads_to == directory) return {};
  return fail(
      ErrorKind::denied,
      fmt::format("--output {}: a symbolic link leads from there to {}", said, leads_to.native()),
      "name another directory, or remove the link");
}

// A directory of this machine, in which what comes back can be stored. `said`: an inner path.
Result<std::string> output_here(const std::string& said, int nodes) {
  std::error_code error;
  const fs::path path = fs::absolute(said).lexically_normal();
  std::vector<fs::path> directories{path};
  for (int i = 0; nodes > 1 && i < nodes; ++i) {
    directories.push_back(path / fmt::format("node-{}", i));
  }
  for (const fs::path& directory : directories) {
    if (Status harmless = check_links(said, directory); !harmless) return fail(harmless);
    fs::create_directories(directory, error);
    if (error) break;
  }
  if (!error && io::is_writable_directory(path)) {
    if (Status fits = check_output_space(path, &io::disk_space); !fits) return fail(fits);
    return path.native();
  }
  return fail(ErrorKind::denied,
              fmt::format("--output {}: cannot write there{}{}", said, error ? ": " : "",
                          error ? error.message() : ""),
              "name a directory in which you may create files");
}

// ---- Python

struct PythonHere {
  std::string program{};
  std::string version{};  // "3.12"
  std::string uv{};
};

PythonHere find_python() {
  PythonHere here;
  const auto path = io::environment_variable("PATH");
  const auto named = io::environment_variable(kPythonVariable);
  const auto found = named && io::is_program(*named) ? named : io::find_program("python3", path);
  if (found) {
    io::SpawnOptions ask;
    ask.command = {*found, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"};
    const auto answer = io::run_command(ask, kPythonTimeout);
    if (answer && answer->status.code == 0 && answer->status.signal == 0) {
      here.program = *found;
      here.version = answer->out.substr(0, answer->out.find('\n'));
    }
  }
  const std::string beside = fs::path(here.program).parent_path() / "uv";
  here.uv = !here.program.empty() && io::is_program(beside)
                ? beside
                : io::find_program("uv", path).value_or("");
  return here;
}

Status add_python(PoolSpec& spec, const RunOptions& options) {
  const PythonHere here = find_python();
  if (spec.provider.name == "local" && here.program.empty()) {
    return fail(ErrorKind::invalid, "there is no python3 here, and the nodes run on this machine",
                "install Python, or choose a provider with --provider");
  }
  if (spec.provider.name == "local" && !here.uv.empty()) spec.provider.settings["uv"] = here.uv;
  spec.image.python = options.python;
  if (spec.image.python.empty()) {
    spec.image.python = here.version.empty() ? kDefaultPython : here.version;
  }
  spec.runtime.python = here.program.empty() ? "python3" : here.program;
  spec.runtime.command.emplace_back("{python}");
  // Nothing is pickled: the nodes may have any Python, but this computer's own serves if it is
  // that.
  const bool own =
      spec.image.python == here.version || spec.image.python.starts_with(here.version + ".");
  if (own && !here.version.empty()) {
    spec.runtime.environment["SKYWARD_CLIENT_PYTHON"] = here.version;
  }
  spec.runtime.uv = here.uv;
  return {};
}

// ---- The pool

// A provider without regions would run the command where the user did not want it.
Status check_region(const std::string& region, const std::string& provider) {
  const bool is_known = provider::find_row(provider) != nullptr;
  if (region.empty() || takes_region(provider) || !is_known) return {};
  return fail(ErrorKind::invalid,
              fmt::format("--region {}: the provider {} takes no region", region, provider),
              "name one that takes a region, for example --provider aws, or leave --region out");
}

std::map<std::string, std::string> other_agents(const std::string& agent) {
  std::map<std::string, std::string> found;
  std::error_code error;
  const std::string whole = fs::canonical(agent, error).native();
  for (const auto& [name, machine] : {std::pair{"arm64", "aarch64"}, {"x86_64", "x86_64"}}) {
    const std::string path = fmt::format("{}-{}", whole, machine);
    if (io::is_program(path)) found[name] = path;
  }
  return found;
}

Result<PoolSpec> make_spec(const RunOptions& options, bool needs_python) {
  PoolSpec spec;
  std::optional<ProviderSpec> named;
  if (!options.provider.empty()) named = ProviderSpec{.name = options.provider, .settings = {}};
  spec.provider = provider_to_take(named);
  if (Status fits = check_region(options.region, spec.provider.name); !fits) return fail(fits);
  if (!options.region.empty()) spec.provider.settings["region"] = options.region;
  spec.nodes = options.nodes;
  spec.machine = options.machine;
  spec.architecture = options.architecture;
  if (Status fits = add_hardware(spec, options); !fits) return fail(fits);
  const auto spot = parse_spot(options.spot);
  if (!spot) return fail(spot);
  spec.spot = *spot;
  spec.budget = options.budget;
  spec.timeout = options.timeout;
  if (options.lease_s > 0) spec.lease = limit_from_seconds(options.lease_s);
  auto variables = parse_variables(options.env, &io::environment_variable);
  if (!variables) return fail(variables);
  spec.env = *std::move(variables);
  spec.image.python.clear();
  spec.image.pip = options.pip;
  spec.image.apt = options.apt;
  spec.concurrency = 2;              // the command, and the signals that are sent to it
  spec.prepares_successors = false;  // a command that has begun does not run again
  spec.runtime.command = {std::string(kAgentWord), "work"};
  spec.runtime.environment = {{wire::kWorkerVariable, "skyward-agent"}};
  auto agent = find_agent();
  if (!agent) return fail(agent);
  spec.agent_path = *std::move(agent);
  spec.other_agents = other_agents(spec.agent_path);
  spec.record_root = find_record_root();
  if (needs_python) {
    if (Status status = add_python(spec, options); !status) return fail(status);
  }
  if (Status status = validate(spec); !status) return fail(status);
  return spec;
}

// ---- The files

// The script is not among what is sent.
std::unexpected<Error> not_sent(const std::string& script, const std::string& output) {
  if (path_below(output, script)) {
    return fail(ErrorKind::invalid,
                fmt::format("{} would not be sent: it is in {}, where --output collects results",
                            script, output),
                "move it elsewhere, or name another directory with --output");
  }
  return fail(ErrorKind::invalid,
              fmt::format("{} would not be sent: git ignores it, or it is hidden", script),
              "take it out of .gitignore, or send its directory alone with --sync DIR");
}

Status add_files(RunRequest& request, const RunOptions& options, const std::string& root,
                 const std::string& script) {
  auto chosen = choose_files(root, request.order.output, !options.sync.empty());
  if (!chosen) return fail(chosen);
  const auto max_mb = parse_memory_mb(options.max_sync, "--max-sync");
  if (!max_mb) return fail(max_mb);
  const auto is_script = [&](const io::TreeEntry& entry) { return entry.path == script; };
  if (!script.empty() && std::ranges::none_of(chosen->entries, is_script)) {
    return not_sent(script, request.order.output);
  }
  const auto max_bytes = static_cast<std::uint64_t>(*max_mb) << 20;
  if (Status fits = check_size(chosen->entries, max_bytes); !fits) return fits;
  auto packed = pack(root, chosen->entries);
  if (!packed) return fail(packed);
  request.notes = std::move(chosen->notes);
  if (std::string note = secrets_note(chosen->entries); !note.empty()) {
    request.notes.push_back(std::move(note));
  }
  request.order.entries = std::move(packed->entries);
  request.content = std::move(packed->content);
  return {};
}

// The provider decides where the files go, and a project's file may have chosen it.
std::string provider_and_origin(const RunOptions& options, const std::string& taken) {
  if (options.provider == taken) return taken;
  const provider::World world = provider::world_of_this_process();
  const auto files = provider::read_settings(world);
  const auto found = files ? provider::default_provider(world, *files) : fail(files);
  return found ? fmt::format("{} ({})", taken, found->origin) : taken;
}

std::string sending_note(const RunRequest& request, const RunOptions& options,
                         const std::string& root) {
  const auto files =
      std::ranges::count(request.order.entries, io::EntryKind::file, &run::SentEntry::kind);
  return fmt::format("sending {} {}, {}, from {}; provider: {}", files,
                     files == 1 ? "file" : "files", size_text(request.content.size()), root,
                     provider_and_origin(options, request.spec.provider.name));
}

// What is easily mistaken where the command does not run in a copy of the working directory here:
// the directory of the results is relative to both.
std::string results_note(const RunRequest& request, const std::string& root) {
  std::error_code error;
  const fs::path there = fs::weakly_canonical(fs::path(root) / request.order.output, error);
  if (error || there == fs::canonical(request.output, error)) return "";
  std::string note =
      fmt::format("results: what the command writes to {}, in its copy of {}, comes back to {}",
                  request.order.output, root, request.output);
  if (fs::exists(there, error)) note += fmt::format("; {} is not sent", there.native());
  return note;
}

Status check_words(const RunOptions& options) {
  if (options.words.empty()) {
    return fail(ErrorKind::invalid, "there is nothing to run",
                "'skyward run train.py' runs a script, 'skyward run -- nvidia-smi' a command");
  }
  if (options.no_sync && (!options.is_command || !options.sync.empty())) {
    return fail(ErrorKind::invalid,
                options.is_command ? "--sync and --no-sync contradict each other"
                                   : "--no-sync: the node would not have the script",
                "leave --no-sync out");
  }
  if (options.output.empty() || io::is_inner_path(options.output)) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("--output {}: a path relative to the command's working directory is expected",
                  options.output),
      "write it without a leading '/', without '..' and without a '/' at its end, "
      "for example --output results");
}

}  // namespace

Result<RunRequest> make_run_request(const RunOptions& options) {
  if (Status status = check_words(options); !status) return fail(status);
  RunRequest request;
  request.order.id = io::random_hex(kIdDigits);
  request.order.output = options.output;
  request.order.command = options.words;
  const bool is_script = !options.is_command;
  std::string script;
  std::string sent_from;
  if (!options.no_sync) {
    const auto root = sync_root(options);
    if (!root) return fail(root);
    sent_from = *root;
    if (is_script) {
      auto below = script_below(*root, options.words.front());
      if (!below) return fail(below);
      script = *std::move(below);
      // Python would take "-x.py" for an option.
      request.order.command.front() = script.starts_with('-') ? "./" + script : script;
      request.order.command.insert(request.order.command.begin(), run::kPython);
      request.order.environment["PYTHONUNBUFFERED"] = "1";  // lines come as they are printed
    }
    if (Status status = add_files(request, options, *root, script); !status) return fail(status);
  }
  auto spec = make_spec(options, is_script || !options.pip.empty() || !options.python.empty());
  if (!spec) return fail(spec);
  request.spec = *std::move(spec);
  // Over what Skyward sets for a command.
  for (const auto& [name, value] : request.spec.env) request.order.environment[name] = value;
  if (!options.no_sync) request.notes.push_back(sending_note(request, options, sent_from));
  if (!options.output.empty()) {
    auto output = output_here(options.output, options.nodes);
    if (!output) return fail(output);
    request.output = *std::move(output);
    std::string note = options.no_sync ? "" : results_note(request, sent_from);
    if (!note.empty()) request.notes.push_back(std::move(note));
  }
  return request;
}

}  // namespace skyward::cli
