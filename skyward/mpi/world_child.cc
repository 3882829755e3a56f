#include "skyward/mpi/world_child.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "skyward/io/ending_signals.h"
#include "skyward/io/file.h"

namespace skyward::mpi {
namespace {

constexpr int kTailLines = 5;

}  // namespace

Result<std::unique_ptr<WorldChild>> WorldChild::start(io::EventLoop& loop, Options options,
                                                      std::function<void()> on_exit) {
  std::unique_ptr<WorldChild> child(new WorldChild(std::move(options)));
  io::SpawnOptions spawn;
  spawn.command = {"/bin/sh", "-c", R"(log=$1; shift; exec "$@" >"$log" 2>&1)", "sh",
                   child->options_.log};
  const auto& words = child->options_.command;
  spawn.command.insert(spawn.command.end(), words.begin(), words.end());
  spawn.environment = {child->options_.environment.begin(), child->options_.environment.end()};
  spawn.new_session = true;
  spawn.die_with_parent = true;
  auto process = io::Process::spawn(
      loop, spawn, [self = child.get(), tell = std::move(on_exit)](io::ExitStatus status) {
        self->process_->kill_group();  // what it left behind
        self->status_ = status;
        const auto told = tell;
        told();
      });
  if (!process) return fail(process);
  child->process_ = *std::move(process);
  return child;
}

WorldChild::~WorldChild() {
  if (process_) process_->kill_group();
}

void WorldChild::ask_to_end() { process_->signal(io::kTerminateSignal); }

std::string WorldChild::how_it_ended() const {
  const io::ExitStatus status = status_.value_or(io::ExitStatus{});
  const std::string how = status.signal != 0 ? fmt::format("signal {}", status.signal)
                                             : fmt::format("status {}", status.code);
  const std::string last = tail();
  return fmt::format("{} ended ({}){}", options_.name, how,
                     last.empty() ? "; it wrote nothing" : last);
}

std::string WorldChild::tail() const {
  const auto text = io::read_file(options_.log);
  if (!text) return {};
  std::string_view rest = *text;
  rest = rest.substr(0, rest.find_last_not_of(" \t\r\n") + 1);
  std::string lines;
  for (int i = 0; i < kTailLines && !rest.empty(); ++i) {
    const std::size_t before = rest.rfind('\n');
    const std::size_t at = before == rest.npos ? 0 : before + 1;
    lines.insert(0, fmt::format("\n  {}", rest.substr(at)));
    rest = rest.substr(0, at == 0 ? 0 : at - 1);
  }
  return lines.empty() ? "" : "; it wrote last:" + lines;
}

}  // namespace skyward::mpi
