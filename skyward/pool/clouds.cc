// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include "skyward/pool/clouds/aws.h"
#include "skyward/pool/clouds/container.h"
#include "skyward/pool/clouds/digital_ocean.h"
#include "skyward/pool/clouds/kubernetes.h"
#include "skyward/pool/clouds/runpod.h"
#include "skyward/pool/clouds/slurm.h"
#include "skyward/pool/clouds/vastai.h"
#include "skyward/pool/clouds/verda.h"
#include "skyward/pool/put_setting.h"

namespace skyward {

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
  put(spec, "private_addresses", private_addresses);
  put(spec, "tags", tags);
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

Kubernetes::operator ProviderSpec() const {
  ProviderSpec spec{.name = "kubernetes", .settings = {}};
  put(spec, "context", context);
  put(spec, "namespace", name_space);
  put(spec, "image", image);
  put(spec, "gpu", gpu);
  put(spec, "node_selector", node_selector);
  put(spec, "tolerations", tolerations);
  put(spec, "service_account", service_account);
  put(spec, "run_as_user", run_as_user);
  put(spec, "autoscaled", autoscaled);
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
  put(spec, "min_cuda", min_cuda);
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
  put(spec, "extra", joined(extra, '\n'));
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

Container::operator ProviderSpec() const {
  ProviderSpec spec{.name = "container", .settings = {}};
  put(spec, "runtime", runtime);
  put(spec, "image", image);
  put(spec, "network", network);
  put(spec, "host", host);
  return spec;
}

}  // namespace skyward
