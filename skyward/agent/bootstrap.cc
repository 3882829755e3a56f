#include "skyward/agent/bootstrap.h"

#include <array>
#include <cstring>
#include <utility>

#include "skyward/agent/read_now.h"
#include "skyward/io/shared_memory.h"

namespace skyward::agent {
namespace {

constexpr std::size_t kKeptLines = 50;
constexpr std::string_view kFailed = "failed ";
constexpr int kStepsDescriptor = 3;
constexpr int kScriptDescriptor = 4;

// The script stops at the first command that fails, and tells which one that was.
constexpr std::string_view kPreamble =
    "set -Eeo pipefail\n"
    "exec 4<&-\n"
    "trap 'printf \"failed %s\\n\" \"${BASH_COMMAND//$'\"'\\\\n'\"'/ }\" >&3' ERR\n";

// No mark of a worker can occur in it: a script is no worker.
constexpr OutputMark kNoMark{'\xFF', '\xFE', '\xFF', '\xFE', '\xFF', '\xFE', '\xFF', '\xFE'};

// Reads what is there now; false at the end of the stream.
bool feed(const io::FileDescriptor& from, OutputSplitter& splitter,
          std::vector<wire::OutputLine>& lines) {
  std::array<std::byte, 16384> bytes;
  for (int reads = 0; reads < 64; ++reads) {
    const auto count = io::read_some(from.get(), bytes);
    if (!count) return true;
    if (*count == 0) return false;
    splitter.feed(ByteView(bytes).first(*count), read_now(), lines);
  }
  return true;
}

}  // namespace

BootstrapProcess::BootstrapProcess(io::EventLoop& loop, const wire::Configure& configure,
                                   Events events)
    : loop_(loop),
      events_(std::move(events)),
      alive_(std::make_shared<bool>(true)),
      step_splitter_(wire::OutputStream::out, 0, kNoMark),
      output_splitter_(wire::OutputStream::out, 0, kNoMark) {
  const Status started = start(configure);
  if (started) return;
  loop_.post([this, alive = alive_, reason = started.error().message] {
    if (*alive) events_.on_end({.command = "bash", .reason = reason});
  });
}

BootstrapProcess::~BootstrapProcess() {
  *alive_ = false;
  if (steps_) loop_.unwatch(steps_.get());
  if (output_) loop_.unwatch(output_.get());
}

Status BootstrapProcess::start(const wire::Configure& configure) {
  std::string script = std::string(kPreamble) + configure.bootstrap;
  script.resize((script.size() + 4096) / 4096 * 4096, '\n');  // to a page's end, not with zeros
  auto memory = io::SharedMemory::create(script.size());
  if (!memory) return fail(memory);
  std::memcpy((*memory)->data(), script.data(), script.size());
  auto steps = io::make_pipe();
  if (!steps) return fail(steps);
  auto output = io::make_pipe();
  if (!output) return fail(output);
  for (const int descriptor : {steps->write.get(), output->write.get()}) {
    const Status blocking = io::set_non_blocking(descriptor, false);
    if (!blocking) return blocking;
  }
  io::SpawnOptions options;
  options.command = {"bash", "/dev/fd/4"};
  options.environment = configure.bootstrap_environment;
  options.directory = configure.directory;
  options.descriptors = {{output->write.get(), 1},
                         {output->write.get(), 2},
                         {steps->write.get(), kStepsDescriptor},
                         {(*memory)->descriptor(), kScriptDescriptor}};
  options.new_session = true;
  options.die_with_parent = true;
  auto process =
      io::Process::spawn(loop_, options, [this](const io::ExitStatus& status) { end(status); });
  if (!process) return fail(process);
  process_ = std::move(*process);
  steps_ = std::move(steps->read);
  output_ = std::move(output->read);
  loop_.watch(steps_.get(), [this] { read_steps(); });
  loop_.watch(output_.get(), [this] { read_output(); });
  return {};
}

void BootstrapProcess::kill() {
  if (process_) process_->kill_group();
}

void BootstrapProcess::read_steps() {
  if (!steps_) return;
  std::vector<wire::OutputLine> lines;
  const bool open = feed(steps_, step_splitter_, lines);
  if (!open) {
    loop_.unwatch(steps_.get());
    steps_.reset();
  }
  for (const wire::OutputLine& line : lines) {
    if (!line.text.starts_with(kFailed)) {
      events_.on_step(line.text);
    } else if (failed_command_.empty()) {  // the innermost one comes first
      failed_command_ = line.text.substr(kFailed.size());
    }
  }
}

void BootstrapProcess::read_output() {
  if (!output_) return;
  std::vector<wire::OutputLine> lines;
  const bool open = feed(output_, output_splitter_, lines);
  if (!open) {
    loop_.unwatch(output_.get());
    output_.reset();
  }
  remember(std::move(lines));
}

void BootstrapProcess::remember(std::vector<wire::OutputLine> lines) {
  for (wire::OutputLine& line : lines) lines_.push_back(std::move(line.text));
  if (lines_.size() > kKeptLines) lines_.erase(lines_.begin(), lines_.end() - kKeptLines);
}

void BootstrapProcess::end(const io::ExitStatus& status) {
  process_->kill_group();  // what it left in the background
  read_steps();
  read_output();
  std::vector<wire::OutputLine> rest;
  output_splitter_.finish(read_now(), rest);
  remember(std::move(rest));
  const bool ok = status.code == 0 && status.signal == 0;
  events_.on_end({.ok = ok,
                  .command = ok ? "" : failed_command_,
                  .reason = ok ? "" : status.describe(),
                  .lines = std::move(lines_)});
}

}  // namespace skyward::agent
