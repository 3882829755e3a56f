#include "skyward/mpi/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "skyward/io/channel.h"
#include "skyward/io/file.h"
#include "skyward/io/listener.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/io/process.h"
#include "skyward/io/unix_socket.h"
#include "skyward/mpi/frame.h"
#include "skyward/mpi/meeting.h"
#include "skyward/mpi/world_child.h"
#include "skyward/mpi/world_folder.h"
#include "skyward/spec/image.h"

namespace skyward::mpi {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// How long the rest of MPI may take to end by itself after mpirun, and all of it after an error,
// which it tells all nodes; a rank that is lost may be one. A daemon that is ended before it has
// told mpirun may leave that waiting. And how long it may take when it is asked to end.
constexpr Duration kEndTimeout = 10s;
constexpr Duration kRaisedTimeout = 5s;
constexpr Duration kAskedTimeout = 1s;
constexpr Duration kLookInterval = 20ms;
constexpr Duration kVersionTimeout = 20s;
constexpr int kRandomDigits = 32;
// The beginnings of the names of variables that MPI sets for a rank; all others are its worker's.
constexpr const char* kOwnVariables = "OMPI_ OPAL_ ORTE_ PMI HYD MPI FI_ SKYWARD_MPI";
// What a rank runs: the same line on every node, whose paths may differ.
constexpr const char* kStart =
    "LD_LIBRARY_PATH=\"$SKYWARD_MPI_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\""
    " exec /bin/sh \"$SKYWARD_MPI_START\"";

std::optional<std::string> on_path(const std::string& name) {
  return io::find_program(name, io::environment_variable("PATH"));
}

// Where the loader finds a library of this name; empty if it knows none.
std::string library_path(const std::string& name) {
  const auto known = io::run_command({.command = {"/sbin/ldconfig", "-p"}}, kVersionTimeout);
  if (!known) return {};
  const std::size_t line = known->out.find("\t" + name + " ");
  const std::size_t arrow = known->out.find("=> ", line);
  if (line == known->out.npos || arrow == known->out.npos) return {};
  return known->out.substr(arrow + 3, known->out.find('\n', arrow) - arrow - 3);
}

json json_of(const Result<DaemonLines>& lines) {
  if (!lines) return {{"problem", lines.error().message}};
  return {{"pattern", lines->pattern}, {"numbers", lines->numbers}, {"mac", lines->mac}};
}

// Fails with what worker 0 could not do.
Result<DaemonLines> lines_in(const std::string& text) {
  const json told = json::parse(text, nullptr, false);
  DaemonLines lines;
  try {
    if (told.contains("problem")) {
      return fail(ErrorKind::unavailable, told.at("problem").get<std::string>());
    }
    told.at("pattern").get_to(lines.pattern);
    told.at("numbers").get_to(lines.numbers);
    told.at("mac").get_to(lines.mac);
  } catch (const json::exception&) {  // not from worker 0: neither is its signature
    return DaemonLines{};
  }
  return lines;
}

Result<Cut> cut_answer(ByteView prefix) {
  return Cut{
      .head_bytes = 0, .body_bytes = static_cast<std::size_t>(length_in(prefix)), .descriptors = 0};
}

class RunningWorld final : public MpiWorld {
 public:
  RunningWorld(io::EventLoop& loop, WorldOrder order,
               std::function<void(Result<WorldAnswer>)> on_end)
      : loop_(loop), order_(std::move(order)), on_end_(std::move(on_end)) {}

  ~RunningWorld() override {
    loop_.cancel_timer(timer_);
    loop_.cancel_timer(lost_timer_);
    *alive_ = false;
  }

  void begin() {
    if (Status begun = prepare(); !begun) return conclude(fail(begun));
    meet(call_name(),
         words_of({{"mpi", launcher_.kind + " " + launcher_.version}, {"random", random_}}),
         [this](const std::vector<std::string>& all) { on_launchers(all); });
  }

  void cancel() override {
    conclude(fail(ErrorKind::cancelled, "the call was cancelled"));
    if (!asks_) ask_to_end();
  }

 private:
  std::string call_name() const { return order_.name + "() of mpi"; }
  int count() const { return order_.ranks_per_node; }

  void after(Duration duration, io::Callback callback) {
    loop_.cancel_timer(timer_);
    timer_ = loop_.start_timer(io::EventLoop::now() + duration, std::move(callback));
  }

  // ---- before MPI

