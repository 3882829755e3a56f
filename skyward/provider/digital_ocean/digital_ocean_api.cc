#include "skyward/provider/digital_ocean/digital_ocean_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "skyward/base/text.h"

namespace skyward::provider::digital_ocean {

namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr const char* kPageSize = "200";
// "Listing SSH keys is limited to ten requests a minute."
constexpr Duration kKeysGap = 6s;

// A refused creation says why in its sentence alone.
Refusal refusal_of_sentence(std::string_view sentence) {
  const std::string text = lower(sentence);
  if (contains_any(text, {"pending event", "already in use", "already been taken", "already exists",
                          "currently being", "duplicate name"})) {
    return Refusal::conflict;
  }
  if (contains_any(text, {"limit", "quota", "exceed"})) return Refusal::quota;
  if (contains_any(text, {"billing", "balance", "payment", "credit"})) {
    return Refusal::insufficient_funds;
  }
  if (contains_any(text, {"not available", "unavailable", "sold out", "capacity",
                          "insufficient resources"})) {
    return Refusal::capacity;
  }
  return Refusal::invalid;
}

Refusal refusal_of(int status, std::string_view sentence) {
  if (status == 422) return refusal_of_sentence(sentence);
  if (status == 412) return Refusal::conflict;
  return status < 400 ? Refusal::transient : refusal_of_status(status);
}

std::string id_text(const json& value, std::string_view path) {
  const auto number = json_whole(value, path);
  return number ? std::to_string(*number) : json_text(value, path);
}

Size read_size(const json& told) {
  Size out{.slug = json_text(told, "slug"),
           .cpus = count_of(json_whole(told, "vcpus")),
           .memory_mib = json_number(told, "memory").value_or(0),
           .hourly = json_number(told, "price_hourly"),
           .gpu_model = json_text(told, "gpu_info/model"),
           .gpus = count_of(json_whole(told, "gpu_info/count"))};
  const bool mib = json_text(told, "gpu_info/vram/unit") == "mib";
  out.gpu_memory_gb = json_number(told, "gpu_info/vram/amount").value_or(0) / (mib ? 1024.0 : 1.0);
  if (json_at(told, "available") != false) {
    for (const json* region : json_items(told, "regions")) {
      out.regions.push_back(json_text(*region));
    }
  }
  return out;
}

Droplet read_droplet(const json& told) {
  Droplet out{.id = id_text(told, "id"),
              .name = json_text(told, "name"),
              .status = json_text(told, "status"),
              .region = json_text(told, "region/slug"),
              .size = json_text(told, "size_slug")};
  for (const json* network : json_items(told, "networks/v4")) {
    std::string& address =
        json_text(*network, "type") == "private" ? out.private_ip : out.public_ip;
    if (address.empty()) address = json_text(*network, "ip_address");
  }
  return out;
}

template <typename Read>
auto read_all(ApiResult<std::vector<json>> items, Read read)
    -> ApiResult<std::vector<decltype(read(json()))>> {
  if (!items) return std::unexpected(std::move(items.error()));
  std::vector<decltype(read(json()))> out;
  for (const json& item : *items) out.push_back(read(item));
  return out;
}

// Where a reply must name what was made.
ApiResult<std::string> some_id(std::string id, std::string_view what) {
  if (!id.empty()) return id;
  ApiError error = broken_page(fmt::format("the reply has no {}", what));
  error.maybe_done = true;
  return std::unexpected(std::move(error));
}

// A number where it is an id, as the specification has it.
json key_of(const std::string& id_or_fingerprint) {
  const json number = json::parse(id_or_fingerprint, nullptr, false);
  return number.is_number_integer() ? number : json(id_or_fingerprint);
}

// Every port, and of ICMP, which has none.
constexpr const char* kAllPorts = "0";

json rule(const char* protocol, const char* ports, const char* side, json peers) {
  return {{"protocol", protocol}, {"ports", ports}, {side, std::move(peers)}};
}

}  // namespace

bool is_unknown_key(const ApiError& error) {
  return error.status == 422 && lower(error.message).contains("invalid key identifiers");
}

