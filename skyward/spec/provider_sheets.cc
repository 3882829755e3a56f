// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <array>

#include "skyward/spec/provider_settings.h"

namespace skyward {

namespace {

using enum SettingKind;
using enum FromProject;

constexpr std::array<ProviderSetting, 14> kAWS = {{
    {"region", SettingKind::region, anybody, "us-east-1", ""},
    {"use_ssm", flag, trusted, "false", ""},
    {"ami", text, trusted, "", "", true},
    {"ubuntu_version", text, trusted, "24.04", ""},
    {"subnet_id", text, trusted, "", ""},
    {"security_group_id", text, trusted, "", ""},
    {"instance_profile_arn", text, trusted, "", ""},
    {"username", text, trusted, "", ""},
    {"instance_timeout", whole, anybody, "300", ""},
    {"request_timeout", whole, anybody, "30", ""},
    {"allocation_strategy", choice, anybody, "price-capacity-optimized",
     "price-capacity-optimized|capacity-optimized|lowest-price"},
    {"exclude_burstable", flag, anybody, "false", ""},
    {"private_addresses", flag, trusted, "false", ""},
    {"tags", list, trusted, "", ""},
}};

constexpr std::array<ProviderSetting, 5> kDigitalOcean = {{
    {"region", SettingKind::region, anybody, "nyc1", ""},
    {"token", secret, trusted, "", ""},
    {"ssh_key_fingerprint", text, trusted, "", ""},
    {"instance_timeout", whole, anybody, "300", ""},
    {"node_token", secret, trusted, "", ""},
}};

constexpr std::array<ProviderSetting, 9> kKubernetes = {{
    {"context", text, trusted, "", ""},
    {"namespace", text, trusted, "", ""},
    {"image", text, trusted, "", "", true},
    {"gpu", text, anybody, "", ""},
    {"node_selector", list, anybody, "", ""},
    {"tolerations", list, anybody, "", ""},
    {"service_account", text, trusted, "", ""},
    {"run_as_user", whole, anybody, "", ""},
    {"autoscaled", flag, anybody, "false", ""},
}};

constexpr std::array<ProviderSetting, 19> kRunPod = {{
    {"api_key", secret, trusted, "", ""},
    {"cluster_mode", choice, trusted, "individual", "individual|instant"},
    {"global_networking", flag, trusted, "", ""},
    {"cloud_type", choice, trusted, "secure", "secure|community"},
    {"ubuntu", text, trusted, "newest", ""},
    {"container_disk_gb", whole, anybody, "50", ""},
    {"volume_gb", whole, anybody, "20", ""},
    {"volume_mount_path", text, trusted, "/workspace", ""},
    {"network_volume", text, trusted, "", ""},
    {"registry_auth", text, trusted, "docker hub", ""},
    {"data_center_ids", list, trusted, "global", ""},
    {"ports", list, trusted, "22/tcp", ""},
    {"provision_timeout", whole, anybody, "300", ""},
    {"bootstrap_timeout", whole, anybody, "600", ""},
    {"instance_timeout", whole, anybody, "300", ""},
    {"request_timeout", whole, anybody, "30", ""},
    {"cpu_clock", choice, anybody, "3c", "3c|5c"},
    {"min_cuda", number, anybody, "0", ""},
    {"bid_multiplier", number, trusted, "1", ""},
}};

constexpr std::array<ProviderSetting, 8> kSlurm = {{
    {"partition", text, anybody, "", ""},
    {"account", text, trusted, "", ""},
    {"qos", text, anybody, "", ""},
    {"gres", text, anybody, "", ""},
    {"time", text, anybody, "", ""},
    {"login", text, trusted, "", ""},
    {"exclusive", flag, anybody, "false", ""},
    {"extra", lines, trusted, "", ""},
}};

constexpr std::array<ProviderSetting, 14> kVastAI = {{
    {"api_key", secret, trusted, "", ""},
    {"min_reliability", fraction, trusted, "0.95", ""},
    {"verified_only", flag, trusted, "true", ""},
    {"min_cuda", number, anybody, "12", ""},
    {"geolocation", text, trusted, "", ""},
    {"bid_multiplier", number, trusted, "1.2", ""},
    {"instance_timeout", whole, anybody, "300", ""},
    {"request_timeout", whole, anybody, "30", ""},
    {"docker_image", text, trusted, "", "", true},
    {"disk_gb", whole, anybody, "100", ""},
    {"use_overlay", flag, trusted, "true", ""},
    {"overlay_timeout", whole, anybody, "120", ""},
    {"require_direct_port", flag, anybody, "false", ""},
    {"trust", choice, trusted, "datacenters", "datacenters|community"},
}};

constexpr std::array<ProviderSetting, 6> kVerda = {{
    {"region", SettingKind::region, anybody, "", ""},
    {"client_id", text, trusted, "", ""},
    {"client_secret", secret, trusted, "", ""},
    {"ssh_key_id", text, trusted, "", ""},
    {"instance_timeout", whole, anybody, "300", ""},
    {"request_timeout", whole, anybody, "30", ""},
}};

constexpr std::array<ProviderSetting, 3> kCommand = {{
    {"commands", json, trusted, "", ""},
    {"python", internal, trusted, "", ""},
    {"addresses", json, trusted, "", ""},
}};

constexpr std::array<ProviderSetting, 4> kContainer = {{
    {"runtime", choice, anybody, "", "podman|docker"},
    {"image", text, trusted, "", "", true},
    {"network", text, trusted, "", ""},
    {"host", text, trusted, "", ""},
}};

constexpr std::array<ProviderSetting, 8> kSSH = {{
    {"hosts", lines, trusted, "", ""},
    {"user", text, trusted, "", ""},
    {"port", whole, trusted, "", ""},
    {"identity_file", path, trusted, "", ""},
    {"jump", list, trusted, "", ""},
    {"host_keys", SettingKind::host_keys, trusted, "", ""},
    {"config", path, trusted, "", ""},
    {"preemption", choice, trusted, "", "ec2"},
}};

constexpr std::array<ProviderSheet, 10> kSheets = {{
    {"aws", "AWS", "AWS", kAWS, true},
    {"digital_ocean", "DigitalOcean", "Digital Ocean", kDigitalOcean, true},
    {"kubernetes", "Kubernetes", "Kubernetes", kKubernetes, true},
    {"runpod", "RunPod", "RunPod", kRunPod, true},
    {"slurm", "Slurm", "Slurm", kSlurm, true},
    {"vastai", "VastAI", "Vast.ai", kVastAI, true},
    {"verda", "Verda", "Verda", kVerda, true},
    {"command", "Command", "command", kCommand, false},
    {"container", "Container", "Containers", kContainer, false},
    {"ssh", "SSH", "ssh", kSSH, false},
}};

}  // namespace

std::span<const ProviderSheet> provider_sheets() { return kSheets; }

}  // namespace skyward
