#pragma once

// Where a pool's machines come from: `.provider = sky::AWS{.region = "eu-west-1"}`. What is left
// out comes from the environment, else from skyward.toml, else is as noted here. A cloud that this
// version does not support is refused when the pool opens, before anything is started.

#include <functional>
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

// Existing machines, reached by OpenSSH; each host is one node. Host keys are always verified.
struct SSH {
  std::vector<std::string> hosts{};            // host, user@host or user@host:port
  std::optional<std::string> user{};           // where a host names none
  std::optional<int> port{};                   // the same
  std::optional<std::string> identity_file{};  // this private key and no other
  std::vector<std::string> jump{};             // by way of these, in order
  std::optional<std::string> known_hosts{};    // path; empty: the user's own files
  std::optional<std::string> config{};         // instead of ~/.ssh/config
  // "ec2": they are spot machines of EC2, whose preemption notices Skyward listens for.
  std::optional<std::string> preemption{};
  operator ProviderSpec() const;
};

// Nodes that are reached by commands: any command that takes one more argument and runs it in a
// shell there, such as {"podman", "exec", "-i", "c1", "sh", "-c"}. Each command is one node; those
// beyond `nodes` replace lost nodes. This program is copied there and is the worker, so it must be
// able to run there.
struct Command {
  std::vector<std::vector<std::string>> commands{};
  // The address at which the other nodes reach the node of each command; empty: all are on one
  // machine.
  std::vector<std::string> addresses{};
  operator ProviderSpec() const;
};

struct AWS {
  std::optional<std::string> region{};  // "us-east-1"
  // Reach machines through Session Manager instead of port 22. Needs the AWS CLI with its plugin on
  // this computer, and instance_profile_arn. Without it: false.
  std::optional<bool> use_ssm{};
  std::optional<std::string> ami{};
  std::optional<std::string> ubuntu_version{};  // "24.04"
  std::optional<std::string> subnet_id{};
  std::optional<std::string> security_group_id{};
  std::optional<std::string> instance_profile_arn{};
  std::optional<std::string> username{};
  std::optional<int> instance_timeout{};             // 300; changes nothing here
  std::optional<int> request_timeout{};              // 30; seconds
  std::optional<std::string> allocation_strategy{};  // "price-capacity-optimized"
  std::optional<bool> exclude_burstable{};           // false
  operator ProviderSpec() const;
};

struct DigitalOcean {
  std::optional<std::string> region{};  // "nyc1"
  std::optional<std::string> token{};
  std::optional<std::string> ssh_key_fingerprint{};
  std::optional<int> instance_timeout{};  // 300
  std::optional<std::string> node_token{};
  operator ProviderSpec() const;
};

struct Verda {
  std::optional<std::string> region{};  // empty: wherever the machine type is
  std::optional<std::string> client_id{};
  std::optional<std::string> client_secret{};
  std::optional<std::string> ssh_key_id{};
  std::optional<int> instance_timeout{};  // 300
  std::optional<int> request_timeout{};   // 30
  operator ProviderSpec() const;
};

struct VastAI {
  std::optional<std::string> api_key{};
  std::optional<double> min_reliability{};  // 0.95
  std::optional<bool> verified_only{};      // true
  std::optional<double> min_cuda{};         // 12
  std::optional<std::string> geolocation{};
  std::optional<double> bid_multiplier{};  // 1.2
  std::optional<int> instance_timeout{};   // 300
  std::optional<int> request_timeout{};    // 30
  std::optional<std::string> docker_image{};
  std::optional<int> disk_gb{};               // 100
  std::optional<bool> use_overlay{};          // true; no effect yet
  std::optional<int> overlay_timeout{};       // 120
  std::optional<bool> require_direct_port{};  // false
  std::optional<std::string> trust{};         // "datacenters"; "community" allows all machines
  operator ProviderSpec() const;
};

struct RunPod {
  std::optional<std::string> api_key{};
  std::optional<std::string> cluster_mode{};       // "individual"; or "instant"
  std::optional<bool> global_networking{};         // false
  std::optional<std::string> cloud_type{};         // "secure"; or "community"
  std::optional<std::string> ubuntu{};             // "newest"
  std::optional<int> container_disk_gb{};          // 50
  std::optional<int> volume_gb{};                  // 20
  std::optional<std::string> volume_mount_path{};  // "/workspace"
  std::optional<std::string> network_volume{};     // the id of one, instead of a disk of its own
  std::optional<std::string>
      registry_auth{};  // "docker hub", the name of a stored credential; "none": none
  std::optional<std::vector<std::string>> data_center_ids{};  // "global"
  std::optional<std::vector<std::string>> ports{};            // "22/tcp"
  std::optional<int> provision_timeout{};                     // 300
  std::optional<int> bootstrap_timeout{};                     // 600
  std::optional<int> instance_timeout{};                      // 300
  std::optional<int> request_timeout{};                       // 30
  std::optional<std::string> cpu_clock{};                     // "3c"; or "5c"
  std::optional<double> bid_multiplier{};                     // 1
  operator ProviderSpec() const;
};

// Nodes of a Slurm cluster: the pool submits jobs, and waits in the queue. What is left out is as
// the site has it.
struct Slurm {
  std::optional<std::string> partition{};  // or several, with commas between
  std::optional<std::string> account{};    // that the jobs are charged to
  std::optional<std::string> qos{};
  std::optional<std::string> gres{};   // of each node, instead of accelerator: "gpu:2"
  std::optional<std::string> time{};   // of a job, as sbatch takes it: "8:00:00"
  std::optional<std::string> login{};  // "me@login", reached by ssh; empty: this machine
  std::optional<bool> exclusive{};     // whole nodes; false
  std::optional<std::vector<std::string>> extra{};  // more options of sbatch: "--constraint=a100"
  operator ProviderSpec() const;
};

// The provider of pools that name this one, or none: then $SKYWARD_PROVIDER, else the one in
// skyward.toml, else this machine. $SKYWARD_PROVIDER=local uses this machine instead of every
// cloud. Throws ConfigurationError.
ProviderSpec provider_to_take(const std::optional<ProviderSpec>& named);

// Everything that a provider sells, sorted by device, its count, processors and memory. Asks the
// provider; throws ProvisioningError if that fails. `poll` is called about every 100 ms meanwhile
// and may throw, which ends the waiting.
std::vector<Offer> available_instances(const ProviderSpec& provider,
                                       const std::function<void()>& poll = {});

}  // namespace skyward
