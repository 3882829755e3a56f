#pragma once

// Where a pool's machines come from: `.provider = sky::AWS{.region = "eu-west-1"}`. What is left
// out is as documented for the cloud (spec/provider_settings.cc). A cloud that this version cannot
// rent from is refused when the pool opens, before anything is started.

#include <optional>
#include <string>
#include <vector>

#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward {

// The nodes are processes of this machine.
struct Local {
  operator ProviderSpec() const { return {.name = "local", .settings = {}}; }
};

// Machines that one has already, by OpenSSH; each host is one node. Host keys are always verified.
struct SSH {
  std::vector<std::string> hosts;              // host, user@host or user@host:port
  std::optional<std::string> user{};           // where a host names none
  std::optional<int> port{};                   // the same
  std::optional<std::string> identity_file{};  // this private key and no other
  std::vector<std::string> jump{};             // by way of these, in order
  std::optional<std::string> known_hosts{};    // path; empty: the user's own files
  std::optional<std::string> config{};         // instead of ~/.ssh/config
  // "ec2": they are spot machines of EC2, whose notice before they are taken back is listened for.
  std::optional<std::string> preemption{};
  operator ProviderSpec() const;
};

// Nodes that are reached by commands: whatever takes one more word and runs it in a shell there,
// {"podman", "exec", "-i", "c1", "sh", "-c"}. Each command is one node; those beyond `nodes` stand
// in for nodes that are lost. This program is brought there and is the worker: it must run there.
struct Command {
  std::vector<std::vector<std::string>> commands;
  // Where the node of each command is reached by the others; empty: all are on one machine.
  std::vector<std::string> addresses{};
  operator ProviderSpec() const;
};

struct AWS {
  std::string region = "us-east-1";
  // Reach machines through Session Manager instead of port 22. Needs the AWS CLI with its plugin on
  // this computer, and instance_profile_arn.
  bool use_ssm = false;
  std::optional<std::string> ami{};
  std::string ubuntu_version = "24.04";
  std::optional<std::string> subnet_id{};
  std::optional<std::string> security_group_id{};
  std::optional<std::string> instance_profile_arn{};
  std::optional<std::string> username{};
  int instance_timeout = 300;  // seconds that a machine lives when the pool sets no timeout
  int request_timeout = 30;    // seconds
  std::string allocation_strategy = "price-capacity-optimized";
  bool exclude_burstable = false;
  operator ProviderSpec() const;
};

struct DigitalOcean {
  std::string region = "nyc1";
  std::optional<std::string> token{};
  std::optional<std::string> ssh_key_fingerprint{};
  int instance_timeout = 300;
  operator ProviderSpec() const;
};

struct Verda {
  std::optional<std::string> region{};  // empty: wherever the machine type is
  std::optional<std::string> client_id{};
  std::optional<std::string> client_secret{};
  std::optional<std::string> ssh_key_id{};
  int instance_timeout = 300;
  int request_timeout = 30;
  operator ProviderSpec() const;
};

struct VastAI {
  std::optional<std::string> api_key{};
  double min_reliability = 0.95;
  bool verified_only = true;
  double min_cuda = 12.0;
  std::optional<std::string> geolocation{};
  double bid_multiplier = 1.2;
  int instance_timeout = 300;
  int request_timeout = 30;
  std::optional<std::string> docker_image{};
  int disk_gb = 100;
  bool use_overlay = true;  // a private network among the nodes
  int overlay_timeout = 120;
  bool require_direct_port = false;
  operator ProviderSpec() const;
};

struct RunPod {
  std::optional<std::string> api_key{};
  std::string cluster_mode = "individual";  // or "instant"
  std::optional<bool> global_networking{};  // empty: when several nodes need it
  std::string cloud_type = "secure";        // or "community"
  std::string ubuntu = "newest";
  int container_disk_gb = 50;
  int volume_gb = 20;
  std::string volume_mount_path = "/workspace";
  std::optional<std::string> registry_auth = "docker hub";
  std::vector<std::string> data_center_ids = {"global"};
  std::vector<std::string> ports = {"22/tcp"};
  int provision_timeout = 300;
  int bootstrap_timeout = 600;
  int instance_timeout = 300;
  int request_timeout = 30;
  std::string cpu_clock = "3c";  // or "5c"
  double bid_multiplier = 1;
  operator ProviderSpec() const;
};

// Everything that a provider sells, by device, its count, processors and memory. Asks the provider;
// throws ProvisioningError when that cannot be.
std::vector<Offer> available_instances(const ProviderSpec& provider);

}  // namespace skyward
