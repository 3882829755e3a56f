#pragma once

// DigitalOcean's requests and replies, as its published specification has them (API v2,
// docs.digitalocean.com/reference/api). Nothing here is specific to Skyward.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider::digital_ocean {

inline constexpr const char* kBaseUrl = "https://api.digitalocean.com";

struct Account {
  std::string user{};  // uuid of whoever owns the token
  std::string team{};  // uuid; the user's where the account has no teams
  std::string email{};
  std::string status{};  // "active", "warning", "locked"
  std::string message{};
};

// A type of machine.
struct Size {
  std::string slug{};
  int cpus = 0;
  double memory_mib = 0;
  std::optional<double> hourly{};      // dollars
  std::vector<std::string> regions{};  // where it is sold
  std::string gpu_model{};             // "nvidia_h100"; empty without
  int gpus = 0;
  double gpu_memory_gb = 0;  // of all
};

struct Droplet {
  std::string id{};
  std::string name{};
  std::string status{};  // "new", "active", "off", "archive"
  std::string region{};
  std::string size{};
  std::string public_ip{};
  std::string private_ip{};
};

struct DropletRequest {
  std::vector<std::string> names{};  // at most ten
  std::string region{};
  std::string size{};
  std::string image{};
  std::string ssh_key{};  // id or fingerprint
  std::string user_data{};
  std::string tag{};
};
inline constexpr int kMostDroplets = 10;

// What a request to create droplets has started.
struct Creation {
  std::vector<std::string> droplets{};
  std::vector<std::string> actions{};  // of the droplet at the same place, where it is told
};

// Its fingerprint is no name for it: a key that is registered twice has the same one twice.
struct SshKey {
  std::string id{};
  std::string name{};
};

struct Firewall {
  std::string id{};
  std::string name{};
};

// Whether a droplet was refused because its key is not known; a new one is not, for up to a minute.
bool is_unknown_key(const ApiError& error);

std::optional<ApiError> read_error(const io::HttpReply& reply, const nlohmann::json& json);

class Api {
 public:
  // The client outlives this.
  explicit Api(RestClient& client) : client_(client) {}

  const World& world() const { return client_.world(); }
  std::int64_t clock_ahead_s() const { return client_.clock_ahead_s(); }
  std::int64_t wall_s() const { return client_.wall_s(); }

  ApiResult<Account> account(Time deadline);
  ApiResult<std::vector<Size>> sizes(Time deadline);
  ApiResult<std::vector<std::string>> regions(Time deadline);

  // Those with GPUs are listed apart.
  ApiResult<std::vector<Droplet>> droplets(bool gpus, Time deadline);
  ApiResult<Droplet> droplet(const std::string& id, Time deadline);
  ApiResult<Creation> create_droplets(const DropletRequest& request, Time deadline);
  ApiResult<void> delete_droplet(const std::string& id, Time deadline);
  // "in-progress", "completed", "errored".
  ApiResult<std::string> action_status(const std::string& id, Time deadline);

  ApiResult<std::vector<SshKey>> ssh_keys(Time deadline);
  // The id.
  ApiResult<std::string> create_ssh_key(const std::string& name, const std::string& public_key,
                                        Time deadline);
  ApiResult<void> delete_ssh_key(const std::string& id, Time deadline);

  ApiResult<std::vector<std::string>> tags(Time deadline);
  ApiResult<void> create_tag(const std::string& name, Time deadline);
  ApiResult<void> delete_tag(const std::string& name, Time deadline);

  ApiResult<std::vector<Firewall>> firewalls(Time deadline);
  // For the droplets with a tag, which exists: they reach each other and everything outside; from
  // elsewhere they are reached by ssh alone. The id.
  ApiResult<std::string> create_firewall(const std::string& name, const std::string& tag,
                                         Time deadline);
  ApiResult<void> delete_firewall(const std::string& id, Time deadline);

 private:
  ApiResult<std::vector<nlohmann::json>> list(std::string_view what, RestRequest request,
                                              Time deadline);
  ApiResult<void> remove(std::string path, Time deadline);

  RestClient& client_;
};

}  // namespace skyward::provider::digital_ocean
