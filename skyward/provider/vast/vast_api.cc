#include "skyward/provider/vast/vast_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::vast {

namespace {

using namespace std::chrono_literals;
using nlohmann::json;

// Requests of one kind are refused when they come faster: by the examples of the published
// specification, and for other kinds by the least of them.
constexpr Duration kGap = 1500ms;
constexpr Duration kTakeGap = 4500ms;
constexpr Duration kDestroyGap = 3000ms;
constexpr Duration kLookGap = 2000ms;
// One search tells so many asks, whatever its limit says. The limit is for the day when it counts.
constexpr std::size_t kAskPage = 64;
constexpr int kMostAsks = 5000;
constexpr int kPage = 25;  // the most that a page may have
constexpr std::size_t kLongestText = 200;

RateLimit limit_of(const char* kind, Duration gap = kGap) { return {.name = kind, .gap = gap}; }

Refusal refusal_of(int status, std::string_view error, std::string_view message) {
  const std::string_view gone = "no_such_ask";
  if (error.contains(gone) || message.contains(gone)) return Refusal::capacity;
  if (error == "no_such_instance") return Refusal::not_found;
  if (error == "invalid_price") return Refusal::price_too_low;
  if (error == "insufficient_credit") return Refusal::insufficient_funds;
  if (error == "auth_error" || message == "Invalid user key") return Refusal::auth;
  if (error == "search_quota_exceeded") return Refusal::quota;  // of the day: no retry helps
  return refusal_of_status(status);
}

const char* hint_for(Refusal refusal) {
  switch (refusal) {
    case Refusal::auth:
      return "check the key at cloud.vast.ai, Keys, and what it may do";
    case Refusal::insufficient_funds:
      return "add credit at cloud.vast.ai, Billing";
    case Refusal::quota:
      return "today's search results of this account are used up: try again tomorrow";
    default:
      return "";
  }
}

// Some hosts' texts have blanks or a newline at their ends: "203.0.113.7 \n".
std::string trimmed_text(const json& told, std::string_view path) {
  return std::string(trimmed(json_text(told, path)));
}

// "Texas, US" → "US".
std::string country_of(const json& told) {
  const std::string geolocation = trimmed_text(told, "geolocation");
  return geolocation.substr(geolocation.rfind(' ') + 1);
}

std::string id_at(const json& told, std::string_view path) {
  const auto number = json_whole(told, path);
  return number ? std::to_string(*number) : json_text(told, path);
}

// Which part of its host a machine is: `cpu_ram` is all that the host has.
double share_of(const json& told) {
  const double all = json_number(told, "cpu_cores").value_or(0);
  const double own = json_number(told, "cpu_cores_effective").value_or(0);
  const double share = all > 0 && own > 0 ? own / all : json_number(told, "gpu_frac").value_or(1);
  return share > 0 && share < 1 ? share : 1;
}

Ask read_ask(const json& told) {
  return {.id = id_at(told, "id"),
          .host = id_at(told, "machine_id"),
          .gpu = json_text(told, "gpu_name"),
          .gpus = count_of(json_number(told, "num_gpus")),
          .gpu_memory_gb = json_number(told, "gpu_ram").value_or(0) / 1024,
          .cpus = count_of(json_number(told, "cpu_cores_effective")),
          .memory_gb = json_number(told, "cpu_ram").value_or(0) / 1024 * share_of(told),
          .country = country_of(told),
          .total = json_number(told, "dph_total"),
          .base = json_number(told, "dph_base").value_or(0),
          .download_gb = json_number(told, "inet_down_cost"),
          .upload_gb = json_number(told, "inet_up_cost")};
}

Contract read_contract(const json& told) {
  Contract out{.id = id_at(told, "id"),
               .label = trimmed_text(told, "label"),
               .actual_status = json_text(told, "actual_status"),
               .cur_state = json_text(told, "cur_state"),
               .status_msg = json_text(told, "status_msg"),
               .country = country_of(told),
               .gpu = json_text(told, "gpu_name"),
               .gpus = count_of(json_number(told, "num_gpus")),
               .is_bid = json_at(told, "is_bid") == true,
               .total = json_number(told, "dph_total"),
               .address = trimmed_text(told, "public_ipaddr")};
  // A name of Docker's, with a '/' in it: no path of json_at().
  const json& ports = json_at(told, "ports");
  const auto ssh = ports.is_object() ? ports.find("22/tcp") : ports.end();
  if (ports.is_object() && ssh != ports.end()) {
    out.ssh_port = count_of(json_decimal(json_item(*ssh, 0), "HostPort"));
  }
  return out;
}

json filter_body(const AskFilter& filter) {
  json body = {
      {"rentable", {{"eq", true}}},
      {"rented", {{"eq", false}}},
      {"reliability", {{"gte", filter.min_reliability}}},
      {"cuda_max_good", {{"gte", filter.min_cuda}}},
      {"direct_port_count", {{"gte", 1}}},
      {"disk_space", {{"gte", filter.disk_gb}}},
      {"cpu_arch", {{"eq", "amd64"}}},
      {"num_gpus", {{filter.gpus > 0 ? "eq" : "gte", std::max(filter.gpus, filter.min_gpus)}}},
      {"inet_down", {{"gte", filter.min_down_mbit}}},
      {"duration", {{"gte", filter.min_duration_s}}},
      {"type", filter.bids ? "bid" : "on-demand"},
      {"order", json::array({json::array({"dph_total", "asc"})})},
      {"allocated_storage", filter.disk_gb},
      {"limit", kMostAsks}};
  body["verified"] = {{"eq", filter.verified}};
  if (!filter.gpu.empty()) body["gpu_name"] = {{"eq", filter.gpu}};
  if (const auto [from, below] = filter.compute_caps; below > 0) {
    body["compute_cap"] = {{"gte", from}, {"lt", below}};
  }
  if (filter.datacenters) body["datacenter"] = {{"eq", true}};
  if (!filter.countries.empty()) body["geolocation"] = {{"in", filter.countries}};
  return body;
}

}  // namespace

