#pragma once

// Verda's requests and replies (API v1, api.verda.com), as its own clients send and read them. No
// ideas of ours.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/rest/rest_client.h"

namespace skyward::provider::verda {

inline constexpr const char* kBaseUrl = "https://api.verda.com/v1";

struct ServerType {
  std::string name{};  // "1H100.80S.30V"
  int cpus = 0;
  double memory_gb = 0;
  std::optional<double> hourly{};  // dollars
  std::optional<double> spot_hourly{};
  std::string gpu{};  // "8x H100 SXM5 80GB"; empty without
  int gpus = 0;
  double gpu_memory_gb = 0;           // of all
  std::vector<std::string> images{};  // that it starts from; empty: not told
};

// What can be created now, of one market.
struct Availability {
  std::string location{};  // "FIN-01"
  std::vector<std::string> types{};
};

struct Server {
  std::string id{};
  std::string hostname{};
  std::string status{};  // "ordered", "provisioning", "running", "offline", "discontinued" ...
  std::string location{};
  std::string type{};
  std::string ip{};
  bool spot = false;
  std::string disk{};  // id of the volume that it starts from; empty while there is none
};

struct ServerRequest {
  std::string type{};
  std::string image{};
  std::string hostname{};  // at most 60 letters, digits and '-'
  std::string location{};
  std::string ssh_key{};  // id
  std::string script{};   // id
  bool spot = false;
  int disk_gb = 0;
};

struct Balance {
  double amount = 0;
  std::string currency{};  // "eur"; empty: not told
};

struct NamedText {
  std::string id{};
  std::string name{};
};

struct ServerDisk {
  std::string server{};  // ids
  std::string disk{};    // empty: not known
};

struct ServerVolume {
  std::string id{};
  std::string name{};
  std::string server{};  // id of the one that it is attached to; empty: of none
  bool ending = false;   // it is being deleted, and cannot be deleted meanwhile
  bool gone = false;     // for good, though it is listed
};

std::optional<ApiError> read_error(const io::HttpReply& reply, const nlohmann::json& json);

class Api {
 public:
  // The client outlives this.
  explicit Api(RestClient& client) : client_(client) {}

  const World& world() const { return client_.world(); }
  std::int64_t clock_ahead_s() const { return client_.clock_ahead_s(); }
  std::int64_t wall_s() const { return client_.wall_s(); }

  ApiResult<Balance> balance(Time deadline);
  ApiResult<std::vector<ServerType>> types(Time deadline);
  ApiResult<std::vector<Availability>> availability(bool spot, Time deadline);

  ApiResult<std::vector<Server>> servers(Time deadline);
  ApiResult<Server> server(const std::string& id, Time deadline);
  // The id.
  ApiResult<std::string> create_server(const ServerRequest& request, Time deadline);
  // With their disks, for good. What ends already is a success. One answer for each.
  ApiResult<std::vector<ApiResult<void>>> delete_servers(const std::vector<ServerDisk>& servers,
                                                         Time deadline);

  // "ssh-keys" with "key", and "scripts" with "script".
  ApiResult<std::vector<NamedText>> texts(const char* kind, Time deadline);
  ApiResult<std::string> create_text(const char* kind, const char* field, const std::string& name,
                                     const std::string& text, Time deadline);
  ApiResult<void> delete_text(const char* kind, const std::string& id, Time deadline);

  // Dollars an hour for a GB of the disks that machines start from.
  ApiResult<double> disk_price(Time deadline);
  // In use, detached, and in the trash, where they stay for days. Without those deleted for good.
  ApiResult<std::vector<ServerVolume>> volumes(Time deadline);
  ApiResult<ServerVolume> volume(const std::string& id, Time deadline);
  // For good.
  ApiResult<void> delete_volume(const std::string& id, Time deadline);

 private:
  ApiResult<nlohmann::json> get(std::string path, Time deadline, Query query = {});

  RestClient& client_;
};

}  // namespace skyward::provider::verda
