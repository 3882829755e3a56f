#include "skyward/provider/verda/verda_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::verda {

namespace {

using nlohmann::json;

constexpr std::size_t kPage = 100;  // the most that a page may have
constexpr std::string_view kEndsAlready = "discontinue a discontinued";

// Ids come as they are, or in quotes.
ApiResult<std::string> id_of(const RestReply& reply) {
  const std::string_view id = trimmed(reply.text, " \t\r\n\"");
  if (!id.empty() && id.find_first_of("{[ <") == std::string_view::npos) return std::string(id);
  ApiError error = broken_page("the reply has no id");
  error.maybe_done = true;
  return std::unexpected(std::move(error));
}

Refusal refusal_of(int status, std::string_view code, std::string_view message) {
  if (message.contains("discontinue a provisioning") || message.contains("attached to")) {
    return Refusal::conflict;
  }
  if (message.contains("Invalid instance id") || message.contains("Invalid volume id")) {
    return Refusal::not_found;
  }
  if (code == "insufficient_funds") return Refusal::insufficient_funds;
  // What cannot be done now, beside what one may not do.
  if (code == "forbidden_action") return Refusal::conflict;
  // "service_unavailable" is what it says when a type is sold out.
  if (status == 503 && code == "service_unavailable") return Refusal::capacity;
  return status < 400 ? Refusal::transient : refusal_of_status(status);
}

const char* hint_for(Refusal refusal) {
  switch (refusal) {
    case Refusal::auth:
      return "check the client id and its secret at console.verda.com, Keys, Cloud API";
    case Refusal::insufficient_funds:
      return "add credit at console.verda.com, Billing";
    default:
      return "";
  }
}

std::vector<std::string> texts_at(const json& told, std::string_view path) {
  std::vector<std::string> out;
  for (const json* one : json_items(told, path)) out.push_back(json_text(*one));
  return out;
}

Server read_server(const json& told) {
  Server out{.id = json_text(told, "id"),
             .hostname = json_text(told, "hostname"),
             .status = json_text(told, "status"),
             .location = json_text(told, "location"),
             .type = json_text(told, "instance_type"),
             .ip = json_text(told, "ip"),
             .spot = json_at(told, "is_spot") == true,
             .disk = json_text(told, "os_volume_id")};
  return out;
}

ServerVolume read_volume(const json& told) {
  const std::string status = json_text(told, "status");
  const bool attached = status == "attached" || status == "attaching" || status == "detaching";
  return {.id = json_text(told, "id"),
          .name = json_text(told, "name"),
          .server = attached ? json_text(told, "instance_id") : "",
          .ending = status == "deleting" || status == "canceling",
          .gone = json_at(told, "is_permanently_deleted") == true};
}

// What became of one machine of a deletion.
ApiResult<void> outcome_of(const ApiResult<RestReply>& reply, const std::string& id) {
  ApiError error;
  if (!reply) {
    error = reply.error();
  } else {
    for (const json* line : json_items(reply->json)) {
      if (json_text(*line, "instanceId") == id) error.message = json_text(*line, "error");
    }
    if (error.message.empty()) return {};
    error.heard = Heard::answered;
    error.status = 400;
    error.refusal = refusal_of(error.status, "", error.message);
  }
  if (error.message.contains(kEndsAlready)) return {};
  return std::unexpected(std::move(error));
}

template <typename Read>
auto read_all(const ApiResult<json>& told, Read read)
    -> ApiResult<std::vector<decltype(read(json()))>> {
  if (!told) return std::unexpected(told.error());
  if (!told->is_array()) return std::unexpected(broken_page("the reply is not a list"));
  std::vector<decltype(read(json()))> out;
  for (const json& item : *told) out.push_back(read(item));
  return out;
}

ApiResult<void> done(const ApiResult<RestReply>& reply) {
  if (!reply) return std::unexpected(reply.error());
  return {};
}

}  // namespace

std::optional<ApiError> read_error(const io::HttpReply& reply, const json& told) {
  if (reply.status >= 200 && reply.status < 300) return std::nullopt;
  ApiError error{.code = json_text(told, "code"),
                 .message = json_text(told, "message"),
                 .status = reply.status};
  if (!error.code.empty()) error.heard = Heard::answered;
  error.refusal = refusal_of(reply.status, error.code, error.message);
  if (error.message.empty()) error.message = fmt::format("HTTP status {}", reply.status);
  error.hint = hint_for(error.refusal);
  return error;
}

