#include "skyward/mpi/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/stderr_line.h"
#include "skyward/call/instance_info.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/machine.h"
#include "skyward/io/own_process.h"
#include "skyward/mpi/frame.h"
#include "skyward/mpi/meeting.h"
#include "skyward/mpi/world.h"

namespace skyward::mpi {
namespace {

using nlohmann::json;

constexpr int kWrong = 2;

std::string read_all() {
  std::string text;
  std::array<std::byte, std::size_t{64} << 10> buffer{};
  while (const std::size_t count = io::read_some(0, buffer).value_or(0)) {
    text += as_text(ByteView(buffer).first(count));
  }
  return text;
}

bool write_all(int descriptor, ByteView bytes) {
  while (!bytes.empty()) {
    const auto taken = io::write_part(descriptor, bytes);
    if (!taken) return false;
    bytes = bytes.subspan(*taken);
  }
  return true;
}

int answer(const json& head, const std::vector<SharedBytes>& bodies = {}) {
  const auto named = io::environment_variable("SKYWARD_READY");
  const int descriptor = named ? std::atoi(named->c_str()) : 1;
  (void)io::set_non_blocking(descriptor, false);
  const std::string line = words_of(head) + "\n";
  bool written = write_all(descriptor, as_bytes(line));
  for (const SharedBytes& body : bodies) written = written && write_all(descriptor, body.view);
  return written ? 0 : 1;
}

json json_of(const Error& error) {
  return {{"error",
           {{"kind", to_string(error.kind)},
            {"text", error.message},
            {"hint", error.hint},
            {"facts", error.facts}}}};
}

InstanceInfo place_in(const json& order) {
  auto place = parse_instance_info(order.at("place").dump());
  if (!place) throw std::invalid_argument(place.error().message);
  return *std::move(place);
}

Duration timeout_in(const json& order) { return from_seconds(order.at("timeout").get<double>()); }

// A program that knows no such order was made for another version.
template <typename Act>
int with_order(const std::string& text, Act act) {
  try {
    return act(json::parse(text));
  } catch (const std::exception& error) {
    write_stderr_line(fmt::format("skyward-agent: this is not an order: {}", error.what()));
    return kWrong;
  }
}

WorldOrder order_of(const json& order, std::string call) {
  if (call.size() != order.at("bytes").get<std::size_t>()) {
    throw std::invalid_argument("the call that follows it is incomplete");  // its sender was killed
  }
  WorldOrder out{.place = place_in(order),
                 .name = order.at("name"),
                 .timeout = timeout_in(order),
                 .ranks_per_node = order.at("ranks_per_node"),
                 .implementation = order.at("implementation"),
                 .secret = order.at("secret"),
                 .rank = order.at("rank").get<std::vector<std::string>>(),
                 .streams = order.at("streams").get<std::vector<int>>()};
  out.call = SharedBytes(std::move(call));
  return out;
}

int run(WorldOrder order) {
  io::EventLoop loop;
  std::optional<Result<WorldAnswer>> answered;
  const std::unique_ptr<MpiWorld> world =
      MpiWorld::begin(loop, std::move(order), [&](Result<WorldAnswer> told) {
        answered = std::move(told);
        loop.stop();
      });
  loop.watch_signal(io::kTerminateSignal, [&] { world->cancel(); });
  loop.run();
  if (!*answered) return answer(json_of(answered->error()));
  std::vector<std::size_t> sizes;
  for (const SharedBytes& one : (*answered)->ranks) sizes.push_back(one.size());
  return answer({{"raised", (*answered)->raised}, {"sizes", sizes}}, (*answered)->ranks);
}

int find(const std::string& wanted) {
  const auto launcher = find_launcher(wanted);
  if (!launcher) return answer(json_of(launcher.error()));
  return answer({{"kind", launcher->kind}, {"version", launcher->version}});
}

}  // namespace

int run_meeting() {
  io::ignore_write_signals();
  return with_order(read_all(), [](const json& order) {
    io::EventLoop loop;
    std::optional<Met> met;
    MeetingOptions options{.place = place_in(order),
                           .call = order.at("call"),
                           .timeout = timeout_in(order),
                           .brought = order.at("brought").dump()};
    if (order.contains("port_timeout")) {
      options.port_timeout = from_seconds(order.at("port_timeout").get<double>());
    }
    const auto meeting = Meeting::begin(loop, std::move(options), [&](Met told) {
      met = std::move(told);
      loop.stop();
    });
    loop.run();
    if (!*met) return answer(json_of(met->error()));
    json all = json::array();
    for (const std::string& text : **met) {
      json one = json::parse(text, nullptr, false);
      all.push_back(one.is_discarded() ? json() : std::move(one));
    }
    return answer({{"all", all}});
  });
}

int run_world() {
  io::ignore_write_signals();
  std::string text = read_all();
  const std::size_t line = std::min(text.find('\n'), text.size());
  return with_order(text.substr(0, line), [&](const json& order) {
    if (order.contains("find")) return find(order.at("find").get<std::string>());
    return run(order_of(order, text.substr(std::min(line + 1, text.size()))));
  });
}

}  // namespace skyward::mpi
