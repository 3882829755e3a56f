#include "skyward/run/run_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "skyward/call/error.h"
#include "skyward/call/instance_info.h"
#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/io/other_processes.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/run/command_process.h"
#include "skyward/wire/worker_protocol.h"
#include "skyward/worker/worker.h"

namespace skyward::run {

namespace {

namespace fs = std::filesystem;

std::string& python() {
  static std::string path;
  return path;
}

void check(const Status& status) {
  if (!status) throw_error(status.error());
}

// Of a run on this node: what it works in, and the note that says which process its command is.
std::string directory_of(const std::string& id) {
  const bool hex = !id.empty() && id.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) throw ConfigurationError(fmt::format("\"{}\" names no run", id));
  return fmt::format("{}/run-{}", io::working_directory(), id);
}
std::string note_in(const std::string& directory) { return directory + "/process"; }

class RunDirectory {
 public:
  explicit RunDirectory(const std::string& id) : RunDirectory(Made{}, directory_of(id)) {
    check(io::make_private_directory(files()));  // if it fails, the destructor runs
  }
  ~RunDirectory() { (void)io::remove_tree(path_); }
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string files() const { return path_ + "/files"; }

 private:
  struct Made {};
  RunDirectory(Made, std::string path) : path_(std::move(path)) {
    check(io::make_private_directory(path_));
  }

  std::string path_;
};

void unpack(const std::string& root, const RunOrder& order, std::span<const std::uint8_t> content) {
  auto writer = io::TreeWriter::open(root);
  if (!writer) throw_error(writer.error());
  std::span<const std::byte> left = std::as_bytes(content);
  for (const SentEntry& entry : order.entries) {
    if (entry.kind == io::EntryKind::directory) {
      check(writer->make_directory(entry.path, entry.mode));
    } else if (entry.kind == io::EntryKind::link) {
      check(writer->make_link(entry.path, entry.target));
    } else {
      if (entry.size > left.size()) throw SerializationError("a file of the run is cut off");
      check(writer->begin_file(entry.path, entry.mode));
      check(writer->write(left.first(entry.size)));
      check(writer->end_file());
      left = left.subspan(entry.size);
    }
  }
  if (!order.output.empty()) check(writer->make_directory(order.output, 0755));
}

// What torch, JAX and others look for, where there are several nodes.
void add_ranks(std::map<std::string, std::string>& values) {
  const InstanceInfo& info = instance_info();
  if (info.total_nodes < 2) return;
  values.try_emplace("RANK", std::to_string(info.node));
  values.try_emplace("WORLD_SIZE", std::to_string(info.total_nodes));
  values.try_emplace("LOCAL_RANK", "0");
  values.try_emplace("LOCAL_WORLD_SIZE", "1");
  values.try_emplace("NODE_RANK", std::to_string(info.node));
  if (info.head_addr.empty()) return;
  values.try_emplace("MASTER_ADDR", info.head_addr);
  values.try_emplace("MASTER_PORT", std::to_string(info.head_port));
}

// The interpreter of an environment, with its programs first on the command's PATH.
void add_python(std::map<std::string, std::string>& values) {
  std::error_code error;
  const fs::path programs = fs::path(python()).parent_path();
  if (python().empty() || !fs::exists(programs.parent_path() / "pyvenv.cfg", error)) return;
  const auto said = values.find("PATH");
  const std::optional<std::string> path =
      said == values.end() ? io::environment_variable("PATH") : said->second;
  values["PATH"] = programs.native() + (path ? ":" + *path : "");
  values.try_emplace("VIRTUAL_ENV", programs.parent_path().native());
}

io::SpawnOptions spawn_options(const RunOrder& order, const std::string& directory) {
  io::SpawnOptions options;
  options.command = order.command;
  if (!options.command.empty() && options.command.front() == kPython) {
    options.command.front() = python();
  }
  std::map<std::string, std::string> values = order.environment;
  add_ranks(values);
  add_python(values);
  values["PWD"] = directory;
  if (const std::string info = instance_info_text(); !info.empty()) {
    values[kInstanceInfoVariable] = info;
  }
  options.environment.assign(values.begin(), values.end());
  options.unset = {wire::kWorkerVariable, "SKYWARD_MARK", "SKYWARD_MEMORY", "SKYWARD_CPUS",
                   "OLDPWD"};
  options.directory = directory;
  return options;
}

Piece start_failure(const Error& error, const io::SpawnOptions& options) {
  // A path that is there is no program; a name was looked for on PATH.
  const fs::path program = fs::path(options.directory) / options.command.front();
  std::error_code none;
  const bool there = options.command.front().contains('/') && fs::exists(program, none);
  return {.kind = PieceKind::ended,
          .path = {},
          .code = there ? kNotRunnable : kNotFound,
          .bytes = fmt::format("{}\n  hint: {}", error.message, error.hint)};
}

Piece end_of(const io::ExitStatus& status) {
  return {.kind = PieceKind::ended,
          .path = {},
          .code = status.code,
          .signal = status.signal,
          .bytes = {}};
}

// `path` does not come back, though it should.
Piece note_of(const std::string& path, std::string why) {
  return {.kind = PieceKind::note, .path = path, .bytes = std::move(why)};
}

void send_file(Sink<Piece>& out, const std::string& root, const io::TreeEntry& entry) {
  auto file = io::TreeFile::open(root, entry.path);
  if (!file) return out.put(note_of(entry.path, file.error().message));
  out.put({.kind = PieceKind::file, .path = entry.path, .mode = entry.mode, .bytes = {}});
  Piece data{.kind = PieceKind::data, .path = {}, .bytes = {}};
  while (true) {
    data.bytes.resize(kDataBytes);
    const auto count = file->read(std::as_writable_bytes(std::span(data.bytes)));
    if (!count) return out.put(note_of(entry.path, count.error().message));
    if (*count == 0) return;
    data.bytes.resize(*count);
    out.put(data);
  }
}

void send_output(Sink<Piece>& out, const std::string& root) {
  const auto leave_out = [&](const std::string& path, std::string why) {
    out.put({.kind = PieceKind::left_out, .path = path, .bytes = std::move(why)});
  };
  if (!io::is_directory(root)) {
    return out.put(note_of("", "the command removed the output directory"));
  }
  const auto unreadable = [&](const std::string& path, const Error& why) {
    out.put(note_of(path, why.message));
  };
  const auto entries = io::list_tree(root, {}, unreadable);
  if (!entries) return out.put(note_of("", entries.error().message));
  for (const io::TreeEntry& entry : *entries) {
    if (entry.kind == io::EntryKind::directory) {
      out.put({.kind = PieceKind::directory, .path = entry.path, .mode = entry.mode, .bytes = {}});
    } else if (entry.kind == io::EntryKind::file) {
      send_file(out, root, entry);
    } else if (entry.kind != io::EntryKind::link) {
      leave_out(entry.path, "it is neither a file nor a directory");
    } else if (!io::is_inner_link(entry.path, entry.target)) {
      leave_out(entry.path, fmt::format("it is a link out of the directory, to {}", entry.target));
    } else {
      out.put({.kind = PieceKind::link, .path = entry.path, .bytes = entry.target});
    }
  }
}

}  // namespace