  Status prepare() {
    if (Status fits = require_one_worker_per_host(order_.place, order_.name); !fits) return fits;
    auto launcher = find_launcher(order_.implementation);
    if (!launcher) return fail(launcher);
    launcher_ = *std::move(launcher);
    auto folder = WorldFolder::make();
    if (!folder) return fail(folder);
    folder_ = *std::move(folder);
    std::string script = "exec";
    for (const std::string& word : order_.rank) script += " " + shell_quote(word);
    if (Status written = io::write_private_file(*folder_ / "rank", script + "\n"); !written) {
      return written;
    }
    auto socket = io::listen_at(*folder_ / "ranks");
    if (!socket) return fail(socket);
    listener_.emplace(loop_, *std::move(socket),
                      [this](io::FileDescriptor rank) { greet(std::move(rank)); });
    return {};
  }

  void meet(const std::string& call, std::string brought,
            std::function<void(const std::vector<std::string>&)> then) {
    meeting_ = Meeting::begin(loop_,
                              {.place = order_.place,
                               .call = call,
                               .timeout = order_.timeout,
                               .brought = std::move(brought)},
                              [this, alive = alive_, then = std::move(then)](const Met& met) {
                                if (!*alive || concluded_) return;
                                meeting_.reset();
                                if (!met) return conclude(fail(met));
                                then(*met);
                              });
  }

  void on_launchers(const std::vector<std::string>& all) {
    std::vector<std::string> found, thrown_in;
    for (const std::string& text : all) {
      const json one = json::parse(text, nullptr, false);
      const auto word = [&one](const char* name) {
        const bool is_there = one.is_object() && one.contains(name) && one[name].is_string();
        return is_there ? one[name].get<std::string>() : "something unknown";
      };
      found.push_back(word("mpi"));
      thrown_in.push_back(word("random"));
    }
    // Whoever answers in worker 0's place may have heard an earlier call.
    thrown_in.at(static_cast<std::size_t>(order_.place.global_worker_index())) = random_;
    key_ = key_of_call(order_.secret, thrown_in);
    if (Status same = require_one_mpi(found, order_.name); !same) return conclude(fail(same));
    if (order_.place.global_worker_index() != 0) return tell_lines("null");
    if (Status launched = launch(); !launched) {
      return tell_lines(words_of(json_of(fail(launched))));
    }
    launch_end_ = io::EventLoop::now() + order_.timeout;
    look_for_lines();
  }

  // ---- starting MPI

  // What its programs and the ranks find in their environment.
  Result<std::map<std::string, std::string>> variables(const std::string& own_folder) const {
    // Several on one machine share names of files.
    if (Status made = io::make_private_directory(*folder_ / own_folder); !made) return fail(made);
    return std::map<std::string, std::string>{
        {"SKYWARD_MPI_SOCKET", *folder_ / "ranks"},
        {"SKYWARD_MPI_START", *folder_ / "rank"},
        {"SKYWARD_MPI_LIBRARIES", *folder_ / "libraries"},
        {"SKYWARD_MPI_KIND", launcher_.kind},
        {"SKYWARD_MPI_OWN", kOwnVariables},
        {"SKYWARD_MPI_SIZE", std::to_string(order_.place.total_workers() * count())},
        {"SKYWARD_MPI_LAUNCHER",
         fmt::format("{} ({} {})", launcher_.program, launcher_.kind, launcher_.version)},
        {"TMPDIR", *folder_ / own_folder}};
  }

  // Programs that were not built for an MPI of this system look for the library by another name
  // than that of Debian's MPICH.
  void link_library() const {
    if (!io::make_private_directory(*folder_ / "libraries") || !launcher_.is_mpich()) return;
    const std::string path = library_path("libmpich.so.12");
    std::error_code ignored;
    if (path.empty()) return;
    std::filesystem::create_symlink(path, *folder_ / "libraries/libmpi.so.12", ignored);
  }

  Status start(const std::string& name, std::vector<std::string> command,
               std::map<std::string, std::string> environment, const std::string& log) {
    auto child = WorldChild::start(loop_,
                                   {.name = name,
                                    .command = std::move(command),
                                    .environment = std::move(environment),
                                    .log = *folder_ / log},
                                   [this] { on_child_end(); });
    if (!child) return fail(child);
    children_.insert(children_.begin(), *std::move(child));
    return {};
  }

