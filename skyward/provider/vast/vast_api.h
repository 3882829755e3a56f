#pragma once

// The API of Vast.ai (console.vast.ai), a market of other people's machines: plain structs in,
// plain structs out, named as Vast.ai names them.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider::vast {

inline constexpr const char* kBaseUrl = "https://console.vast.ai";

struct VastUser {
  std::string id{};
  std::string email{};
  double credit = 0;  // dollars
};

// What a search asks for.
struct AskFilter {
  bool bids = false;        // the prices of interruptible machines
  bool verified = true;     // by Vast.ai; false: only those that are not
  bool datacenters = true;  // only machines in audited data centres
  int min_gpus = 0;
  // One kind of machine alone: its GPU as Vast.ai calls it, and how many of them. Empty: any.
  std::string gpu{};
  int gpus = 0;
  // Compute capabilities times 100: from the first until below the second. Zero: any.
  std::pair<int, int> compute_caps{};
  int most_pages = 40;  // of a search: more than the whole market had in 2026
  double min_reliability = 0;
  double min_cuda = 0;
  double disk_gb = 0;
  double min_down_mbit = 0;              // a host's line, in megabits a second
  double min_duration_s = 0;             // how long the host will stay on offer
  std::vector<std::string> countries{};  // "US"; empty: any
};

// One machine that can be rented now. Prices in dollars an hour.
struct Ask {
  std::string id{};
  std::string host{};  // the machine that it is on; ids of asks may change
  std::string gpu{};   // "H100 SXM"
  int gpus = 0;
  double gpu_memory_gb = 0;  // of one
  int cpus = 0;
  double memory_gb = 0;
  std::string country{};                // "US"
  std::optional<double> total{};        // with the disk that was asked for
  double base = 0;                      // without a disk; for bids, the least one
  std::optional<double> download_gb{};  // dollars for a GB
  std::optional<double> upload_gb{};
};

inline constexpr std::size_t kLongestScript = 4048;

struct ContractRequest {
  std::string label{};
  std::string image{};
  double disk_gb = 0;
  std::string onstart{};        // a shell script for root, at most kLongestScript bytes
  std::optional<double> bid{};  // dollars an hour; empty: on demand
};

// A machine that was rented.
struct Contract {
  std::string id{};
  std::string label{};
  std::string actual_status{};  // "created", "loading", "running", "exited", "offline" or empty
  std::string cur_state{};      // "running", "stopped"
  std::string status_msg{};
  std::string country{};
  std::string gpu{};
  int gpus = 0;
  bool is_bid = false;
  std::optional<double> total{};  // dollars an hour
  std::string address{};
  int ssh_port = 0;  // 0: not known yet
};

std::optional<ApiError> read_error(const io::HttpReply& reply, const nlohmann::json& json);

class Api {
 public:
  // The client outlives this.
  explicit Api(RestClient& client) : client_(client) {}

  std::int64_t clock_ahead_s() const { return client_.clock_ahead_s(); }
  std::int64_t wall_s() const { return client_.wall_s(); }

  ApiResult<VastUser> user(Time deadline);
  // Cheapest first: all that `most_pages` and the deadline leave time for, but for more than a page
  // at one price.
  ApiResult<std::vector<Ask>> search(const AskFilter& filter, Time deadline);
  // The contract's id, even if the request was refused and made one all the same.
  ApiResult<std::string> take(const std::string& ask, const ContractRequest& request,
                              Time deadline);

  ApiResult<std::vector<Contract>> contracts(Time deadline);
  ApiResult<Contract> contract(const std::string& id, Time deadline);
  ApiResult<void> destroy(const std::string& id, Time deadline);

 private:
  RestClient& client_;
};

}  // namespace skyward::provider::vast
