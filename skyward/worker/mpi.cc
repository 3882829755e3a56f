#include "skyward/worker/mpi.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "skyward/call/instance_info.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"
#include "skyward/io/shared_memory.h"
#include "skyward/worker/mpi_rank.h"
#include "skyward/worker/rank_error.h"
#include "skyward/worker/worker.h"

// Of the MPI that the program is linked with, if it is: Open MPI has both, MPICH the second.
extern "C" {
[[gnu::weak]] extern char ompi_mpi_comm_world;
[[gnu::weak]] int MPI_Init(int*, char***);
}

namespace skyward::distributed {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// How often a cancellation is looked for, and how long the program may then take to end its world.
constexpr Duration kLookInterval = 50ms;
constexpr Duration kCancelTimeout = 1500ms;
constexpr int kSecretDigits = 64;
// Of the ranks' output and error, in the program of the world; its own output is its answer.
constexpr int kRankOut = 3;
constexpr int kRankErr = 4;

// `skyward-agent mpi` from its start to its end.
class WorldProgram {
 public:
  std::string run(std::string_view order) {
    auto input = io::SharedMemory::create(order.size());
    auto output = io::make_pipe();
    if (!input || !output) throw_error(input ? output.error() : input.error());
    io::copy_bytes((*input)->data(), as_bytes(order));
    if (Status set = io::set_non_blocking(output->write.get(), false); !set) {
      throw_error(set.error());
    }
    io::SpawnOptions spawn;
    // The agent has started this worker.
    spawn.command = {"/proc/" + std::to_string(getppid()) + "/exe", "mpi"};
    spawn.descriptors = {{(*input)->descriptor(), 0},
                         {output->write.get(), STDOUT_FILENO},
                         {STDERR_FILENO, STDERR_FILENO},
                         {STDOUT_FILENO, kRankOut},
                         {STDERR_FILENO, kRankErr}};
    spawn.new_session = true;
    spawn.die_with_parent = true;
    auto process = io::Process::spawn(loop_, spawn, [this](const io::ExitStatus& status) {
      status_ = status;
      stop_if_done();
    });
    if (!process) throw_error(process.error());
    process_ = *std::move(process);
    output->write.reset();
    report_ = std::move(output->read);
    loop_.watch(report_.get(), [this] { take(); });
    look_later();
    loop_.run();
    if (is_cancelled_) {
      process_->kill_group();
      throw CancelledError("the caller cancelled this task");
    }
    // One that was killed has written a part of its answer, perhaps.
    if (answer_.empty() || status_->signal != 0) {
      throw SkywardError("skyward-agent mpi: " + status_->describe());
    }
    return std::move(answer_);
  }

 private:
  void take() {
    std::array<std::byte, std::size_t{64} << 10> buffer;
    const auto count = io::read_some(report_.get(), buffer);
    if (!count) return;
    answer_ += as_text(ByteView(buffer).first(*count));
    if (*count > 0) return;
    loop_.unwatch(report_.get());
    report_.reset();
    stop_if_done();
  }

  void stop_if_done() {
    if (status_ && !report_) loop_.stop();
  }

  void look_later() {
    loop_.start_timer(io::EventLoop::now() + kLookInterval, [this] {
      if (!cancelled()) return look_later();
      is_cancelled_ = true;
      process_->signal(io::kTerminateSignal);
      loop_.start_timer(io::EventLoop::now() + kCancelTimeout, [this] { loop_.stop(); });
    });
  }

