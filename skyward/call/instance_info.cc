#include "skyward/call/instance_info.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "skyward/call/error.h"

namespace skyward {

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
  static const InstanceInfo& info = *new const InstanceInfo([] {
    const char* text = std::getenv("COMPUTE_POOL");
    if (text == nullptr || *text == '\0') return InstanceInfo{};
    auto parsed = parse_instance_info(text);
    if (!parsed) throw_error(parsed.error());
    return *std::move(parsed);
  }());
  return info;
}

std::string current_accelerator() {
  const std::vector<std::string>& models = instance_info().accelerators;
  return models.empty() ? std::string() : models.front();
}

}  // namespace skyward