void register_run_functions(std::string python_path) {
  python() = std::move(python_path);
  // A compute function is registered where a call of it is written.
  static_cast<void>(remote_run_command({}, {}));
  static_cast<void>(remote_signal_command({}, 0));
}

void run_command(Sink<Piece>& out, const RunOrder& order, std::span<const std::uint8_t> content) {
  const RunDirectory directory(order.id);
  unpack(directory.files(), order, content);
  const CommandEvents events{
      .on_output =
          [&](int stream, std::string_view bytes) {
            out.put({.kind = stream == 1 ? PieceKind::out : PieceKind::err,
                     .path = {},
                     .bytes = std::string(bytes)});
          },
      .on_start =
          [&](pid_t process) {
            check(io::write_private_file(note_in(directory.path()), io::process_stamp(process)));
            out.put({.kind = PieceKind::begun, .path = {}, .bytes = {}});
          },
      .poll = [] { throw_if_cancelled(); }};
  const io::SpawnOptions options = spawn_options(order, directory.files());
  const auto ended = run_to_end(options, events);
  (void)io::remove_tree(note_in(directory.path()));
  out.put(ended ? end_of(*ended) : start_failure(ended.error(), options));
  if (!order.output.empty()) send_output(out, directory.files() + "/" + order.output);
}

bool signal_command(const std::string& id, int number) {
  const auto stamp = io::read_file(note_in(directory_of(id)));
  return stamp && io::signal_group_of(*stamp, number);
}

}  // namespace skyward::run
