#include "doubles/vast.h"

#include <algorithm>
#include <utility>

namespace skyward::doubles {

// Empty where the offer has none.
static std::string place_of(const Json& offer) {
  return offer["geolocation"].is_string() ? offer["geolocation"].get<std::string>() : "";
}

Vast::Vast(std::uint64_t seed) : Cloud(seed, {}) {
  api_key = dice().hex(64);
  make_offers();
}

std::map<std::string, std::string> Vast::environment(const std::string& url) const {
  return {{"VAST_API_KEY", api_key}, {"VAST_URL", url}};
}

const std::vector<Vast::Route>& Vast::routes() {
  static const auto& all = *new std::vector<Route>{
      {"GET", "/api/v0/users/current", {"owner"}, &Vast::user},
      {"POST", "/api/v0/bundles", {}, &Vast::search},
      {"PUT", "/api/v0/asks/{}", {}, &Vast::take_ask},
      {"GET", "/api/v0/instances", {"owner"}, &Vast::list_instances},
      {"GET",
       "/api/v1/instances",
       {"limit", "after_token", "select_filters", "select_cols", "order_by"},
       &Vast::list_pages},
      {"GET", "/api/v0/instances/{}", {"owner"}, &Vast::get_instance},
      {"PUT", "/api/v0/instances/{}", {}, &Vast::change_instance},
      {"DELETE", "/api/v0/instances/{}", {}, &Vast::destroy_instance},
      {"PUT", "/api/v0/instances/bid_price/{}", {}, &Vast::change_bid},
      {"POST", "/api/v0/instances/{}/ssh", {}, &Vast::attach_key},
      {"GET", "/api/v0/ssh", {}, &Vast::list_keys},
      {"POST", "/api/v0/ssh", {}, &Vast::create_key},
      {"DELETE", "/api/v0/ssh/{}", {}, &Vast::delete_key},
      {"GET", "/api/v0/overlay", {}, &Vast::list_overlays},
      {"POST", "/api/v0/overlay", {}, &Vast::create_overlay},
      {"PUT", "/api/v0/overlay", {}, &Vast::join_overlay},
      {"DELETE", "/api/v0/overlay", {}, &Vast::delete_overlay},
  };
  return all;
}

io::HttpReply Vast::refuse(int status, const std::string& error, const std::string& what,
                           const Json& more) {
  Json body{{"success", false}, {"error", error}, {"msg", what}};
  body.update(more);
  return json_reply(status, body);
}

io::HttpReply Vast::refusal(int status, const std::string& what) {
  if (status == 429) {
    // By the specification, and as it comes.
    const std::string words = "API requests too frequent endpoint threshold=1.5";
    return heard.size() % 2 == 0 ? json_reply(429, {{"detail", words}}) : text_reply(429, words);
  }
  static const std::map<int, std::string>& errors = *new std::map<int, std::string>{
      {400, "invalid_args"}, {401, "auth_error"}, {403, "forbidden"}, {404, "not_found"}};
  const auto error = errors.find(status);
  return refuse(status, error == errors.end() ? "server_error" : error->second, what);
}

// A least time between two requests of one kind, though not for the first two. By the examples of
// the specification; 1.5 s for kinds without one, and for those with a shorter time.
std::vector<Pace> Vast::paces(const Request& request) const {
  static constexpr std::pair<std::string_view, std::chrono::milliseconds> kSlow[] = {
      {"PUT/api/v0/asks/{}", std::chrono::milliseconds(4500)},
      {"DELETE/api/v0/instances/{}", std::chrono::milliseconds(3000)},
      {"GET/api/v0/instances/{}", std::chrono::milliseconds(2000)},
      {"PUT/api/v0/instances/bid_price/{}", std::chrono::milliseconds(5500)}};
  std::string kind = request.method;
  for (const std::string& part : request.segments) kind += whole(part) ? "/{}" : "/" + part;
  const auto slow = std::ranges::find(kSlow, kind, [](const auto& one) { return one.first; });
  const auto gap = slow == std::end(kSlow) ? std::chrono::milliseconds(1500) : slow->second;
  return {{kind + request.header("Authorization"), 2, gap}};
}

io::HttpReply Vast::perform(const Request& request) {
  const std::string said = request.header("Authorization");
  const std::string key = said.starts_with("Bearer ") ? said.substr(7) : "";
  const auto own = std::ranges::find_if(
      contracts_, [&](const auto& one) { return !key.empty() && one.second.key == key; });
  if (key != api_key && own == contracts_.end()) {
    const bool searches = match("/api/v0/bundles", request).has_value();
    return refusal(searches ? 404 : 401, "Invalid user key");
  }
  bool is_path = false;
  for (const Route& route : routes()) {
    const auto names = match(route.pattern, request);
    if (!names || (!names->empty() && !whole(names->front()))) continue;
    is_path = true;
    if (route.method != request.method) continue;
    const bool ends_itself = request.method == "DELETE" && request.segments.size() == 4 &&
                             request.segments[2] == "instances";
    if (key != api_key && !(ends_itself && own->first == names->front())) {
      return refusal(403, "This key may not do that");
    }
    std::vector<std::string> wrong = wrong_parameters(request, route.query);
    if ((request.method == "POST" || request.method == "PUT") && !request.body.is_object()) {
      wrong.emplace_back("a body that is no JSON object");
    }
    if (!wrong.empty()) return refuse_all(400, wrong);
    return (this->*route.perform)(request, *names);
  }
  violate(no_route(request, is_path));
  return refusal(404, "no such endpoint");
}

io::HttpReply Vast::user(const Request&, const Names&) {
  const double left = std::stod(dials.balance) - invoice(asked_at());
  return json_reply(200, {{"id", dials.account == "first" ? 1001 : 1002},
                          {"email", dials.account + "@example.com"},
                          {"username", dials.account},
                          {"balance", left},
                          {"credit", left},
                          {"ssh_key", ""}});
}

// ---- taking an offer ----------------------------------------------------------------------------

std::vector<std::string> Vast::wrong_take(const Json& body) const {
  std::vector<std::string> wrong = misfits(body,
                                           {{"client_id", Kind::text},
                                            {"image", Kind::text, true},
                                            {"disk", Kind::number, true},
                                            {"label", Kind::text},
                                            {"runtype", Kind::text},
                                            {"args", Kind::list},
                                            {"args_str", Kind::text},
                                            {"onstart", Kind::text},
                                            {"env", Kind::any},
                                            {"price", Kind::number},
                                            {"cancel_unavail", Kind::flag},
                                            {"target_state", Kind::text},
                                            {"template_hash_id", Kind::text},
                                            {"image_login", Kind::text},
                                            {"vm", Kind::flag},
                                            {"user", Kind::text},
                                            {"extra", Kind::text},
                                            {"force", Kind::flag},
                                            {"python_utf8", Kind::flag},
                                            {"lang_utf8", Kind::flag},
                                            {"use_jupyter_lab", Kind::flag},
                                            {"jupyter_dir", Kind::text},
                                            {"volume_info", Kind::object}},
                                           "an instance");
  if (!wrong.empty()) return wrong;
  static constexpr std::string_view kWays[] = {"ssh",        "args",          "ssh_proxy",
                                               "ssh_direct", "ssh_direc",     "ssh_direc ssh_proxy",
                                               "jupyter",    "jupyter_proxy", "jupyter_direct"};
  const std::string way = body.value("runtype", "ssh");
  if (std::ranges::find(kWays, way) == std::end(kWays)) {
    wrong.push_back("there is no runtype " + way);
  }
  if (body.contains("args") && way != "args") wrong.push_back("args with the runtype " + way);
  if (body["disk"] < 1) wrong.push_back("a disk of " + body["disk"].dump() + " GB");
  if (body.contains("env") && !body["env"].is_object() && !body["env"].is_string()) {
    wrong.emplace_back("env is an object");
  }
  if (body.contains("price") && body["price"] < 0.001) wrong.emplace_back("a bid below 0.001");
  if (body.value("onstart", "").size() > 4048) wrong.emplace_back("an onstart that is too long");
  if (body.value("label", "").size() > 1024) wrong.emplace_back("a label that is too long");
  return wrong;
}

io::HttpReply Vast::take_ask(const Request& request, const Names& names) {
  const Json body = without_nulls(request.body);
  const std::vector<std::string> wrong = wrong_take(body);
  if (!wrong.empty()) return refuse_all(400, wrong);
  for (const Json& offer : offers_) {
    if (offer["id"].dump() != names[0]) continue;
    const std::string size = offer["gpu_name"], place = place_of(offer);
    const bool free = priced(offer, "on-demand", 0)["rentable"];
    if (!free || room(size, place) == 0) break;
    if (std::stod(dials.balance) <= invoice(asked_at())) {
      return refuse(400, "insufficient_credit", "Your account lacks credit");
    }
    if (offer["disk_space"] < body["disk"]) {
      return refuse(400, "invalid_args", "The offer has no such disk");
    }
    return sell(offer, body);
  }
  // The same refusal in each of the forms in which it was seen, or is specified.
  struct Form {
    int status;
    const char* error;
    const char* before;
  };
  static constexpr Form kForms[] = {{404, "no_such_ask", ""},
                                    {404, "invalid_args", "error 404/3603: "},
                                    {410, "no_such_ask", "error 410/3907: "},
                                    {200, "no_such_ask", ""}};
  const Form& form = kForms[dice().next() % std::size(kForms)];
  return refuse(
      form.status, form.error,
      form.before + ("no_such_ask Instance type by id " + names[0] + " is not available."),
      {{"ask_id", *whole(names[0])}});
}

io::HttpReply Vast::sell(const Json& offer, const Json& body) {
  const bool bid = body.contains("price");
  const double least = offer["min_bid"];
  const double price = bid ? body["price"].get<double>() : offer["dph_base"].get<double>();
  Machine& made =
      make_machine({.id = std::to_string(++last_id_),
                    .name = body.value("label", "unlabelled " + std::to_string(last_id_)),
                    .size = offer["gpu_name"],
                    .place = place_of(offer),
                    .hourly = price,
                    .spot = bid,
                    .request = body},
                   false);
  made.public_address = offer["public_ipaddr"];
  made.ssh_port = 40000 + last_id_ % 20000;
  Contract contract{.offer = offer,
                    .disk_gb = body["disk"],
                    .price = price,
                    .market = least,
                    .is_bid = bid,
                    .key = dice().hex(64)};
  for (const Key& key : keys_) {
    if (key.account == dials.account) contract.keys.push_back(key.text);
  }
  made.inside = {
      {"CONTAINER_ID", made.id}, {"CONTAINER_API_KEY", contract.key}, {"keys", contract.keys}};
  contracts_[made.id] = contract;
  const Json id = *whole(made.id);
  if (bid && price < least) {
    // Refused, and made nevertheless.
    made.stop(now());
    return refuse(400, "invalid_price", "The bid is below the least one", {{"new_contract", id}});
  }
  return json_reply(200, {{"success", true}, {"new_contract", id}});
}

// Running costs what was agreed, being there costs the disk.
double Vast::bill(const Machine& one, Time at) const {
  const Contract& contract = contracts_.at(one.id);
  const Time end = std::min(at, one.ended);
  const double disk = contract.offer["storage_cost"].get<double>() * contract.disk_gb / 730;
  const Time stopped = std::max(std::min(one.off, end), std::min(one.ready, end));
  const Duration ran =
      one.ready == kNever ? Duration{} : std::max(stopped - one.ready - one.paused, Duration{});
  return (seconds(ran) * contract.price + seconds(end - one.made) * disk) / 3600;
}

// ---- keys and networks --------------------------------------------------------------------------

io::HttpReply Vast::list_keys(const Request&, const Names&) {
  Json all = Json::array();
  for (const Key& one : keys_) {
    if (one.account != dials.account) continue;
    all.push_back({{"id", one.id},
                   {"user_id", 1001},
                   {"key", one.text},
                   {"created_at", wall_text(one.made)},
                   {"deleted_at", nullptr}});
  }
  return json_reply(200, all);
}

io::HttpReply Vast::create_key(const Request& request, const Names&) {
  const std::vector<std::string> wrong =
      misfits(request.body, {{"ssh_key", Kind::text, true}}, "a key");
  if (!wrong.empty()) return refuse_all(400, wrong);
  const Key& made = keys_.emplace_back(
      Key{++last_id_, dials.account, request.body["ssh_key"].get<std::string>(), now()});
  return json_reply(200, {{"success", true},
                          {"key",
                           {{"id", made.id},
                            {"user_id", 1001},
                            {"public_key", made.text},
                            {"created_at", wall_text(made.made)},
                            {"deleted_at", nullptr}}}});
}

io::HttpReply Vast::delete_key(const Request&, const Names& names) {
  const auto erased =
      std::erase_if(keys_, [&](const Key& one) { return std::to_string(one.id) == names[0]; });
  if (erased == 0) return refusal(404, "no such key");
  return json_reply(200, {{"success", true}});
}

io::HttpReply Vast::list_overlays(const Request&, const Names&) {
  Json all = Json::array();
  for (const Overlay& one : overlays_) {
    if (one.account != dials.account) continue;
    all.push_back({{"overlay_id", one.id},
                   {"name", one.name},
                   {"cluster_id", one.cluster},
                   {"internal_subnet", "10.77.0.0/16"},
                   {"instances", one.instances}});
  }
  return json_reply(200, all);
}

io::HttpReply Vast::create_overlay(const Request& request, const Names&) {
  const std::vector<std::string> wrong = misfits(
      request.body, {{"cluster_id", Kind::whole, true}, {"name", Kind::text, true}}, "a network");
  if (!wrong.empty()) return refuse_all(400, wrong);
  const Json& cluster = request.body["cluster_id"];
  if (std::ranges::none_of(offers_,
                           [&](const Json& one) { return one["cluster_id"] == cluster; })) {
    return refusal(404, "no such cluster");
  }
  overlays_.push_back({++last_id_, dials.account, request.body["name"], cluster});
  return json_reply(200, {{"success", true}, {"overlay_id", last_id_}});
}

io::HttpReply Vast::join_overlay(const Request& request, const Names&) {
  const std::vector<std::string> wrong =
      misfits(request.body, {{"name", Kind::text, true}, {"instance_id", Kind::whole, true}},
              "joining a network");
  if (!wrong.empty()) return refuse_all(400, wrong);
  const Machine* machine = find_machine(request.body["instance_id"].dump());
  for (Overlay& one : overlays_) {
    if (Json(one.name) != request.body["name"]) continue;
    if (machine == nullptr || contracts_.at(machine->id).offer["cluster_id"] != one.cluster) break;
    one.instances.push_back(request.body["instance_id"]);
    return json_reply(200, {{"success", true}});
  }
  return refusal(404, "no such network for this instance");
}

io::HttpReply Vast::delete_overlay(const Request& request, const Names&) {
  const Json body = request.body.is_null() ? Json::object() : request.body;
  const std::vector<std::string> wrong =
      misfits(body, {{"overlay_id", Kind::whole}, {"overlay_name", Kind::text}}, "what is deleted");
  if (!wrong.empty()) return refuse_all(400, wrong);
  const auto erased = std::erase_if(overlays_, [&](const Overlay& one) {
    return body.value("overlay_id", 0) == one.id || body.value("overlay_name", "") == one.name;
  });
  if (erased == 0) return refusal(404, "no such network");
  return json_reply(200, {{"success", true}});
}

std::vector<std::string> Vast::side_things() const {
  std::vector<std::string> out;
  for (const Key& one : keys_) out.push_back("key " + one.text);
  for (const Overlay& one : overlays_) out.push_back("network " + one.name);
  return out;
}

}  // namespace skyward::doubles
