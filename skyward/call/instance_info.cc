#include "skyward/call/instance_info.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "skyward/call/error.h"

namespace skyward {

namespace {

// Never destroyed: the program's own threads may ask until the process ends.
struct Told {
  std::mutex mutex;
  std::optional<std::string> text;                       // as the agent has told it since
  std::vector<std::unique_ptr<const InstanceInfo>> all;  // that were returned: they stay valid
  std::atomic<const InstanceInfo*> info{nullptr};        // the last of them, if it still holds

  std::string value() const {
    if (text) return *text;
    const char* const first = std::getenv(kInstanceInfoVariable);
    return first == nullptr ? "" : first;
  }

  static Told& get() {
    static Told& told = *new Told;
    return told;
  }
};

int slot_of_process() {
  const char* const text = std::getenv(kSlotVariable);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

Result<InstanceInfo> parse_instance_info(std::string_view text) {
  InstanceInfo info;
  try {
    const auto json = nlohmann::json::parse(text);
    info.node = json.at("node");
    info.worker = json.value("worker", 0);
    info.total_nodes = json.at("total_nodes");
    info.workers_per_node = json.value("workers_per_node", 1);
    if (const auto& models = json.at("accelerators"); models.is_array()) {
      info.accelerators = models.get<std::vector<std::string>>();
    }
    info.total_accelerators = json.value("total_accelerators", 0);
    info.head_addr = json.at("head_addr");
    info.head_port = json.at("head_port");
    info.job_id = json.at("job_id");
    for (const auto& peer : json.value("peers", nlohmann::json::array())) {
      info.peers.push_back({.node = peer.at("node"), .private_ip = peer.at("private_ip")});
    }
    info.no_network_of = json.value("network", nlohmann::json::object()).value("missing", "");
  } catch (const nlohmann::json::exception& error) {
    return fail(ErrorKind::invalid,
                "COMPUTE_POOL does not describe a place in a pool: " + std::string(error.what()),
                "it is set for workers by the agent; unset it elsewhere");
  }
  return info;
}

const InstanceInfo& instance_info() {
  Told& told = Told::get();
  if (const InstanceInfo* info = told.info.load()) return *info;
  const std::lock_guard lock(told.mutex);
  const std::string text = told.value();
  InstanceInfo info;
  if (!text.empty()) {
    auto parsed = parse_instance_info(text);
    if (!parsed) throw_error(parsed.error());
    info = *std::move(parsed);
    info.slot = slot_of_process();
  }
  told.all.push_back(std::make_unique<const InstanceInfo>(std::move(info)));
  told.info = told.all.back().get();
  return *told.info;
}

std::string instance_info_text() {
  Told& told = Told::get();
  const std::lock_guard lock(told.mutex);
  return told.value();
}

void set_instance_info(std::string text) {
  Told& told = Told::get();
  const std::lock_guard lock(told.mutex);
  told.text = std::move(text);
  told.info = nullptr;
}

std::string current_accelerator() {
  const std::vector<std::string>& models = instance_info().accelerators;
  return models.empty() ? std::string() : models.front();
}

}  // namespace skyward