std::optional<ApiError> read_error(const io::HttpReply& reply, const json& told) {
  if (reply.status >= 200 && reply.status < 300) return std::nullopt;
  ApiError error{.code = json_text(told, "id"),
                 .message = json_text(told, "message"),
                 .request_id = json_text(told, "request_id"),
                 .status = reply.status};
  if (!error.message.empty()) error.heard = Heard::answered;
  error.refusal = refusal_of(reply.status, error.message);
  if (error.message.empty()) error.message = fmt::format("HTTP status {}", reply.status);
  if (error.refusal == Refusal::auth) {
    error.hint =
        reply.status == 401
            ? "the token is wrong or has expired: create one with the scopes of the guide's "
              "page at cloud.digitalocean.com/account/api/tokens"
            : "the token lacks a scope: the guide's page lists those that pools need";
  } else if (error.refusal == Refusal::quota) {
    error.hint = "ask for a higher limit at cloud.digitalocean.com, or for fewer machines";
  } else if (error.refusal == Refusal::insufficient_funds) {
    error.hint = "check the account's billing at cloud.digitalocean.com/account/billing";
  }
  return error;
}

// Pages are asked for by their number: an address in a reply would be sent the token.
ApiResult<std::vector<json>> Api::list(std::string_view what, RestRequest request, Time deadline) {
  request.query.emplace_back("per_page", kPageSize);
  request.query.emplace_back("page", "1");
  int page = 1;
  const auto take = [&](const json& told,
                        std::vector<json>& items) -> ApiResult<std::optional<RestRequest>> {
    const json& part = json_at(told, what);
    if (!part.is_array()) {
      return std::unexpected(broken_page(fmt::format("the reply has no {}", what)));
    }
    items.insert(items.end(), part.begin(), part.end());
    if (json_text(told, "links/pages/next").empty()) return std::optional<RestRequest>();
    request.query.back().second = std::to_string(++page);
    return request;
  };
  return client_.list(request, take, deadline);
}

ApiResult<void> Api::remove(std::string path, Time deadline) {
  const auto done = client_.send({.method = "DELETE", .path = std::move(path)}, deadline);
  if (!done) return std::unexpected(done.error());
  return {};
}

ApiResult<Account> Api::account(Time deadline) {
  const auto reply = client_.send({.path = "/v2/account"}, deadline);
  if (!reply) return std::unexpected(reply.error());
  const json& told = json_at(reply->json, "account");
  Account out{.user = json_text(told, "uuid"),
              .team = json_text(told, "team/uuid"),
              .email = json_text(told, "email"),
              .status = json_text(told, "status"),
              .message = json_text(told, "status_message")};
  if (out.user.empty()) return std::unexpected(broken_page("the reply names no account"));
  if (out.team.empty()) out.team = out.user;
  return out;
}

ApiResult<std::vector<Size>> Api::sizes(Time deadline) {
  return read_all(list("sizes", {.path = "/v2/sizes"}, deadline), read_size);
}

ApiResult<std::vector<std::string>> Api::regions(Time deadline) {
  return read_all(list("regions", {.path = "/v2/regions"}, deadline),
                  [](const json& told) { return json_text(told, "slug"); });
}

ApiResult<std::vector<Droplet>> Api::droplets(bool gpus, Time deadline) {
  RestRequest request{.path = "/v2/droplets"};
  if (gpus) request.query.emplace_back("type", "gpus");
  return read_all(list("droplets", std::move(request), deadline), read_droplet);
}

ApiResult<Droplet> Api::droplet(const std::string& id, Time deadline) {
  const auto reply = client_.send({.path = "/v2/droplets/" + io::percent_encode(id)}, deadline);
  if (!reply) return std::unexpected(reply.error());
  Droplet out = read_droplet(json_at(reply->json, "droplet"));
  if (out.id != id) return std::unexpected(broken_page("the reply is about another droplet"));
  return out;
}

ApiResult<Creation> Api::create_droplets(const DropletRequest& wanted, Time deadline) {
  const json body = {{"names", wanted.names},
                     {"region", wanted.region},
                     {"size", wanted.size},
                     {"image", wanted.image},
                     {"ssh_keys", json::array({key_of(wanted.ssh_key)})},
                     {"user_data", wanted.user_data},
                     {"tags", json::array({wanted.tag})},
                     {"backups", false},
                     {"ipv6", false},
                     {"monitoring", false},
                     {"with_droplet_agent", false}};
  const auto reply =
      client_.send({.method = "POST", .path = "/v2/droplets", .body = body}, deadline);
  if (!reply) return std::unexpected(reply.error());
  Creation out;
  for (const json* droplet : json_items(reply->json, "droplets")) {
    const auto id = some_id(id_text(*droplet, "id"), "droplet's id");
    if (!id) return std::unexpected(id.error());
    out.droplets.push_back(*id);
  }
  for (const json* action : json_items(reply->json, "links/actions")) {
    if (json_text(*action, "rel").contains("create")) out.actions.push_back(id_text(*action, "id"));
  }
  return out;
}

