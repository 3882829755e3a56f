#pragma once

// The machines of one pool at RunPod, called pods there (provider/pool_machines.h).
//
// A pod is a container on a host that it shares. One that was stopped, or lost its bid, costs the
// disk that it keeps, and does nothing.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/renting/named_machines.h"
#include "skyward/provider/runpod/runpod_api.h"
#include "skyward/spec/offer.h"

namespace skyward::provider::runpod {

inline constexpr const char* kProvider = "runpod";
inline constexpr const char* kCloud = "RunPod";
// The region of the community cloud, whose machines are in no data centre.
inline constexpr const char* kCommunity = "community";

// Every pod of the account.
ApiResult<std::vector<NamedMachine>> list_pods(Api& api, Time deadline);

// What is asked for, for each type of machine; with the least bid for one GPU when the pool opened.
struct PodType {
  PodRequest request{};
  std::optional<double> least_bid{};
};

// What all launches of a pool have in common.
struct PodTerms {
  std::map<std::string, PodType> types{};
  std::string args{};
  double bid_multiplier = 1;            // of the least bid
  Duration start_limit{};               // of one pod
  std::optional<double> most_hourly{};  // dollars, of one machine
  Offer chosen{};                       // by the pool
};

class Pods final : public RestMachines {
 public:
  // The api outlives this. To find or terminate pods, `mark.pool` is enough.
  Pods(Api& api, std::string region, Mark mark, PodTerms terms = {});

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;

 protected:
  bool is_id(std::string_view id) const override;
  ApiResult<std::vector<NamedMachine>> list(Time deadline) override {
    return list_pods(api_, deadline);
  }
  ApiResult<NamedMachine> get(const std::string& id, Time deadline) override;
  void complete(const std::vector<std::string>& ids, std::vector<MachineStatus>& found,
                Time deadline) override;
  ApiResult<std::vector<ApiResult<void>>> remove_all(const std::vector<std::string>& ids,
                                                     Time deadline) override {
    return remove_each(ids, [&](const std::string& id) { return api_.terminate(id, deadline); });
  }

 private:
  std::optional<double> least_bid(const PodType& type, Time deadline);
  double most_hourly(const LaunchBatch& batch) const;

  Api& api_;
  const PodTerms terms_;
};

}  // namespace skyward::provider::runpod
