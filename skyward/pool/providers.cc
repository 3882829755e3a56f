#include "skyward/pool/providers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "skyward/call/error.h"
#include "skyward/engine/loop_choice.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/provider_settings.h"

namespace skyward {

namespace {

std::string setting(const std::string& value) { return value; }
std::string setting(bool value) { return value ? "true" : "false"; }
std::string setting(int value) { return std::to_string(value); }
std::string setting(double value) { return fmt::format("{}", value); }
std::string setting(const std::vector<std::string>& value) {
  return fmt::format("{}", fmt::join(value, ","));
}

template <typename T>
void put(ProviderSpec& spec, const char* name, const T& value) {
  spec.settings[name] = setting(value);
}
template <typename T>
void put(ProviderSpec& spec, const char* name, const std::optional<T>& value) {
  if (value) put(spec, name, *value);
}

std::string json_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) {
    list += list.empty() ? "" : ",";
    append_json_string(list, word);
  }
  return "[" + list + "]";
}

}  // namespace

SSH::operator ProviderSpec() const {
  ProviderSpec spec{.name = "ssh", .settings = {}};
  if (!hosts.empty()) spec.settings["hosts"] = fmt::format("{}", fmt::join(hosts, "\n"));
  put(spec, "user", user);
  put(spec, "port", port);
  put(spec, "identity_file", identity_file);
  if (!jump.empty()) put(spec, "jump", jump);
  if (known_hosts) put(spec, "host_keys", std::filesystem::absolute(*known_hosts).string());
  put(spec, "config", config);
  put(spec, "preemption", preemption);
  return spec;
}

Command::operator ProviderSpec() const {
  std::vector<std::string> lists;
  for (const std::vector<std::string>& words : commands) lists.push_back(json_list(words));
  ProviderSpec spec{.name = "command", .settings = {}};
  if (!lists.empty()) spec.settings["commands"] = fmt::format("[{}]", fmt::join(lists, ","));
  if (!addresses.empty()) spec.settings["addresses"] = json_list(addresses);
  return spec;
}

AWS::operator ProviderSpec() const {
  ProviderSpec spec{.name = "aws", .settings = {}};
  put(spec, "region", region);
  put(spec, "use_ssm", use_ssm);
  put(spec, "ami", ami);
  put(spec, "ubuntu_version", ubuntu_version);
  put(spec, "subnet_id", subnet_id);
  put(spec, "security_group_id", security_group_id);
  put(spec, "instance_profile_arn", instance_profile_arn);
  put(spec, "username", username);
  put(spec, "instance_timeout", instance_timeout);
  put(spec, "request_timeout", request_timeout);
  put(spec, "allocation_strategy", allocation_strategy);
  put(spec, "exclude_burstable", exclude_burstable);
  return spec;
}

DigitalOcean::operator ProviderSpec() const {
  ProviderSpec spec{.name = "digital_ocean", .settings = {}};
  put(spec, "region", region);
  put(spec, "token", token);
  put(spec, "ssh_key_fingerprint", ssh_key_fingerprint);
  put(spec, "instance_timeout", instance_timeout);
  put(spec, "node_token", node_token);
  return spec;
}

Verda::operator ProviderSpec() const {
  ProviderSpec spec{.name = "verda", .settings = {}};
  put(spec, "region", region);
  put(spec, "client_id", client_id);
  put(spec, "client_secret", client_secret);
  put(spec, "ssh_key_id", ssh_key_id);
  put(spec, "instance_timeout", instance_timeout);
  put(spec, "request_timeout", request_timeout);
  return spec;
}

VastAI::operator ProviderSpec() const {
  ProviderSpec spec{.name = "vastai", .settings = {}};
  put(spec, "api_key", api_key);
  put(spec, "min_reliability", min_reliability);
  put(spec, "verified_only", verified_only);
  put(spec, "min_cuda", min_cuda);
  put(spec, "geolocation", geolocation);
  put(spec, "bid_multiplier", bid_multiplier);
  put(spec, "instance_timeout", instance_timeout);
  put(spec, "request_timeout", request_timeout);
  put(spec, "docker_image", docker_image);
  put(spec, "disk_gb", disk_gb);
  put(spec, "use_overlay", use_overlay);
  put(spec, "overlay_timeout", overlay_timeout);
  put(spec, "require_direct_port", require_direct_port);
  put(spec, "trust", trust);
  return spec;
}

RunPod::operator ProviderSpec() const {
  ProviderSpec spec{.name = "runpod", .settings = {}};
  put(spec, "api_key", api_key);
  put(spec, "cluster_mode", cluster_mode);
  put(spec, "global_networking", global_networking);
  put(spec, "cloud_type", cloud_type);
  put(spec, "ubuntu", ubuntu);
  put(spec, "container_disk_gb", container_disk_gb);
  put(spec, "volume_gb", volume_gb);
  put(spec, "volume_mount_path", volume_mount_path);
  put(spec, "network_volume", network_volume);
  put(spec, "registry_auth", registry_auth);
  put(spec, "data_center_ids", data_center_ids);
  put(spec, "ports", ports);
  put(spec, "provision_timeout", provision_timeout);
  put(spec, "bootstrap_timeout", bootstrap_timeout);
  put(spec, "instance_timeout", instance_timeout);
  put(spec, "request_timeout", request_timeout);
  put(spec, "cpu_clock", cpu_clock);
  put(spec, "bid_multiplier", bid_multiplier);
  return spec;
}

Slurm::operator ProviderSpec() const {
  ProviderSpec spec{.name = "slurm", .settings = {}};
  put(spec, "partition", partition);
  put(spec, "account", account);
  put(spec, "qos", qos);
  put(spec, "gres", gres);
  put(spec, "time", time);
  put(spec, "login", login);
  put(spec, "exclusive", exclusive);
  if (extra) put(spec, "extra", fmt::format("{}", fmt::join(*extra, "\n")));
  return spec;
}

ProviderSpec provider_to_take(const std::optional<ProviderSpec>& named) {
  auto name = engine::provider_to_take(named ? named->name : "");
  if (!name) throw_error(name.error());
  if (named && *name == named->name) return *named;
  return {.name = *std::move(name), .settings = {}};
}

std::vector<Offer> available_instances(const ProviderSpec& provider,
                                       const std::function<void()>& poll) {
  if (Status fits = validate_settings(provider.name, provider.settings); !fits) {
    throw_error(fits.error());
  }
  const auto complete = engine::with_settings(provider);
  if (!complete) throw_error(complete.error());
  auto offers = engine::catalogue_of(*complete, poll);
  if (!offers) throw_error(offers.error());
  return *std::move(offers);
}

}  // namespace skyward
