#pragma once

// The API of RunPod (api.runpod.io): plain structs in, plain structs out. REST v2 for all but what
// only GraphQL has: bids, the least processors and memory of a pod with GPUs, and what an account
// is called. RunPod will retire GraphQL in early 2027; without it, these are unknown.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider::runpod {

inline constexpr const char* kBaseUrl = "https://api.runpod.io";

struct RunPodUser {
  std::string id{};
  std::string email{};
  double balance = 0;  // dollars
};

// A kind of GPU. Prices in dollars an hour, of one.
struct GpuKind {
  std::string id{};    // "NVIDIA H100 80GB HBM3"
  std::string name{};  // "H100 SXM"
  std::string manufacturer{};
  double memory_gb = 0;  // of one
  double secure = 0;
  double community = 0;
  int most_secure = 0;  // in one pod
  int most_community = 0;
  bool available = false;
  std::vector<std::string> places{};  // data centres that have some; none in the community cloud
  std::vector<std::string> cuda{};    // versions from the least one that was asked for
};

// What a pod with so many GPUs of a kind has besides, and the least bid for one GPU.
struct GpuMarket {
  std::string id{};  // GpuKind::id
  int vcpus = 0;
  double memory_gb = 0;
  std::optional<double> least_bid{};
};

struct CpuKind {
  std::string id{};  // "cpu3c"
  int least = 0;     // processors of a pod
  int most = 0;
  double memory_gb = 0;  // with each processor
  double price = 0;      // dollars an hour, of one processor
  std::vector<std::string> places{};
};

struct DataCenter {
  std::string id{};  // "US-TX-3"
  bool networked = false;
};

// A cloud of RunPod's: its own data centres, or machines that others let it rent out.
enum class Tier : std::uint8_t { secure, community };

struct PodRequest {
  std::string name{};
  std::string image{};
  std::string args{};
  std::string gpu{};  // GpuKind::id; empty: a pod without
  std::string cpu{};  // CpuKind::id
  int count = 1;      // GPUs or processors
  Tier tier = Tier::secure;
  std::string place{};  // empty: anywhere
  int disk_gb = 0;
  int volume_gb = 0;             // of a disk that a stopped pod keeps
  std::string network_volume{};  // instead of that
  std::string volume_path{};
  std::vector<std::string> ports{};
  std::string registry{};  // id of a stored credential
  // At least, beside GPUs. Only bids can ask for them.
  int vcpus = 0;
  double memory_gb = 0;
  double least_cuda = 0;            // that the host's driver supports; 0: any
  std::vector<std::string> cuda{};  // with `bid`, the versions from there on
  bool networked = false;
  std::optional<double> bid{};  // dollars an hour of one GPU; empty: on demand
};

struct Pod {
  std::string id{};
  std::string name{};
  std::string status{};  // "PROVISIONING", "STARTING", "RUNNING", "EXITED", "ERROR", "TERMINATED"
  std::string place{};
  std::string gpu{};
  bool is_bid = false;
  double cost = 0;  // dollars an hour, without its disks
  int disk_gb = 0;  // all of them that are billed with it
  // Of the port that leads to its sshd; it changes when the pod starts again. Empty: not known.
  std::string address{};
  int ssh_port = 0;
  std::string private_address{};
  double up_s = 0;  // since its container started
};

// What disks of a running pod cost beside it, dollars an hour: by RunPod's price list, since its
// API does not say.
double disk_price(int gb);

std::optional<ApiError> read_error(const io::HttpReply& reply, const nlohmann::json& json);

class Api {
 public:
  // The client outlives this.
  explicit Api(RestClient& client) : client_(client) {}

  std::int64_t clock_ahead_s() const { return client_.clock_ahead_s(); }
  std::int64_t wall_s() const { return client_.wall_s(); }

  // Empty without GraphQL.
  ApiResult<std::optional<RunPodUser>> user(Time deadline);
  // `least_cuda`: as in PodRequest.
  ApiResult<std::vector<GpuKind>> gpus(Tier tier, int count, double least_cuda, Time deadline);
  // Empty without GraphQL.
  ApiResult<std::optional<std::vector<GpuMarket>>> market(Tier tier, int count, double least_cuda,
                                                          Time deadline);
  ApiResult<std::vector<CpuKind>> cpus(Time deadline);
  ApiResult<std::vector<DataCenter>> data_centers(Time deadline);
  // The data centre of a network volume.
  ApiResult<std::string> place_of_volume(const std::string& id, Time deadline);
  // The id of a stored credential for images; `not_found` if there is none of that name.
  ApiResult<std::string> registry(const std::string& name, Time deadline);

  // The pod's id.
  ApiResult<std::string> create(const PodRequest& request, Time deadline);
  ApiResult<std::vector<Pod>> pods(Time deadline);
  ApiResult<Pod> pod(const std::string& id, Time deadline);
  ApiResult<void> terminate(const std::string& id, Time deadline);

 private:
  ApiResult<nlohmann::json> ask(std::string query, nlohmann::json variables, Repeat repeat,
                                Time deadline);

  RestClient& client_;
};

}  // namespace skyward::provider::runpod