ApiResult<void> Api::delete_droplet(const std::string& id, Time deadline) {
  return remove("/v2/droplets/" + io::percent_encode(id), deadline);
}

ApiResult<std::string> Api::action_status(const std::string& id, Time deadline) {
  const auto reply = client_.send({.path = "/v2/actions/" + io::percent_encode(id)}, deadline);
  if (!reply) return std::unexpected(reply.error());
  return json_text(reply->json, "action/status");
}

ApiResult<std::vector<SshKey>> Api::ssh_keys(Time deadline) {
  RestRequest request{.path = "/v2/account/keys",
                      .limits = {{.name = "ssh keys", .gap = kKeysGap}}};
  return read_all(list("ssh_keys", std::move(request), deadline), [](const json& told) {
    return SshKey{.id = id_text(told, "id"), .name = json_text(told, "name")};
  });
}

ApiResult<std::string> Api::create_ssh_key(const std::string& name, const std::string& public_key,
                                           Time deadline) {
  const auto reply = client_.send({.method = "POST",
                                   .path = "/v2/account/keys",
                                   .body = json{{"name", name}, {"public_key", public_key}}},
                                  deadline);
  if (!reply) return std::unexpected(reply.error());
  return some_id(id_text(reply->json, "ssh_key/id"), "key's id");
}

ApiResult<void> Api::delete_ssh_key(const std::string& id, Time deadline) {
  return remove("/v2/account/keys/" + io::percent_encode(id), deadline);
}

ApiResult<std::vector<std::string>> Api::tags(Time deadline) {
  return read_all(list("tags", {.path = "/v2/tags"}, deadline),
                  [](const json& told) { return json_text(told, "name"); });
}

// One that exists already is as good: the request may be sent again.
ApiResult<void> Api::create_tag(const std::string& name, Time deadline) {
  const auto reply = client_.send(
      {.method = "POST", .path = "/v2/tags", .body = json{{"name", name}}, .repeat = Repeat::safe},
      deadline);
  if (!reply) return std::unexpected(reply.error());
  return {};
}

ApiResult<void> Api::delete_tag(const std::string& name, Time deadline) {
  return remove("/v2/tags/" + io::percent_encode(name), deadline);
}

ApiResult<std::vector<Firewall>> Api::firewalls(Time deadline) {
  return read_all(list("firewalls", {.path = "/v2/firewalls"}, deadline), [](const json& told) {
    return Firewall{.id = json_text(told, "id"), .name = json_text(told, "name")};
  });
}

ApiResult<std::string> Api::create_firewall(const std::string& name, const std::string& tag,
                                            Time deadline) {
  const json everybody = {{"addresses", {"0.0.0.0/0", "::/0"}}};
  const json each_other = {{"tags", json::array({tag})}};
  const json body = {
      {"name", name},
      {"tags", json::array({tag})},
      {"inbound_rules",
       {rule("tcp", "22", "sources", everybody), rule("tcp", kAllPorts, "sources", each_other),
        rule("udp", kAllPorts, "sources", each_other),
        rule("icmp", kAllPorts, "sources", each_other)}},
      {"outbound_rules",
       {rule("tcp", kAllPorts, "destinations", everybody),
        rule("udp", kAllPorts, "destinations", everybody),
        rule("icmp", kAllPorts, "destinations", everybody)}}};
  const auto reply =
      client_.send({.method = "POST", .path = "/v2/firewalls", .body = body}, deadline);
  if (!reply) return std::unexpected(reply.error());
  return some_id(json_text(reply->json, "firewall/id"), "firewall's id");
}

ApiResult<void> Api::delete_firewall(const std::string& id, Time deadline) {
  return remove("/v2/firewalls/" + io::percent_encode(id), deadline);
}

}  // namespace skyward::provider::digital_ocean