ApiResult<json> Api::get(std::string path, Time deadline, Query query) {
  auto reply = client_.send({.path = std::move(path), .query = std::move(query)}, deadline);
  if (!reply) return std::unexpected(std::move(reply.error()));
  return std::move(reply->json);
}

ApiResult<Balance> Api::balance(Time deadline) {
  const auto told = get("/balance", deadline);
  if (!told) return std::unexpected(told.error());
  const auto amount = json_decimal(*told, "amount");
  if (!amount) return std::unexpected(broken_page("the reply has no amount"));
  return Balance{.amount = *amount, .currency = lower(json_text(*told, "currency"))};
}

ApiResult<std::vector<ServerType>> Api::types(Time deadline) {
  return read_all(get("/instance-types", deadline, {{"currency", "usd"}}), [](const json& told) {
    return ServerType{
        .name = json_text(told, "instance_type"),
        .cpus = count_of(json_whole(told, "cpu/number_of_cores")),
        .memory_gb = json_decimal(told, "memory/size_in_gigabytes").value_or(0),
        .hourly = json_decimal(told, "price_per_hour"),
        .spot_hourly = json_decimal(told, "spot_price"),
        .gpu = json_text(told, "gpu/description"),
        .gpus = count_of(json_whole(told, "gpu/number_of_gpus")),
        .gpu_memory_gb = json_decimal(told, "gpu_memory/size_in_gigabytes").value_or(0),
        .images = texts_at(told, "supported_os")};
  });
}

// Its clients spell the question in two ways.
ApiResult<std::vector<Availability>> Api::availability(bool spot, Time deadline) {
  const char* const word = spot ? "true" : "false";
  return read_all(get("/instance-availability", deadline, {{"is_spot", word}, {"isSpot", word}}),
                  [](const json& told) {
                    return Availability{.location = json_text(told, "location_code"),
                                        .types = texts_at(told, "availabilities")};
                  });
}

ApiResult<std::vector<Server>> Api::servers(Time deadline) {
  return read_all(get("/instances", deadline), read_server);
}

ApiResult<Server> Api::server(const std::string& id, Time deadline) {
  const auto told = get("/instances/" + io::percent_encode(id), deadline);
  if (!told) return std::unexpected(told.error());
  Server out = read_server(*told);
  if (out.id != id) return std::unexpected(broken_page("the reply is about another instance"));
  return out;
}

ApiResult<std::string> Api::create_server(const ServerRequest& wanted, Time deadline) {
  json disk = {{"name", wanted.hostname}, {"size", wanted.disk_gb}};
  if (wanted.spot) disk["on_spot_discontinue"] = "delete_permanently";
  const json body = {{"instance_type", wanted.type},
                     {"image", wanted.image},
                     {"hostname", wanted.hostname},
                     {"description", wanted.hostname},
                     {"location_code", wanted.location},
                     {"ssh_key_ids", json::array({wanted.ssh_key})},
                     {"startup_script_id", wanted.script},
                     {"is_spot", wanted.spot},
                     {"contract", wanted.spot ? "SPOT" : "PAY_AS_YOU_GO"},
                     {"pricing", "FIXED_PRICE"},
                     {"os_volume", std::move(disk)}};
  auto reply = client_.send({.method = "POST", .path = "/instances", .body = body}, deadline);
  if (reply) return id_of(*reply);
  // The same status is for a type that is sold out and for a service that failed half-way.
  if (reply.error().refusal == Refusal::capacity) reply.error().maybe_done = true;
  return std::unexpected(std::move(reply.error()));
}

