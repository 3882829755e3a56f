#include "doubles/digitalocean.h"

#include <algorithm>
#include <utility>

namespace skyward::doubles {
namespace {

// Billed for each second, a minute or a cent at least.
constexpr Tariff kTariff{
    .increment = std::chrono::seconds(1), .least = std::chrono::minutes(1), .least_price = 0.01};

}  // namespace

DigitalOcean::DigitalOcean(std::uint64_t seed) : Cloud(seed, kTariff) {
  token = "dop_v1_" + dice().hex(64);
  tokens[token] = {"*"};
}

std::map<std::string, std::string> DigitalOcean::environment(const std::string& url) const {
  return {{"DIGITALOCEAN_TOKEN", token},
          {"DIGITALOCEAN_ACCESS_TOKEN", token},
          {"DIGITALOCEAN_API_URL", url},
          {"DIGITALOCEAN_ENDPOINT_URL", url}};
}

const std::vector<DigitalOcean::Route>& DigitalOcean::routes() {
  using D = DigitalOcean;
  static const auto& all = *new std::vector<Route>{
      {"GET", "/v2/account", "account:read", {}, false, &D::account},
      {"GET", "/v2/customers/my/balance", "billing:read", {}, false, &D::balance},
      {"GET", "/v2/regions", "regions:read", {}, true, &D::regions},
      {"GET", "/v2/sizes", "sizes:read", {}, true, &D::sizes},
      {"GET", "/v2/images", "image:read", {"type", "private", "tag_name"}, true, &D::images},
      {"GET", "/v2/account/keys", "ssh_key:read", {}, true, &D::list_keys},
      {"POST", "/v2/account/keys", "ssh_key:create", {}, false, &D::create_key},
      {"GET", "/v2/account/keys/{}", "ssh_key:read", {}, false, &D::get_key},
      {"DELETE", "/v2/account/keys/{}", "ssh_key:delete", {}, false, &D::delete_key},
      {"GET",
       "/v2/droplets",
       "droplet:read",
       {"tag_name", "name", "type"},
       true,
       &D::list_droplets},
      {"POST", "/v2/droplets", "droplet:create", {}, false, &D::create_droplets},
      {"DELETE", "/v2/droplets", "droplet:delete", {"tag_name"}, false, &D::delete_tagged},
      {"GET", "/v2/droplets/{}", "droplet:read", {}, false, &D::get_droplet},
      {"DELETE", "/v2/droplets/{}", "droplet:delete", {}, false, &D::delete_droplet},
      {"GET", "/v2/droplets/{}/actions", "droplet:read", {}, true, &D::list_actions},
      {"POST", "/v2/droplets/{}/actions", "droplet:update", {}, false, &D::act},
      {"GET", "/v2/actions/{}", "actions:read", {}, false, &D::get_action},
      {"GET", "/v2/tags", "tag:read", {}, true, &D::list_tags},
      {"POST", "/v2/tags", "tag:create", {}, false, &D::create_tag},
      {"GET", "/v2/tags/{}", "tag:read", {}, false, &D::get_tag},
      {"DELETE", "/v2/tags/{}", "tag:delete", {}, false, &D::delete_tag},
      {"POST", "/v2/tags/{}/resources", "tag:create", {}, false, &D::tag_droplets},
      {"GET", "/v2/firewalls", "firewall:read", {}, true, &D::list_firewalls},
      {"POST", "/v2/firewalls", "firewall:create", {}, false, &D::create_firewall},
      {"GET", "/v2/firewalls/{}", "firewall:read", {}, false, &D::get_firewall},
      {"DELETE", "/v2/firewalls/{}", "firewall:delete", {}, false, &D::delete_firewall},
  };
  return all;
}

io::HttpReply DigitalOcean::refusal(int status, const std::string& what) {
  static const std::map<int, std::string>& ids = *new std::map<int, std::string>{
      {400, "bad_request"},
      {401, "unauthorized"},
      {403, "forbidden"},
      {404, "not_found"},
      {409, "conflict"},
      {412, "precondition_failed"},
      {415, "unsupported_media"},
      {422, "unprocessable_entity"},
      {429, "too_many_requests"},
      {500, "server_error"},
      {503, "service_unavailable"},
  };
  return json_reply(status,
                    {{"id", ids.at(status)}, {"message", what}, {"request_id", dice().uuid()}});
}

std::vector<Pace> DigitalOcean::paces(const Request& request) const {
  const std::string who = request.header("Authorization");
  std::vector<Pace> out{{"hour " + who, 5000, std::chrono::milliseconds(720)},
                        {"minute " + who, 250, std::chrono::milliseconds(240)}};
  if (request.method == "GET" && request.path == "/v2/account/keys") {
    out.push_back({"keys " + who, 10, std::chrono::seconds(6)});
  }
  return out;
}

void DigitalOcean::finish(const Request&, io::HttpReply& reply) {
  reply.headers.emplace_back("ratelimit-limit", "5000");
  reply.headers.emplace_back("ratelimit-remaining",
                             std::to_string(5000 - static_cast<int>(heard.size()) % 5000));
  reply.headers.emplace_back("ratelimit-reset",
                             std::to_string(wall_s(now() + std::chrono::hours(1))));
  reply.headers.emplace_back("x-request-id", dice().uuid());
}

std::vector<std::string> DigitalOcean::wrong_query(const Request& request,
                                                   const Route& route) const {
  std::vector<const char*> known = route.query;
  if (route.paged) known.insert(known.end(), {"page", "per_page"});
  std::vector<std::string> wrong = wrong_parameters(request, known);
  for (const auto& [name, value] : request.query) {
    if (!route.paged || (name != "page" && name != "per_page")) continue;
    const auto number = whole(value);
    if (!number || *number < 1 || (name == "per_page" && *number > 200)) {
      wrong.push_back(name + " must not be " + value);
    }
  }
  const bool writes = request.method == "POST";
  if (!writes && !request.text.empty()) wrong.push_back(request.method + " with a body");
  if (writes && !request.header("Content-Type").starts_with("application/json")) {
    wrong.emplace_back("a body without Content-Type: application/json");
  }
  if (writes && !request.body.is_object()) wrong.emplace_back("a body that is no JSON object");
  return wrong;
}

io::HttpReply DigitalOcean::perform(const Request& request) {
  const std::string said = request.header("Authorization");
  const auto who = said.starts_with("Bearer ") ? tokens.find(said.substr(7)) : tokens.end();
  if (who == tokens.end()) return refusal(401, "Unable to authenticate you.");
  const auto account = accounts.find(who->first);
  if (account == accounts.end()) return perform_with(who->second, request);
  const std::string first = std::exchange(dials.account, account->second);
  io::HttpReply out = perform_with(who->second, request);
  dials.account = first;
  return out;
}

io::HttpReply DigitalOcean::perform_with(const std::set<std::string>& scopes,
                                         const Request& request) {
  bool is_path = false;
  for (const Route& route : routes()) {
    const auto names = match(route.pattern, request);
    if (!names) continue;
    is_path = true;
    if (route.method != request.method) continue;
    if (!scopes.contains("*") && !scopes.contains(route.scope)) {
      return refusal(403, "You are not authorized to perform this operation.");
    }
    const std::vector<std::string> wrong = wrong_query(request, route);
    if (!wrong.empty()) return refuse_all(422, wrong);
    return (this->*route.perform)(request, *names);
  }
  violate(no_route(request, is_path));
  return refusal(404, "The resource you were accessing could not be found.");
}

io::HttpReply DigitalOcean::page(const Request& request, const char* name, const Json& all) {
  const auto number = [&](const char* key, std::size_t otherwise) {
    const auto found = request.query.find(key);
    return found == request.query.end() ? otherwise
                                        : static_cast<std::size_t>(*whole(found->second));
  };
  const std::size_t size = number("per_page", 20), at = number("page", 1);
  const std::size_t last = std::max<std::size_t>(1, (all.size() + size - 1) / size);
  Json items = Json::array();
  for (std::size_t i = (at - 1) * size; i < std::min(all.size(), at * size); ++i) {
    items.push_back(all[i]);
  }
  const auto address = [&](std::size_t to) {
    std::string out = request.origin + request.path + "?page=" + std::to_string(to);
    for (const auto& [key, value] : request.query) {
      if (key != "page") out += "&" + key + "=" + value;
    }
    return out;
  };
  Json pages = Json::object();
  if (at > 1) pages.update({{"first", address(1)}, {"prev", address(at - 1)}});
  if (at < last) pages.update({{"next", address(at + 1)}, {"last", address(last)}});
  Json links = Json::object();
  if (!pages.empty()) links["pages"] = pages;
  return json_reply(200, {{name, items}, {"links", links}, {"meta", {{"total", all.size()}}}});
}

io::HttpReply DigitalOcean::account(const Request&, const Names&) {
  return json_reply(200, {{"account",
                           {{"droplet_limit", dials.machine_limit},
                            {"floating_ip_limit", 3},
                            {"email", dials.account + "@example.com"},
                            {"name", dials.account},
                            {"uuid", "uuid-of-" + dials.account},
                            {"email_verified", true},
                            {"status", "active"},
                            {"status_message", ""},
                            {"team", {{"uuid", "team-of-" + dials.account}, {"name", "Team"}}}}}});
}

io::HttpReply DigitalOcean::balance(const Request&, const Names&) {
  const std::string usage = std::to_string(invoice(asked_at()));
  return json_reply(200, {{"month_to_date_balance", usage},
                          {"account_balance", "0.00"},
                          {"month_to_date_usage", usage},
                          {"generated_at", wall_text(now())}});
}

io::HttpReply DigitalOcean::regions(const Request& request, const Names&) {
  Json all = Json::array();
  for (const DropletRegion& region : droplet_regions()) all.push_back(region_json(region));
  return page(request, "regions", all);
}

io::HttpReply DigitalOcean::sizes(const Request& request, const Names&) {
  Json all = Json::array();
  for (const DropletSize& size : droplet_sizes()) all.push_back(size_json(size));
  return page(request, "sizes", all);
}

io::HttpReply DigitalOcean::images(const Request& request, const Names&) {
  Json all = Json::array();
  if (request.query.contains("private")) return page(request, "images", all);
  for (const DropletImage& image : droplet_images()) all.push_back(image_json(image));
  return page(request, "images", all);
}

}  // namespace skyward::doubles
