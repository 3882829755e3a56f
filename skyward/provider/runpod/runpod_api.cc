#include "skyward/provider/runpod/runpod_api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

namespace skyward::provider::runpod {

namespace {

using nlohmann::json;

// The market of a pod, which lists do not tell: a variable that the request sets.
constexpr const char* kMarketVariable = "SKYWARD_MARKET";
// NVIDIA's images refuse to start on hosts whose driver is older than they are, though they bring
// nothing that needs a newer one.
constexpr const char* kAnyDriver = "NVIDIA_DISABLE_REQUIRE";
constexpr const char* kBid = "bid";
constexpr const char* kOnDemand = "on-demand";

const char* name_of(Tier tier) { return tier == Tier::secure ? "SECURE" : "COMMUNITY"; }

// GraphQL has words alone.
Refusal refusal_of(std::string_view message) {
  const auto says = [&](std::string_view words) { return message.contains(words); };
  if (says("no longer any instances") || says("no instances") || says("SUPPLY_CONSTRAINT") ||
      says("enough free GPUs") || says("not have the resources")) {
    return Refusal::capacity;
  }
  if (says("bid price") || says("bid is")) return Refusal::price_too_low;
  if (says("alance") || says("funds")) return Refusal::insufficient_funds;
  if (says("not found")) return Refusal::not_found;
  if (says("nauthorized") || says("may not")) return Refusal::auth;
  return Refusal::invalid;
}

// The server did not get as far as looking for a host.
bool is_malformed(const ApiError& error) {
  return error.code == "GRAPHQL_PARSE_FAILED" || error.code == "GRAPHQL_VALIDATION_FAILED" ||
         error.code == "BAD_USER_INPUT";
}

// What a server says about an address that it no longer serves: GraphQL's own errors come with 200
// and 400.
bool is_retired(const ApiError& error) {
  return error.status == 404 || error.status == 405 || error.status == 410 || error.status == 501;
}

const char* hint_for(Refusal refusal) {
  switch (refusal) {
    case Refusal::auth:
      return "check the key at console.runpod.io, Settings, API Keys, and what it may do";
    case Refusal::insufficient_funds:
      return "add credit at console.runpod.io, Billing";
    default:
      return "";
  }
}

std::vector<std::string> read_places(const json& told) {
  std::vector<std::string> out;
  for (const json* one : json_items(told, "dataCenters")) {
    if (json_text(*one, "availability") != "NONE") out.push_back(json_text(*one, "id"));
  }
  return out;
}

// "12.8", as requests have it.
std::string version_text(double version) { return fmt::format("{:.1f}", version); }

std::vector<std::string> read_versions(const json& told) {
  std::vector<std::string> out;
  for (const json* one : json_items(told, "cudaVersions")) {
    out.push_back(json_text(*one, "version"));
  }
  return out;
}

GpuKind read_gpu(const json& told) {
  return {.id = json_text(told, "id"),
          .name = json_text(told, "name"),
          .manufacturer = json_text(told, "manufacturer"),
          .memory_gb = json_number(told, "memory").value_or(0),
          .secure = json_number(told, "price/secure").value_or(0),
          .community = json_number(told, "price/community").value_or(0),
          .most_secure = count_of(json_number(told, "maxCount/secure")),
          .most_community = count_of(json_number(told, "maxCount/community")),
          .available = json_text(told, "availability") != "NONE",
          .places = read_places(told),
          .cuda = read_versions(told)};
}

Pod read_pod(const json& told) {
  Pod out{.id = json_text(told, "id"),
          .name = json_text(told, "name"),
          .status = json_text(told, "status"),
          .place = json_text(told, "dataCenterId"),
          .gpu = json_text(told, "gpu/id"),
          .is_bid = json_text(told, fmt::format("env/{}", kMarketVariable)) == kBid,
          .cost = json_number(told, "cost").value_or(0),
          .address = json_text(told, "ssh/direct/host"),
          .ssh_port = count_of(json_number(told, "ssh/direct/port")),
          .private_address = json_text(told, "globalNetworking/ip"),
          .up_s = json_number(told, "runtime/uptime").value_or(0)};
  out.disk_gb = count_of(json_number(told, "disk").value_or(0) +
                         json_number(told, "mounts/persistent/size").value_or(0));
  return out;
}

json rest_body(const PodRequest& wanted) {
  json body = {{"name", wanted.name},
               {"image", wanted.image},
               {"args", wanted.args},
               {"disk", wanted.disk_gb},
               {"ports", wanted.ports},
               {"cloud", name_of(wanted.tier)},
               {"env", {{kMarketVariable, kOnDemand}, {kAnyDriver, "1"}}}};
  if (wanted.gpu.empty()) {
    body["cpu"] = {{"id", wanted.cpu}, {"vcpuCount", wanted.count}};
  } else {
    body["gpu"] = {{"id", wanted.gpu}, {"count", wanted.count}};
    if (wanted.least_cuda > 0) body["gpu"]["minCudaVersion"] = version_text(wanted.least_cuda);
  }
  if (!wanted.place.empty()) body["dataCenterIds"] = json::array({wanted.place});
  if (!wanted.registry.empty()) body["registry"] = wanted.registry;
  if (wanted.networked) body["globalNetworking"] = true;
  if (!wanted.network_volume.empty()) {
    body["mounts"]["network"] =
        json::array({{{"volumeId", wanted.network_volume}, {"path", wanted.volume_path}}});
  } else if (wanted.volume_gb > 0) {
    body["mounts"]["persistent"] = {{"size", wanted.volume_gb}, {"path", wanted.volume_path}};
  }
  return body;
}

json graphql_input(const PodRequest& wanted, double bid) {
  json env = json::array(
      {{{"key", kMarketVariable}, {"value", kBid}}, {{"key", kAnyDriver}, {"value", "1"}}});
  json input = {{"bidPerGpu", bid},
                {"name", wanted.name},
                {"imageName", wanted.image},
                {"dockerArgs", wanted.args},
                {"gpuTypeId", wanted.gpu},
                {"gpuCount", wanted.count},
                {"cloudType", name_of(wanted.tier)},
                {"containerDiskInGb", wanted.disk_gb},
                {"volumeInGb", wanted.network_volume.empty() ? wanted.volume_gb : 0},
                {"volumeMountPath", wanted.volume_path},
                {"ports", fmt::format("{}", fmt::join(wanted.ports, ","))},
                {"supportPublicIp", true},
                {"env", std::move(env)}};
  if (!wanted.place.empty()) input["dataCenterId"] = wanted.place;
  if (wanted.vcpus > 0) input["minVcpuCount"] = wanted.vcpus;
  if (wanted.memory_gb >= 1) input["minMemoryInGb"] = static_cast<int>(wanted.memory_gb);
  if (wanted.least_cuda > 0) input["allowedCudaVersions"] = wanted.cuda;
  if (!wanted.registry.empty()) input["containerRegistryAuthId"] = wanted.registry;
  if (!wanted.network_volume.empty()) input["networkVolumeId"] = wanted.network_volume;
  return input;
}

// What a list is, or that the reply has none.
template <typename T, typename Read>
ApiResult<std::vector<T>> read_list(const json& told, const char* name, const Read& read) {
  if (!json_at(told, name).is_array()) {
    return std::unexpected(broken_page(fmt::format("the reply has no list of {}", name)));
  }
  std::vector<T> out;
  for (const json* one : json_items(told, name)) out.push_back(read(*one));
  return out;
}

bool has_any_data(const json& told) {
  const std::vector<const json*> parts = json_items(told, "data");
  return std::ranges::any_of(parts, [](const json* one) { return !one->is_null(); });
}

}  // namespace

double disk_price(int gb) {
  constexpr double kMonthly = 0.10;  // of a GB
  constexpr double kHours = 730;     // of a month
  return gb * kMonthly / kHours;
}

std::optional<ApiError> read_error(const io::HttpReply& reply, const json& told) {
  ApiError error{.status = reply.status};
  // GraphQL refuses with status 200. What was made is looked after, whatever is said about it.
  const json& errors = json_at(told, "errors");
  if (reply.status == 200 && errors.is_array() && !errors.empty() && !has_any_data(told)) {
    error.message = json_text(json_item(errors, 0), "message");
    error.code = json_text(json_item(errors, 0), "extensions/code");
    error.heard = Heard::answered;
    error.refusal = refusal_of(error.message);
    // A server's own failure says nothing about what was done.
    const bool failed =
        error.code == "INTERNAL_SERVER_ERROR" || error.message.contains("went wrong");
    if (failed && error.refusal == Refusal::invalid) error.refusal = Refusal::transient;
  } else if (reply.status >= 300) {
    error.message = json_text(told, "detail");
    if (error.message.empty()) error.message = json_text(told, "title");
    const std::string first = json_text(json_item(errors, 0));
    if (!first.empty() && first != error.message) error.message += ": " + first;
    if (error.message.empty()) {  // GraphQL's, of a request that it cannot read
      error.message = json_text(json_item(errors, 0), "message");
      error.code = json_text(json_item(errors, 0), "extensions/code");
    }
    if (!error.message.empty()) error.heard = Heard::answered;
    error.refusal = refusal_of_status(reply.status);
  } else {
    return std::nullopt;
  }
  if (error.message.empty()) error.message = fmt::format("HTTP status {}", reply.status);
  error.hint = hint_for(error.refusal);
  return error;
}

// The value of the only field that the query asks for.
ApiResult<json> Api::ask(std::string query, json variables, Repeat repeat, Time deadline) {
  auto reply =
      client_.send({.method = "POST",
                    .path = "/graphql",
                    .body = json{{"query", std::move(query)}, {"variables", std::move(variables)}},
                    .repeat = repeat},
                   deadline);
  if (!reply) return std::unexpected(reply.error());
  for (const json* one : json_items(reply->json, "data")) {
    if (!one->is_null()) return *one;
  }
  ApiError error = broken_page("the reply has no data");
  error.maybe_done = repeat != Repeat::safe;
  return std::unexpected(std::move(error));
}

ApiResult<std::optional<RunPodUser>> Api::user(Time deadline) {
  const auto told =
      ask("query { myself { id email clientBalance } }", json::object(), Repeat::safe, deadline);
  if (!told && is_retired(told.error())) return std::nullopt;
  if (!told) return std::unexpected(told.error());
  RunPodUser out{.id = json_text(*told, "id"),
                 .email = json_text(*told, "email"),
                 .balance = json_number(*told, "clientBalance").value_or(0)};
  if (out.id.empty()) return std::unexpected(broken_page("the reply has no user id"));
  return out;
}

ApiResult<std::vector<GpuKind>> Api::gpus(Tier tier, int count, double least_cuda, Time deadline) {
  RestRequest request{.path = "/v2/catalog/gpus",
                      .query = {{"include", "AVAILABILITY"},
                                {"product", "POD"},
                                {"cloud", name_of(tier)},
                                {"count", std::to_string(count)}}};
  if (least_cuda > 0) request.query.emplace_back("minCudaVersion", version_text(least_cuda));
  const auto reply = client_.send(request, deadline);
  if (!reply) return std::unexpected(reply.error());
  return read_list<GpuKind>(reply->json, "gpus", read_gpu);
}

ApiResult<std::optional<std::vector<GpuMarket>>> Api::market(Tier tier, int count,
                                                             double least_cuda, Time deadline) {
  json input = {{"gpuCount", count}, {"secureCloud", tier == Tier::secure}};
  if (least_cuda > 0) input["minCudaVersion"] = version_text(least_cuda);
  const auto told =
      ask("query Market($input: GpuLowestPriceInput!) { gpuTypes { id lowestPrice(input: $input) "
          "{ minimumBidPrice minVcpu minMemory } } }",
          {{"input", std::move(input)}}, Repeat::safe, deadline);
  if (!told && is_retired(told.error())) return std::nullopt;
  if (!told) return std::unexpected(told.error());
  std::vector<GpuMarket> out;
  for (const json* one : json_items(*told)) {
    out.push_back({.id = json_text(*one, "id"),
                   .vcpus = count_of(json_number(*one, "lowestPrice/minVcpu")),
                   .memory_gb = json_number(*one, "lowestPrice/minMemory").value_or(0),
                   .least_bid = json_number(*one, "lowestPrice/minimumBidPrice")});
  }
  return out;
}

ApiResult<std::vector<CpuKind>> Api::cpus(Time deadline) {
  const auto reply = client_.send(
      {.path = "/v2/catalog/cpus", .query = {{"include", "AVAILABILITY"}, {"product", "POD"}}},
      deadline);
  if (!reply) return std::unexpected(reply.error());
  return read_list<CpuKind>(reply->json, "cpus", [](const json& told) {
    return CpuKind{.id = json_text(told, "id"),
                   .least = count_of(json_number(told, "vcpu/min")),
                   .most = count_of(json_number(told, "vcpu/max")),
                   .memory_gb = json_number(told, "ramGbPerVcpu").value_or(0),
                   .price = json_number(told, "price/securePerVcpu").value_or(0),
                   .places = read_places(told)};
  });
}

ApiResult<std::vector<DataCenter>> Api::data_centers(Time deadline) {
  const auto reply = client_.send({.path = "/v2/catalog/datacenters"}, deadline);
  if (!reply) return std::unexpected(reply.error());
  return read_list<DataCenter>(reply->json, "dataCenters", [](const json& told) {
    return DataCenter{.id = json_text(told, "id"),
                      .networked = json_at(told, "globalNetwork") == true};
  });
}

ApiResult<std::string> Api::place_of_volume(const std::string& id, Time deadline) {
  const auto reply = client_.send(
      {.path = fmt::format("/v2/network-volumes/{}", io::percent_encode(id))}, deadline);
  if (!reply) return std::unexpected(reply.error());
  std::string place = json_text(reply->json, "dataCenter");
  if (place.empty()) return std::unexpected(broken_page("the reply has no data centre"));
  return place;
}

ApiResult<std::string> Api::registry(const std::string& name, Time deadline) {
  const auto reply = client_.send({.path = "/v2/registries"}, deadline);
  if (!reply) return std::unexpected(reply.error());
  if (!json_at(reply->json, "registries").is_array()) {
    return std::unexpected(broken_page("the reply has no list of registries"));
  }
  std::string names;
  for (const json* one : json_items(reply->json, "registries")) {
    if (json_text(*one, "name") == name) return json_text(*one, "id");
    names += fmt::format("{}{}", names.empty() ? "" : ", ", json_text(*one, "name"));
  }
  return std::unexpected(
      ApiError{.refusal = Refusal::not_found,
               .heard = Heard::answered,
               .message = fmt::format("no stored credential is called {}", name),
               .hint = fmt::format("the account has {}", names.empty() ? "none" : names)});
}

ApiResult<std::string> Api::create(const PodRequest& wanted, Time deadline) {
  std::string id;
  if (wanted.bid) {
    const auto told =
        ask("mutation Rent($input: PodRentInterruptableInput!) "
            "{ podRentInterruptable(input: $input) { id } }",
            {{"input", graphql_input(wanted, *wanted.bid)}}, Repeat::once_then_look, deadline);
    if (!told) {
      ApiError error = told.error();
      // As on demand: hosts refuse in many words, which are shown if no other pod is found.
      const bool is_answered = error.heard == Heard::answered && !is_malformed(error);
      if (error.refusal == Refusal::invalid && is_answered) {
        error.refusal = Refusal::capacity;
      }
      if (error.refusal == Refusal::capacity) error.code.clear();
      return std::unexpected(std::move(error));
    }
    id = json_text(*told, "id");
  } else {
    const auto reply = client_.send({.method = "POST",
                                     .path = "/v2/pods",
                                     .body = rest_body(wanted),
                                     .repeat = Repeat::once_then_look},
                                    deadline);
    if (!reply) {
      ApiError error = reply.error();
      // Nothing tells a rule that was broken from a lack of machines, and 403 is about this kind or
      // place alone, since the key has been good for all before: others are tried, and the last
      // refusal is shown.
      if (error.status == 400 || error.status == 403) error.refusal = Refusal::capacity;
      return std::unexpected(std::move(error));
    }
    id = json_text(reply->json, "id");
  }
  if (!id.empty()) return id;
  ApiError error = broken_page("the reply has no pod");
  error.maybe_done = true;
  return std::unexpected(std::move(error));
}

// The newest first: a pod that is made meanwhile moves others to the next page, which has them
// again.
ApiResult<std::vector<Pod>> Api::pods(Time deadline) {
  std::set<std::string> known;
  const auto take = [&](const json& page,
                        std::vector<json>& items) -> ApiResult<std::optional<RestRequest>> {
    if (!json_at(page, "pods").is_array()) {
      return std::unexpected(broken_page("the reply has no list of pods"));
    }
    for (const json* one : json_items(page, "pods")) {
      if (known.insert(json_text(*one, "id")).second) items.push_back(*one);
    }
    if (json_at(page, "pagination/hasNextPage") != true) return std::optional<RestRequest>();
    const std::string cursor = json_text(page, "pagination/nextCursor");
    if (cursor.empty()) return std::unexpected(broken_page("the reply has no cursor"));
    return std::optional(RestRequest{.path = "/v2/pods", .query = {{"cursor", cursor}}});
  };
  const auto all = client_.list({.path = "/v2/pods"}, take, deadline);
  if (!all) return std::unexpected(all.error());
  std::vector<Pod> out;
  for (const json& one : *all) out.push_back(read_pod(one));
  return out;
}

ApiResult<Pod> Api::pod(const std::string& id, Time deadline) {
  const auto reply =
      client_.send({.path = fmt::format("/v2/pods/{}", io::percent_encode(id))}, deadline);
  if (!reply) return std::unexpected(reply.error());
  Pod out = read_pod(reply->json);
  if (out.id != id) return std::unexpected(broken_page("the reply is about another pod"));
  return out;
}

ApiResult<void> Api::terminate(const std::string& id, Time deadline) {
  const auto reply = client_.send(
      {.method = "DELETE", .path = fmt::format("/v2/pods/{}", io::percent_encode(id))}, deadline);
  if (!reply) return std::unexpected(reply.error());
  return {};
}

}  // namespace skyward::provider::runpod
