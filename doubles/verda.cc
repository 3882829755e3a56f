#include "doubles/verda.h"

#include <algorithm>

namespace skyward::doubles {
namespace {

constexpr Tariff kTariff{.increment = std::chrono::minutes(10)};
constexpr long long kScriptsOfAPage = 10, kLongestPage = 100;

// A form as it is sent without JSON: "grant_type=client_credentials&client_id=…".
Json read_form(const Request& request) {
  const Request form = read_request({.url = "http://form/?" + request.text});
  return form.query;
}

}  // namespace

Verda::Verda(std::uint64_t seed) : Cloud(seed, kTariff) {
  client_id = dice().hex(32);
  client_secret = dice().hex(40);
}

std::map<std::string, std::string> Verda::environment(const std::string& url) const {
  return {{"VERDA_CLIENT_ID", client_id},
          {"VERDA_CLIENT_SECRET", client_secret},
          {"VERDA_BASE_URL", url + "/v1"}};
}

const std::vector<Verda::Route>& Verda::routes() {
  static const auto& all = *new std::vector<Route>{
      {"GET", "/v1/balance", {}, &Verda::balance},
      {"GET", "/v1/instance-types", {"currency"}, &Verda::types},
      {"GET",
       "/v1/instance-availability",
       {"is_spot", "isSpot", "location_code"},
       &Verda::availabilities},
      {"GET",
       "/v1/instance-availability/{}",
       {"is_spot", "isSpot", "location_code"},
       &Verda::availability},
      {"GET", "/v1/locations", {}, &Verda::places},
      {"GET", "/v1/images", {"instance_type"}, &Verda::images},
      {"GET", "/v1/instances", {"status"}, &Verda::list_instances},
      {"POST", "/v1/instances", {}, &Verda::create_instance},
      {"PUT", "/v1/instances", {}, &Verda::act_on_instances},
      {"GET", "/v1/instances/{}", {}, &Verda::get_instance},
      {"GET", "/v1/volume-types", {}, &Verda::list_volume_types},
      {"GET", "/v1/volumes", {"status"}, &Verda::list_volumes},
      {"POST", "/v1/volumes", {}, &Verda::create_volume},
      {"PUT", "/v1/volumes", {}, &Verda::act_on_volumes},
      {"GET", "/v1/volumes/trash", {}, &Verda::list_trash},
      {"GET", "/v1/volumes/{}", {}, &Verda::get_volume},
      {"DELETE", "/v1/volumes/{}", {}, &Verda::delete_volume},
      {"GET", "/v1/ssh-keys", {}, &Verda::list_texts},
      {"POST", "/v1/ssh-keys", {}, &Verda::create_text},
      {"DELETE", "/v1/ssh-keys", {}, &Verda::delete_texts},
      {"GET", "/v1/ssh-keys/{}", {}, &Verda::get_text},
      {"DELETE", "/v1/ssh-keys/{}", {}, &Verda::delete_text},
      {"GET", "/v1/sshkeys", {}, &Verda::list_texts},
      {"POST", "/v1/sshkeys", {}, &Verda::create_text},
      {"DELETE", "/v1/sshkeys", {}, &Verda::delete_texts},
      {"GET", "/v1/sshkeys/{}", {}, &Verda::get_text},
      {"DELETE", "/v1/sshkeys/{}", {}, &Verda::delete_text},
      {"GET", "/v1/scripts", {"page", "pageSize"}, &Verda::list_texts},
      {"POST", "/v1/scripts", {}, &Verda::create_text},
      {"DELETE", "/v1/scripts", {}, &Verda::delete_texts},
      {"GET", "/v1/scripts/{}", {}, &Verda::get_text},
      {"DELETE", "/v1/scripts/{}", {}, &Verda::delete_text},
  };
  return all;
}

io::HttpReply Verda::refusal(int status, const std::string& what) {
  static const std::map<int, std::string>& codes = *new std::map<int, std::string>{
      {400, "invalid_request"},     {401, "unauthorized_request"},
      {402, "insufficient_funds"},  {403, "forbidden_action"},
      {404, "not_found"},           {429, "too_many_requests"},
      {503, "service_unavailable"},
  };
  const auto code = codes.find(status);
  return json_reply(
      status, {{"code", code == codes.end() ? "server_error" : code->second}, {"message", what}});
}

// ---- who asks -----------------------------------------------------------------------------------

io::HttpReply Verda::log_in(const Request& request) {
  const Json body = request.body.is_object() ? request.body : read_form(request);
  const std::vector<std::string> wrong = misfits(body,
                                                 {{"grant_type", Kind::text, true},
                                                  {"client_id", Kind::text},
                                                  {"client_secret", Kind::text},
                                                  {"refresh_token", Kind::text}},
                                                 "a login");
  if (!wrong.empty()) return refuse_all(400, wrong);
  const std::string grant = body["grant_type"];
  if (grant == "refresh_token") {
    const auto found = refresh_.find(body.value("refresh_token", ""));
    if (found == refresh_.end() || now() >= found->second) {
      return refusal(400, "Invalid refresh token");
    }
    refresh_.erase(found);
  } else if (grant == "client_credentials") {
    if (body.value("client_id", "") != client_id ||
        body.value("client_secret", "") != client_secret) {
      return refusal(401, "Invalid client id or client secret");
    }
  } else {
    return refuse_all(400, {"there is no grant type " + grant});
  }
  const std::string access = dice().hex(48), refresh = dice().hex(48);
  access_[access] = now() + dials.token_life;
  refresh_[refresh] = now() + dials.token_life * 2;
  return json_reply(200, {{"access_token", access},
                          {"refresh_token", refresh},
                          {"scope", "cloud-api-v1"},
                          {"token_type", "Bearer"},
                          {"expires_in", static_cast<int>(seconds(dials.token_life))}});
}

bool Verda::is_logged_in(const Request& request) const {
  const std::string said = request.header("Authorization");
  if (!said.starts_with("Bearer ")) return false;
  const auto found = access_.find(said.substr(7));
  return found != access_.end() && now() < found->second;
}

io::HttpReply Verda::perform(const Request& request) {
  if (request.method == "POST" && request.path == "/v1/oauth2/token") return log_in(request);
  if (!is_logged_in(request)) return refusal(401, "Unauthorized");
  bool is_path = false;
  for (const Route& route : routes()) {
    const auto names = match(route.pattern, request);
    if (!names) continue;
    is_path = true;
    if (route.method != request.method) continue;
    std::vector<std::string> wrong = wrong_parameters(request, route.query);
    const bool writes = request.method == "POST" || request.method == "PUT";
    if (writes && !request.header("Content-Type").starts_with("application/json")) {
      wrong.emplace_back("a body without Content-Type: application/json");
    }
    if (writes && !request.body.is_object()) wrong.emplace_back("a body that is no JSON object");
    if (!wrong.empty()) return refuse_all(400, wrong);
    return (this->*route.perform)(request, *names);
  }
  violate(no_route(request, is_path));
  return refusal(404, "Not found");
}

io::HttpReply Verda::new_id(int status, const std::string& id) {
  return text_reply(status, dice().chance(dials.quote_ids) ? "\"" + id + "\"" : id);
}

// ---- what there is ------------------------------------------------------------------------------

io::HttpReply Verda::balance(const Request&, const Names&) {
  return json_reply(
      200, {{"amount", std::stod(dials.balance) - invoice(asked_at())}, {"currency", "usd"}});
}

io::HttpReply Verda::types(const Request& request, const Names&) {
  const auto currency = request.query.find("currency");
  if (currency != request.query.end() && currency->second != "usd" && currency->second != "eur") {
    return refuse_all(400, {"there is no currency " + currency->second});
  }
  Json all = Json::array();
  for (const VerdaType& type : verda_types()) all.push_back(verda_type_json(type, all.size() % 2));
  return json_reply(200, all);
}

io::HttpReply Verda::availabilities(const Request& request, const Names&) {
  const auto asked = request.query.find("location_code");
  Json all = Json::array();
  for (const std::string_view place : verda_places()) {
    if (asked != request.query.end() && asked->second != place) continue;
    Json types = Json::array();
    for (const VerdaType& type : verda_types()) {
      if (type.is_at(place)) types.push_back(type.name);
    }
    all.push_back({{"location_code", place}, {"availabilities", types}});
  }
  return json_reply(200, all);
}

io::HttpReply Verda::availability(const Request& request, const Names& names) {
  const VerdaType* type = find_verda_type(names[0]);
  if (type == nullptr) return refusal(400, "Invalid instance type");
  const auto asked = request.query.find("location_code");
  if (asked != request.query.end()) return json_reply(200, type->is_at(asked->second));
  return json_reply(200, !type->places.empty());
}

io::HttpReply Verda::places(const Request&, const Names&) {
  Json all = Json::array();
  for (const std::string_view place : verda_places()) {
    const bool finland = place.starts_with("FIN");
    all.push_back({{"code", place},
                   {"name", finland ? "Finland" : "Iceland"},
                   {"country_code", finland ? "FI" : "IS"}});
  }
  return json_reply(200, all);
}

io::HttpReply Verda::images(const Request& request, const Names&) {
  const auto asked = request.query.find("instance_type");
  if (asked == request.query.end()) return json_reply(200, verda_images());
  const VerdaType* type = find_verda_type(asked->second);
  if (type == nullptr) return refusal(400, "Invalid instance type");
  Json all = Json::array();
  for (const Json& one : verda_images()) {
    if (type->starts(one["image_type"].get<std::string>())) all.push_back(one);
  }
  return json_reply(200, all);
}

// ---- keys and scripts ---------------------------------------------------------------------------

std::deque<Verda::NamedText>& Verda::texts(const Request& request) {
  return request.path.starts_with("/v1/scripts") ? scripts_ : keys_;
}

Json Verda::texts_json(const Request& request) {
  Json all = Json::array();
  const bool keys = &texts(request) == &keys_;
  for (const NamedText& one : texts(request)) {
    if (one.account != dials.account) continue;
    Json item{{"id", one.id}, {"name", one.name}, {"created_at", wall_text(one.made)}};
    item[keys ? "key" : "script"] = one.text;
    if (keys) item["fingerprint"] = "SHA256:" + one.id;
    all.push_back(item);
  }
  return all;
}

// Scripts in pages, keys as a whole.
io::HttpReply Verda::list_texts(const Request& request, const Names&) {
  const Json all = texts_json(request);
  if (&texts(request) == &keys_) return json_reply(200, all);
  const auto number = [&](const char* name, long long otherwise) {
    const auto asked = request.query.find(name);
    return asked == request.query.end() ? otherwise : whole(asked->second).value_or(0);
  };
  const long long page = number("page", 1), size = number("pageSize", kScriptsOfAPage);
  if (page < 1 || size < 1 || size > kLongestPage) {
    return refuse_all(400, {"a page has 1 to 100 scripts"});
  }
  Json there = Json::array();
  const auto total = static_cast<long long>(all.size());
  for (long long i = (page - 1) * size; i < std::min(page * size, total); ++i) {
    there.push_back(all[static_cast<std::size_t>(i)]);
  }
  io::HttpReply out = json_reply(200, there);
  out.headers.emplace_back("X-Page", std::to_string(page));
  out.headers.emplace_back("X-Total-Count", std::to_string(total));
  return out;
}

io::HttpReply Verda::create_text(const Request& request, const Names&) {
  const bool keys = &texts(request) == &keys_;
  const char* text = keys ? "key" : "script";
  std::vector<std::string> wrong =
      misfits(request.body, {{"name", Kind::text, true}, {text, Kind::text, true}}, text);
  if (wrong.empty() && keys && !request.body[text].get<std::string>().starts_with("ssh-") &&
      !request.body[text].get<std::string>().starts_with("ecdsa-")) {
    wrong.emplace_back("this is no SSH key");
  }
  if (!wrong.empty()) return refuse_all(400, wrong);
  const auto there = std::ranges::count(texts(request), dials.account, &NamedText::account);
  if (!keys && there >= dials.script_limit) {
    return refusal(400, "The project has the most startup scripts that it may have");
  }
  const NamedText& made = texts(request).emplace_back(
      NamedText{dice().uuid(), dials.account, request.body["name"], request.body[text], now()});
  return new_id(201, made.id);
}

bool Verda::has_text(const std::deque<NamedText>& all, const Json& id) const {
  return std::ranges::any_of(all, [&](const NamedText& one) {
    return one.account == dials.account && Json(one.id) == id;
  });
}

io::HttpReply Verda::get_text(const Request& request, const Names& names) {
  for (const Json& one : texts_json(request)) {
    if (one["id"] == names[0]) return json_reply(200, Json::array({one}));
  }
  return refusal(404, "Not found");
}

io::HttpReply Verda::delete_text(const Request& request, const Names& names) {
  if (!has_text(texts(request), names[0])) return refusal(404, "Not found");
  std::erase_if(texts(request), [&](const NamedText& one) { return one.id == names[0]; });
  return {.status = 200};
}

io::HttpReply Verda::delete_texts(const Request& request, const Names&) {
  const char* list = &texts(request) == &keys_ ? "keys" : "scripts";
  const std::vector<std::string> wrong =
      misfits(request.body, {{list, Kind::list, true}}, "what is deleted");
  if (!wrong.empty()) return refuse_all(400, wrong);
  for (const Json& id : request.body[list]) {
    if (!has_text(texts(request), id)) return refusal(404, "Not found");
  }
  for (const Json& id : request.body[list]) {
    std::erase_if(texts(request), [&](const NamedText& one) { return Json(one.id) == id; });
  }
  return {.status = 200};
}

std::vector<std::string> Verda::side_things() const {
  std::vector<std::string> out;
  for (const NamedText& one : keys_) out.push_back("key " + one.name);
  for (const NamedText& one : scripts_) out.push_back("script " + one.name);
  for (const Volume& one : volumes_) {
    if (one.gone != kNever) continue;
    out.push_back((one.trashed == kNever ? "volume " : "trashed volume ") + one.name);
  }
  return out;
}

}  // namespace skyward::doubles