  io::EventLoop loop_;
  io::FileDescriptor report_;
  std::string answer_;
  std::optional<io::ExitStatus> status_;
  bool is_cancelled_ = false;
  std::unique_ptr<io::Process> process_;
};

// Where worker 0 listens and the others connect to. The program knows no names of hosts. A machine
// that takes this for its own name (Debian's is 127.0.1.1) listens at each of its addresses, since
// the other machines resolve the name to another one.
std::string meeting_address(const std::string& head) {
  const std::string address = io::address_of_name(head).value_or(head);
  const bool is_meant = head == "localhost" || head.starts_with("127.");
  return !is_meant && address.starts_with("127.") ? "0.0.0.0" : address;
}

json own_place() {
  json place = json::parse(instance_info_text(), nullptr, false);
  if (!place.is_object()) throw ConfigurationError("a world of MPI needs a pool");
  place["head_addr"] = meeting_address(place.value("head_addr", ""));
  return place;
}

std::string rank_order(const MpiOrder& order) {
  RankOrder told{.environment = {},
                 .folder = io::working_directory(),
                 .symbol = order.symbol,
                 .arguments = order.arguments};
  for (char** one = environ; *one != nullptr; ++one) {
    const std::size_t name = std::strcspn(*one, "=");
    if ((*one)[name] == '=') told.environment[std::string(*one, name)] = *one + name + 1;
  }
  told.environment[kInstanceInfoVariable] = instance_info_text();
  ArchiveWriter writer(memory_store());
  writer(told);
  return packed(writer.finish());
}

// Ranks that another MPI starts would each be alone in a world.
std::string implementation_of(const MpiOrder& order) {
  std::string linked;
  if (&MPI_Init != nullptr) linked = &ompi_mpi_comm_world != nullptr ? "openmpi" : "mpich";
  if (linked.empty() || order.implementation.empty() || linked == order.implementation) {
    return order.implementation.empty() ? linked : order.implementation;
  }
  throw ConfigurationError(order.function + ": the program is linked with " + linked +
                           ", so that " + order.implementation +
                           " cannot start its ranks; leave implementation out");
}

[[noreturn]] void throw_told(const json& error) {
  const std::string kind = error.value("kind", "");
  Error told{
      .kind = ErrorKind::task, .message = error.value("text", ""), .hint = error.value("hint", "")};
  for (const ErrorKind known : {ErrorKind::invalid, ErrorKind::timeout, ErrorKind::cancelled}) {
    if (kind == to_string(known)) told.kind = known;
  }
  throw_error(told);
}

// Several nodes without a network among them can have no world.
void require_network(const json& place, const std::string& function) {
  const std::string missing = place.value("network", json::object()).value("missing", "");
  if (missing.empty() || place.value("total_nodes", 1) == 1) return;
  throw ConfigurationError(
      function + "() of mpi: the nodes of this pool cannot reach each other, since " + missing +
      " gives them no network of their own. Use one node, or a provider whose nodes share a "
      "network, such as AWS, SSH or the local one");
}

}  // namespace

MpiOrder mpi_order(const MpiOptions& options, const RegisteredFunction& function,
                   const wire::Payload& arguments) {
  return {.function = function.name(),
          .symbol = function.symbol(),
          .ranks_per_node = options.ranks_per_node,
          .implementation = std::string(options.implementation),
          .timeout_s = seconds(options.timeout),
          .secret = io::random_hex(kSecretDigits),
          .arguments = packed(arguments)};
}

std::vector<wire::Payload> run_ranks(const MpiOrder& order) {
  const json place = own_place();
  require_network(place, order.function);
  const std::string told = rank_order(order);
  const json asked = {{"place", place},
                      {"name", order.function},
                      {"timeout", order.timeout_s},
                      {"ranks_per_node", order.ranks_per_node},
                      {"implementation", implementation_of(order)},
                      {"secret", order.secret},
                      {"rank", {"/proc/" + std::to_string(getpid()) + "/exe"}},
                      {"streams", {kRankOut, kRankErr}},
                      {"bytes", told.size()}};
  const std::string line = asked.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  const SharedBytes answer(WorldProgram().run(line + told));
  const std::string_view text = as_text(answer.view);
  const std::size_t end = std::min(text.find('\n'), text.size());
  const json head = json::parse(text.substr(0, end), nullptr, false);
  if (!head.is_object()) throw SkywardError("skyward-agent mpi answered nothing");
  if (head.contains("error")) throw_told(head.at("error"));
  std::vector<wire::Payload> results;
  std::size_t at = end + 1;
  for (const std::size_t size : head.at("sizes").get<std::vector<std::size_t>>()) {
    if (answer.view.size() < at || answer.view.size() - at < size) {
      throw SkywardError("skyward-agent mpi: its answer is incomplete");
    }
    results.push_back(unpacked(SharedBytes(answer.owner, answer.view.subspan(at, size))));
    at += size;
  }
  if (head.at("raised").get<bool>()) throw RankError(std::move(results.at(0)));
  return results;
}

}  // namespace skyward::distributed
