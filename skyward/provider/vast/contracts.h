#pragma once

// The machines of one pool at Vast.ai, called contracts there (provider/pool_machines.h).
//
// Each machine on offer is an ask of its own, which is gone when somebody else takes it. A machine
// that was outbid is paused: it costs its disk, and does nothing.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/provider/renting/named_machines.h"
#include "skyward/provider/vast/vast_api.h"
#include "skyward/spec/offer.h"

namespace skyward::provider::vast {

inline constexpr const char* kProvider = "vastai";
inline constexpr const char* kCloud = "Vast.ai";

// "2x H100 SXM": what machines of one kind are called.
std::string type_of(std::string_view gpu, int gpus);
// Only machines of that type. Does nothing if `type` is not such a name.
void keep_type(AskFilter& filter, std::string_view type);
// A GPU as everybody else calls it: "RTX 4070S Ti" is the RTX 4070 Ti Super, "Q RTX 8000" the
// Quadro RTX 8000.
std::string usual_name(std::string_view gpu);

// Every contract of the account.
ApiResult<std::vector<NamedMachine>> list_contracts(Api& api, Time deadline);

// What all launches of a pool have in common.
struct ContractTerms {
  ContractRequest request{};
  AskFilter filter{};
  bool unverified = false;                // hosts that Vast.ai has not verified, too
  double bid_multiplier = 1;              // of the least bid
  Duration start_limit{};                 // of one machine
  std::optional<double> most_hourly{};    // dollars, of one machine with its disk
  Offer chosen{};                         // by the pool
  std::map<std::string, Offer> offers{};  // what each type was offered as
};

// What is on offer now, cheapest first.
ApiResult<std::vector<Ask>> search_market(Api& api, AskFilter filter, bool unverified,
                                          Time deadline);

// The hosts of a pool, over all of its launches.
class PoolHosts {
 public:
  void on_rented(const std::string& contract, const std::string& host) { hosts_[contract] = host; }
  // To a higher bid: that says nothing of the host.
  void on_outbid(const std::string& contract) { hosts_.erase(contract); }
  void on_ended(const std::string& contract) {
    if (const auto ended = hosts_.extract(contract)) left_.insert(ended.mapped());
  }
  // Whether a machine of the pool was there and has ended, which may well be the host's fault.
  bool has_left(const std::string& host) const { return left_.contains(host); }

 private:
  std::map<std::string, std::string> hosts_{};  // by contract
  std::set<std::string> left_{};
};

class Contracts final : public RestMachines {
 public:
  // The api and the hosts outlive this. To find or terminate machines, `mark.pool` is enough.
  Contracts(Api& api, PoolHosts& hosts, std::string region, Mark mark, ContractTerms terms = {});

  std::expected<std::vector<std::string>, LaunchRefusal> launch(const LaunchBatch& batch,
                                                                Time deadline) override;

 protected:
  bool is_id(std::string_view id) const override;
  ApiResult<std::vector<NamedMachine>> list(Time deadline) override {
    return list_contracts(api_, deadline);
  }
  ApiResult<NamedMachine> get(const std::string& id, Time deadline) override;
  void complete(const std::vector<std::string>& ids, std::vector<MachineStatus>& found,
                Time deadline) override;
  ApiResult<std::vector<ApiResult<void>>> remove_all(const std::vector<std::string>& ids,
                                                     Time deadline) override {
    return remove_each(ids, [&](const std::string& id) {
      hosts_.on_ended(id);
      return api_.destroy(id, deadline);
    });
  }

 private:
  double most_hourly(const LaunchBatch& batch) const;
  std::vector<Ask> fitting(const std::vector<Ask>& asks, const LaunchBatch& batch) const;

  Api& api_;
  PoolHosts& hosts_;
  const ContractTerms terms_;
  // By ask: the contract that it made, empty where that is not known or the host wants none. Such a
  // host is avoided, unless all that was wrong was the bid.
  std::map<std::string, std::string> used_{};
  std::set<std::pair<std::string, bool>> refused_{};  // asks, and whether it was by a bid
};

}  // namespace skyward::provider::vast