std::optional<ApiError> read_error(const io::HttpReply& reply, const json& told) {
  const bool refused = reply.status >= 300 || json_at(told, "success") == false;
  // What was made is looked after, whatever is said about it (Api::take).
  if (!refused || json_whole(told, "new_contract")) return std::nullopt;
  ApiError error{
      .code = json_text(told, "error"), .message = json_text(told, "msg"), .status = reply.status};
  if (error.message.empty()) error.message = json_text(told, "detail");
  if (reply.status == 429 && told.is_null()) {  // often plain text
    error.message = trimmed(std::string_view(reply.body).substr(0, kLongestText));
  }
  if (!error.code.empty() || !error.message.empty()) error.heard = Heard::answered;
  error.refusal = refusal_of(reply.status, error.code, error.message);
  if (error.message.empty()) error.message = fmt::format("HTTP status {}", reply.status);
  error.hint = hint_for(error.refusal);
  return error;
}

ApiResult<VastUser> Api::user(Time deadline) {
  const auto reply =
      client_.send({.path = "/api/v0/users/current", .limits = {limit_of("user")}}, deadline);
  if (!reply) return std::unexpected(reply.error());
  VastUser out{.id = id_at(reply->json, "id"),
               .email = json_text(reply->json, "email"),
               .credit = json_number(reply->json, "credit")
                             .value_or(json_number(reply->json, "balance").value_or(0))};
  if (out.id.empty()) return std::unexpected(broken_page("the reply has no user id"));
  return out;
}

// Page by page, each from the price at which the last one ended. A page full of what is known has
// one price from end to end: the next one begins above it, and what else has that price is missed.
ApiResult<std::vector<Ask>> Api::search(const AskFilter& filter, Time deadline) {
  const auto request = [&](const json& price) {
    json body = filter_body(filter);
    if (!price.is_null()) body["dph_total"] = price;
    return RestRequest{.method = "POST",
                       .path = "/api/v0/bundles/",
                       .body = std::move(body),
                       .repeat = Repeat::safe,
                       .limits = {limit_of("search")}};
  };
  std::vector<Ask> out;
  std::set<std::string> known;
  bool above = false;
  int pages = 0;
  const auto take = [&](const json& page,
                        std::vector<json>&) -> ApiResult<std::optional<RestRequest>> {
    if (!json_at(page, "offers").is_array()) {
      return std::unexpected(broken_page("the reply has no list of offers"));
    }
    const std::vector<const json*> told = json_items(page, "offers");
    const std::size_t before = out.size();
    for (const json* one : told) {
      Ask ask = read_ask(*one);
      if (known.insert(ask.id).second) out.push_back(std::move(ask));
    }
    const bool is_new = out.size() > before;
    const bool ends = told.size() < kAskPage || (!is_new && above) || ++pages == filter.most_pages;
    const auto last = told.empty() ? std::nullopt : json_number(*told.back(), "dph_total");
    if (ends || !last) return std::optional<RestRequest>();
    above = !is_new;
    return std::optional(request({{above ? "gt" : "gte", *last}}));
  };
  const auto all = client_.list(request(nullptr), take, deadline);
  const bool is_late = !all && all.error().kind() == ErrorKind::timeout;
  if (!all && (!is_late || out.empty())) return std::unexpected(all.error());
  return out;  // the cheapest, if there was no time for all
}