  Status launch() {
    link_library();
    const std::vector<std::string> hosts = hosts_of(order_.place);
    MpirunPlan plan =
        plan_launch(order_.place, launcher_, folder_->path(),
                    order_.place.total_workers() * count(), kStart, io::user_id() == 0);
    for (auto& [name, value] : plan.environment) {
      value = io::environment_variable(name.c_str()).value_or(value);
    }
    auto known = variables("launcher");
    if (!known) return fail(known);
    plan.environment.merge(*known);  // for the ranks that it starts itself
    for (const auto& [name, text] : {std::pair{"hosts", hosts_file(hosts, launcher_, count())},
                                     std::pair{"ssh", noting_script(folder_->path())}}) {
      if (Status written = io::write_private_file(*folder_ / name, text); !written) return written;
    }
    std::error_code error;
    std::filesystem::permissions(*folder_ / "ssh", std::filesystem::perms::owner_all, error);
    // On its own host, which it knows by the address, mpirun needs no daemon.
    is_host_ = !share_an_address(order_.place);
    for (std::size_t i = is_host_ ? 1 : 0; i < hosts.size(); ++i) {
      line_paths_.push_back(*folder_ / (hosts[i] + ".line"));
    }
    return start(fmt::format("mpirun ({} {})", launcher_.kind, launcher_.version),
                 std::move(plan.command), std::move(plan.environment), "mpirun.log");
  }

  void look_for_lines() {
    const WorldChild& mpirun = *children_.front();
    if (std::ranges::all_of(line_paths_, io::exists)) {
      std::vector<std::string> lines;
      for (const std::string& path : line_paths_) {
        lines.push_back(io::read_file(path).value_or(""));
      }
      return tell_lines(words_of(json_of(sign(lines, launcher_.kind, is_host_, key_))));
    }
    if (mpirun.has_ended()) return tell_problem(mpirun.how_it_ended());
    if (io::EventLoop::now() > launch_end_) {
      return tell_problem(fmt::format("mpirun did not start anything within {:g} s{}",
                                      seconds(order_.timeout), mpirun.tail()));
    }
    after(kLookInterval, [this] { look_for_lines(); });
  }

  void tell_problem(const std::string& text) { tell_lines(words_of({{"problem", text}})); }

  void tell_lines(std::string told) {
    meet(call_name() + ", launched", std::move(told),
         [this](const std::vector<std::string>& all) { on_lines(all.front()); });
  }

  void on_lines(const std::string& told) {
    const Result<DaemonLines> lines = lines_in(told);
    if (!lines) return conclude(fail(lines));
    auto command = daemon_command(*lines, launcher_.kind, order_.place.global_worker_index(), key_);
    if (!command) return conclude(fail(command));
    if (!command->empty()) {
      if (order_.place.global_worker_index() != 0) link_library();
      auto known = variables("daemon");
      if (!known) return conclude(fail(known));
      if (Status started = start("MPI's " + launcher_.daemon(), *std::move(command),
                                 *std::move(known), "daemon.log");
          !started) {
        return conclude(fail(started));
      }
    }
    serving_ = true;
    on_child_end();  // perhaps one has, meanwhile
    if (!concluded_ && seen_ < count()) after(order_.timeout, [this] { miss_ranks(); });
  }

  // ---- the ranks

  void greet(io::FileDescriptor socket) {
    if (concluded_) return;
    ++seen_;
    const int number = seen_;
    auto channel = std::make_unique<io::Channel>(
        loop_, std::move(socket), io::FileDescriptor(), kLengthBytes + sizeof(RankHead), cut_answer,
        io::Channel::Handlers{
            .on_message = [this, number](io::Incoming answer) { take(number, std::move(answer)); },
            .on_closed = [this, number](const Error& why) { lose(number, why.message); }});
    Outgoing call = framed(order_.call);
    call.descriptors = order_.streams;
    channel->send(std::move(call));
    ranks_[number] = std::move(channel);
    // How long they run is up to them.
    if (seen_ == count()) loop_.cancel_timer(std::exchange(timer_, 0));
  }

  void take(int number, io::Incoming answer) {
    RankHead head;
    std::memcpy(&head, answer.head.data() + kLengthBytes, sizeof head);
    ranks_.erase(number);
    if (head.raised != 0) return conclude(WorldAnswer{.raised = true, .ranks = {answer.body}});
    answers_[head.rank] = std::move(answer.body);
    if (answers_.size() < static_cast<std::size_t>(count())) return;
    on_child_end();  // perhaps one has; else the ranks of other nodes may run for long
  }

  // MPI may be about to say more.
  void lose(int number, const std::string& why) {
    ranks_.erase(number);
    if (concluded_ || lost_timer_ != 0) return;
    lost_timer_ = loop_.start_timer(io::EventLoop::now() + kRaisedTimeout, [this, why] {
      conclude(fail(ErrorKind::lost, "a rank of this node ended without a result" +
                                         (why.empty() ? "" : ": " + why)));
    });
  }

  void succeed() {
    WorldAnswer all;
    for (auto& [_, answer] : answers_) all.ranks.push_back(std::move(answer));
    conclude(std::move(all));
  }