// The answer to several is a list, with a status of 207 where some failed.
ApiResult<std::vector<ApiResult<void>>> Api::delete_servers(const std::vector<ServerDisk>& servers,
                                                            Time deadline) {
  json ids = json::array();
  json disks = json::array();
  for (const ServerDisk& one : servers) {
    ids.push_back(one.server);
    if (!one.disk.empty()) disks.push_back(one.disk);
  }
  json body = {{"id", std::move(ids)}, {"action", "delete"}};
  if (!disks.empty()) {
    body["volume_ids"] = std::move(disks);
    body["delete_permanently"] = true;
  }
  const auto reply = client_.send(
      {.method = "PUT", .path = "/instances", .body = body, .repeat = Repeat::safe}, deadline);
  std::vector<ApiResult<void>> out;
  if (reply || servers.size() == 1) {
    for (const ServerDisk& one : servers) out.push_back(outcome_of(reply, one.server));
    return out;
  }
  // One refusal for several is about the first: the others may have another reason.
  ApiError error = reply.error();
  const bool is_state = error.refusal == Refusal::conflict || error.refusal == Refusal::not_found ||
                        error.message.contains(kEndsAlready);
  if (!is_state) return std::unexpected(std::move(error));
  error.refusal = Refusal::conflict;
  for (std::size_t i = 0; i < servers.size(); ++i) out.emplace_back(std::unexpected(error));
  return out;
}

// Scripts come in pages, of ten unless more are asked for.
ApiResult<std::vector<NamedText>> Api::texts(const char* kind, Time deadline) {
  const bool paged = std::string_view(kind) == "scripts";
  int number = 1;
  const auto request = [&] {
    RestRequest out{.path = fmt::format("/{}", kind)};
    if (paged) {
      out.query = {{"page", std::to_string(number)}, {"pageSize", std::to_string(kPage)}};
    }
    return out;
  };
  std::set<std::string> known;
  const auto take = [&](const json& page,
                        std::vector<json>& items) -> ApiResult<std::optional<RestRequest>> {
    if (!page.is_array()) return std::unexpected(broken_page("the reply is not a list"));
    const std::size_t before = items.size();
    for (const json& one : page) {
      if (known.insert(json_text(one, "id")).second) items.push_back(one);
    }
    const bool ends = !paged || page.size() < kPage || items.size() == before;
    if (ends) return std::optional<RestRequest>();
    ++number;
    return std::optional(request());
  };
  const auto all = client_.list(request(), take, deadline);
  if (!all) return std::unexpected(all.error());
  std::vector<NamedText> out;
  for (const json& one : *all) {
    out.push_back({.id = json_text(one, "id"), .name = json_text(one, "name")});
  }
  return out;
}

ApiResult<std::string> Api::create_text(const char* kind, const char* field,
                                        const std::string& name, const std::string& text,
                                        Time deadline) {
  const auto reply = client_.send({.method = "POST",
                                   .path = fmt::format("/{}", kind),
                                   .body = json{{"name", name}, {field, text}}},
                                  deadline);
  if (!reply) return std::unexpected(reply.error());
  return id_of(*reply);
}

ApiResult<void> Api::delete_text(const char* kind, const std::string& id, Time deadline) {
  return done(client_.send(
      {.method = "DELETE", .path = fmt::format("/{}/{}", kind, io::percent_encode(id))}, deadline));
}

ApiResult<double> Api::disk_price(Time deadline) {
  constexpr double kHours = 730;  // of a month
  const auto told = get("/volume-types", deadline);
  if (!told) return std::unexpected(told.error());
  for (const json* one : json_items(*told)) {
    const auto monthly = json_decimal(*one, "price/price_per_month_per_gb");
    if (json_text(*one, "type") == "NVMe" && monthly) return *monthly / kHours;
  }
  return std::unexpected(broken_page("the reply has no price of NVMe volumes"));
}

ApiResult<std::vector<ServerVolume>> Api::volumes(Time deadline) {
  auto out = read_all(get("/volumes", deadline), read_volume);
  if (!out) return out;
  auto trash = read_all(get("/volumes/trash", deadline), read_volume);
  if (!trash) return trash;
  std::ranges::move(*trash, std::back_inserter(*out));
  std::erase_if(*out, [](const ServerVolume& one) { return one.gone; });
  return out;
}

ApiResult<ServerVolume> Api::volume(const std::string& id, Time deadline) {
  const auto told = get("/volumes/" + io::percent_encode(id), deadline);
  if (!told) return std::unexpected(told.error());
  return read_volume(*told);
}

ApiResult<void> Api::delete_volume(const std::string& id, Time deadline) {
  return done(client_.send({.method = "DELETE",
                            .path = "/volumes/" + io::percent_encode(id),
                            .body = json{{"is_permanent", true}}},
                           deadline));
}

}  // namespace skyward::provider::verda