ApiResult<std::string> Api::take(const std::string& ask, const ContractRequest& wanted,
                                 Time deadline) {
  json body = {{"client_id", "me"},         {"image", wanted.image},   {"disk", wanted.disk_gb},
               {"label", wanted.label},     {"runtype", "ssh_direct"}, {"onstart", wanted.onstart},
               {"target_state", "running"}, {"cancel_unavail", true}};
  if (wanted.bid) body["price"] = *wanted.bid;
  const auto reply = client_.send({.method = "PUT",
                                   .path = fmt::format("/api/v0/asks/{}/", io::percent_encode(ask)),
                                   .body = std::move(body),
                                   .repeat = Repeat::once_then_look,
                                   .limits = {limit_of("take", kTakeGap)}},
                                  deadline);
  if (!reply) {
    ApiError error = reply.error();
    const bool is_gone = error.status == 404 || error.status == 410;
    if (is_gone && is_certain(error)) error.refusal = Refusal::capacity;
    return std::unexpected(std::move(error));
  }
  std::string contract = id_at(reply->json, "new_contract");
  if (!contract.empty()) return contract;
  ApiError error = broken_page("the reply has no contract");
  error.maybe_done = true;
  return std::unexpected(std::move(error));
}

ApiResult<std::vector<Contract>> Api::contracts(Time deadline) {
  const auto request = [](const std::string& after) {
    RestRequest out{.path = "/api/v1/instances/",
                    .query = {{"limit", std::to_string(kPage)}},
                    .limits = {limit_of("list")}};
    if (!after.empty()) out.query.emplace_back("after_token", after);
    return out;
  };
  const auto take = [&](const json& page,
                        std::vector<json>& items) -> ApiResult<std::optional<RestRequest>> {
    if (!json_at(page, "instances").is_array()) {
      return std::unexpected(broken_page("the reply has no list of instances"));
    }
    for (const json* one : json_items(page, "instances")) items.push_back(*one);
    const std::string next = id_at(page, "next_token");
    if (next.empty()) return std::optional<RestRequest>();
    return std::optional(request(next));
  };
  const auto all = client_.list(request(""), take, deadline);
  if (!all) return std::unexpected(all.error());
  std::vector<Contract> out;
  for (const json& one : *all) out.push_back(read_contract(one));
  return out;
}

// One that does not exist is null, or not found.
ApiResult<Contract> Api::contract(const std::string& id, Time deadline) {
  const auto reply =
      client_.send({.path = fmt::format("/api/v0/instances/{}/", io::percent_encode(id)),
                    .query = {{"owner", "me"}},
                    .limits = {limit_of("look", kLookGap)}},
                   deadline);
  if (!reply) return std::unexpected(reply.error());
  if (!reply->json.is_object() || !reply->json.contains("instances")) {
    return std::unexpected(broken_page("the reply has no instance"));
  }
  const json& told = json_at(reply->json, "instances");
  if (told.is_null()) {
    return std::unexpected(ApiError{.refusal = Refusal::not_found,
                                    .heard = Heard::answered,
                                    .message = "there is no such instance",
                                    .status = 404});
  }
  Contract out = read_contract(told);
  if (out.id != id) return std::unexpected(broken_page("the reply is about another instance"));
  return out;
}

ApiResult<void> Api::destroy(const std::string& id, Time deadline) {
  const auto reply =
      client_.send({.method = "DELETE",
                    .path = fmt::format("/api/v0/instances/{}/", io::percent_encode(id)),
                    .limits = {limit_of("destroy", kDestroyGap)}},
                   deadline);
  if (!reply) return std::unexpected(reply.error());
  return {};
}

}  // namespace skyward::provider::vast