  void miss_ranks() {
    conclude(
        fail(ErrorKind::timeout, fmt::format("{} of {} ranks of this node did not start in {:g} s",
                                             count() - seen_, count(), seconds(order_.timeout))));
  }

  bool is_complete() const { return answers_.size() == static_cast<std::size_t>(count()); }

  void on_child_end() {
    if (concluded_) return end_next();
    if (!serving_) return;
    const auto ended = std::ranges::find_if(children_, &WorldChild::has_ended);
    if (ended == children_.end()) return;
    // What has arrived already counts.
    for (int number = 1; number <= seen_ && !is_complete() && !concluded_; ++number) {
      if (const auto rank = ranks_.find(number); rank != ranks_.end()) rank->second->read_now();
    }
    if (concluded_) return;
    if (!is_complete()) {
      // Not the reason: the driver shows another worker's failure, if there is one.
      return conclude(fail(ErrorKind::cancelled,
                           fmt::format("the MPI world ended before this node had its result: {}",
                                       (*ended)->how_it_ended())));
    }
    if (std::ranges::all_of(children_, &WorldChild::has_ended)) return succeed();
    // MPICH's daemon ends with the ranks of its node, mpirun with those of all.
    if (children_.back()->has_ended()) after(kEndTimeout, [this] { succeed(); });
  }

  // ---- the end

  void conclude(Result<WorldAnswer> answer) {
    if (concluded_) return;
    const bool ends_itself = answer && answer->raised;
    concluded_ = std::move(answer);
    if (!ends_itself) return ask_to_end();
    after(kRaisedTimeout, [this] { ask_to_end(); });
    end_next();
  }

  void ask_to_end() {
    asks_ = true;
    after(kAskedTimeout, [this] { leave(); });
    end_next();
  }

  // One after the other: each may need those behind it to end in peace.
  void end_next() {
    const auto next = std::ranges::find_if_not(children_, &WorldChild::has_ended);
    if (next == children_.end()) return leave();
    if (!asks_ || asked_ == next->get()) return;
    asked_ = next->get();
    asked_->ask_to_end();
  }

  // Later: a child's or a channel's callback may be in progress.
  void leave() {
    if (left_) return;
    left_ = true;
    loop_.cancel_timer(std::exchange(timer_, 0));
    loop_.post([this, alive = alive_] {
      if (!*alive) return;
      meeting_.reset();
      ranks_.clear();
      listener_.reset();
      children_.clear();
      folder_.reset();
      const auto tell = std::exchange(on_end_, {});
      tell(*std::move(concluded_));
    });
  }

  io::EventLoop& loop_;
  const WorldOrder order_;
  const std::string random_ = io::random_hex(kRandomDigits);  // of this worker in this call
  std::string key_;                                           // of this call
  std::function<void(Result<WorldAnswer>)> on_end_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  io::EventLoop::TimerId timer_ = 0;
  io::EventLoop::TimerId lost_timer_ = 0;
  Launcher launcher_;
  std::unique_ptr<WorldFolder> folder_;
  std::optional<io::Listener> listener_;
  std::unique_ptr<Meeting> meeting_;
  std::vector<std::unique_ptr<WorldChild>> children_;  // the daemon before mpirun, if it is here
  std::vector<std::string> line_paths_;
  bool is_host_ = false;
  Time launch_end_{};
  bool serving_ = false;
  int seen_ = 0;
  std::map<int, std::unique_ptr<io::Channel>> ranks_;
  std::map<std::uint32_t, SharedBytes> answers_;
  std::optional<Result<WorldAnswer>> concluded_;
  bool asks_ = false;  // its programs to end
  WorldChild* asked_ = nullptr;
  bool left_ = false;
};

}  // namespace

Result<Launcher> find_launcher(const std::string& wanted) {
  for (const Kind& kind : kinds()) {
    if ((!wanted.empty() && wanted != kind.name) || !on_path(kind.daemon)) continue;
    for (const std::string& name : kind.launchers) {
      const auto program = on_path(name);
      if (!program) continue;
      const auto printed = io::run_command({.command = {*program, "--version"}}, kVersionTimeout);
      const std::string version = printed ? version_in(printed->out, kind.name) : "";
      if (!version.empty()) return Launcher{kind.name, *program, version};
    }
  }
  return std::unexpected(no_launcher(wanted, on_path("prted").has_value()));
}

std::unique_ptr<MpiWorld> MpiWorld::begin(io::EventLoop& loop, WorldOrder order,
                                          std::function<void(Result<WorldAnswer>)> on_end) {
  auto world = std::make_unique<RunningWorld>(loop, std::move(order), std::move(on_end));
  world->begin();
  return world;
}

}  // namespace skyward::mpi
