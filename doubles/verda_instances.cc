// Verda's instances and their volumes.

#include <algorithm>

#include "doubles/verda.h"
#include "skyward/base/text.h"

namespace skyward::doubles {
namespace {

constexpr Duration kTrash = std::chrono::hours(96);
constexpr double kGigabyteHour = 0.2 / 730;
constexpr std::size_t kMostTags = 10, kLongestKey = 63, kLongestValue = 127;
constexpr int kOsVolumeGb = 50;

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> all) {
  return std::ranges::find(all, text) != all.end();
}

bool is_host_name(const std::string& text) {
  return !text.empty() && text.size() <= 60 && is_alphanumeric(text.front()) &&
         is_alphanumeric(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_alphanumeric(c) || c == '-'; });
}

Json ids_of(const Json& id) { return id.is_array() ? id : Json::array({id}); }

std::vector<std::string> wrong_volume(const Json& volume, bool spot, Fields fields) {
  std::vector<std::string> wrong = misfits(volume, fields, "a volume");
  if (!wrong.empty()) return wrong;
  if (volume["size"] < 1) wrong.emplace_back("a volume without size");
  const std::string policy = volume.value("on_spot_discontinue", "");
  if (policy.empty()) return wrong;
  if (!is_one_of(policy, {"keep_detached", "move_to_trash", "delete_permanently"})) {
    wrong.push_back("a volume: no on_spot_discontinue " + policy);
  }
  if (!spot) wrong.emplace_back("a volume: on_spot_discontinue without is_spot");
  return wrong;
}

std::vector<std::string> wrong_tags(const Json& tags) {
  std::vector<std::string> wrong;
  if (tags.size() > kMostTags) wrong.emplace_back("more than ten tags");
  for (const Json& tag : tags) {
    for (std::string& one :
         misfits(tag, {{"key", Kind::text, true}, {"value", Kind::text, true}}, "a tag")) {
      wrong.push_back(std::move(one));
    }
    if (wrong.empty() && (tag["key"].get<std::string>().size() > kLongestKey ||
                          tag["value"].get<std::string>().size() > kLongestValue)) {
      wrong.emplace_back("a tag that is too long");
    }
  }
  return wrong;
}

}  // namespace

// ---- instances ----------------------------------------------------------------------------------

std::string Verda::status_of(const Machine& one) const {
  if (one.ended != kNever) {
    if (!one.is_there(now())) return "discontinued";
    return one.preempted ? "offline" : "deleting";
  }
  if (one.has_failed(now())) return dials.failed_as;
  if (one.off <= now()) return "offline";
  if (now() < one.made + dials.boot / 4) return "ordered";
  return one.is_new(now()) ? "provisioning" : "running";
}

Json Verda::instance_json(const Machine& one) const {
  const VerdaType& type = *find_verda_type(one.size);
  Json out = verda_type_json(type, false);
  for (const char* name :
       {"best_for", "deploy_warning", "model", "name", "display_name", "manufacturer", "p2p",
        "currency", "spot_price", "dynamic_price", "max_dynamic_price", "serverless_price",
        "serverless_spot_price", "supported_os"}) {
    out.erase(name);
  }
  const bool begun = now() >= one.made + dials.boot / 4;
  Json volumes = Json::array(), os = nullptr;
  for (const Volume& volume : volumes_) {
    if (!begun || volume.machine != one.id || !is_attached(volume)) continue;
    volumes.push_back(volume.id);
    if (volume.is_os) os = volume.id;
  }
  const bool reached = one.ready != kNever && now() >= one.ready + dials.address_lag;
  out.update({{"id", one.id},
              {"ip", reached ? Json(one.public_address) : Json()},
              {"status", status_of(one)},
              {"created_at", wall_text(one.made)},
              {"hostname", one.name},
              {"description", one.request["description"]},
              {"location", one.place},
              {"price_per_hour", one.hourly},
              {"is_spot", one.spot},
              {"image", one.request["image"]},
              {"os_name", one.request["image"]},
              {"startup_script_id", one.request.value("startup_script_id", Json())},
              {"ssh_key_ids", one.request.value("ssh_key_ids", Json::array())},
              {"os_volume_id", os},
              {"volume_ids", volumes},
              {"jupyter_token", ""},
              {"contract", one.spot ? "SPOT" : "PAY_AS_YOU_GO"},
              {"pricing", one.request.value("pricing", "FIXED_PRICE")},
              {"tags", one.request.value("tags", Json::array())}});
  return out;
}

io::HttpReply Verda::list_instances(const Request& request, const Names&) {
  const auto asked = request.query.find("status");
  Json all = Json::array();
  for (const Machine* one : listed_machines()) {
    if (asked != request.query.end() && asked->second != status_of(*one)) continue;
    all.push_back(instance_json(*one));
  }
  return json_reply(200, all);
}

io::HttpReply Verda::get_instance(const Request&, const Names& names) {
  const Machine* one = find_machine(names[0]);
  if (one == nullptr) return refusal(404, "Invalid instance id");
  return json_reply(200, instance_json(*one));
}

std::vector<std::string> Verda::wrong_create(const Json& body) const {
  std::vector<std::string> wrong = misfits(body,
                                           {{"instance_type", Kind::text, true},
                                            {"image", Kind::text, true},
                                            {"hostname", Kind::text, true},
                                            {"description", Kind::text, true},
                                            {"ssh_key_ids", Kind::list, true},
                                            {"startup_script_id", Kind::text},
                                            {"location_code", Kind::text, true},
                                            {"is_spot", Kind::flag},
                                            {"contract", Kind::text},
                                            {"pricing", Kind::text},
                                            {"coupon", Kind::text},
                                            {"os_volume", Kind::object},
                                            {"volumes", Kind::list},
                                            {"existing_volumes", Kind::list},
                                            {"tags", Kind::list}},
                                           "an instance");
  if (!wrong.empty()) return wrong;
  const bool spot = body.value("is_spot", false);
  const std::string contract = body.value("contract", spot ? "SPOT" : "PAY_AS_YOU_GO");
  if (!is_one_of(contract, {"PAY_AS_YOU_GO", "SPOT", "LONG_TERM"}) ||
      (contract == "SPOT") != spot) {
    wrong.push_back("the contract " + contract + (spot ? " with" : " without") + " is_spot");
  }
  if (!is_one_of(body.value("pricing", "FIXED_PRICE"), {"FIXED_PRICE", "DYNAMIC_PRICE"})) {
    wrong.emplace_back("pricing is FIXED_PRICE or DYNAMIC_PRICE");
  }
  if (!is_host_name(body["hostname"])) {
    wrong.push_back(body["hostname"].get<std::string>() + " is no hostname");
  }
  if (body["description"] == "") wrong.emplace_back("an instance without description");
  const auto add = [&](const std::vector<std::string>& more) {
    wrong.insert(wrong.end(), more.begin(), more.end());
  };
  if (body.contains("os_volume")) {
    add(wrong_volume(without_nulls(body["os_volume"]), spot,
                     {{"name", Kind::text, true},
                      {"size", Kind::whole, true},
                      {"on_spot_discontinue", Kind::text}}));
  }
  for (const Json& volume : body.value("volumes", Json::array())) {
    add(wrong_volume(without_nulls(volume), spot,
                     {{"name", Kind::text, true},
                      {"size", Kind::whole, true},
                      {"type", Kind::text, true},
                      {"on_spot_discontinue", Kind::text}}));
  }
  add(wrong_tags(body.value("tags", Json::array())));
  return wrong;
}

// What could be, but is not so now; status 0 when all is well.
io::HttpReply Verda::refuse_wish(const Json& body) {
  const VerdaType* type = find_verda_type(body["instance_type"]);
  if (type == nullptr) return refusal(400, "Invalid instance type");
  const std::string place = body["location_code"];
  if (std::ranges::find(verda_places(), place) == verda_places().end()) {
    return refusal(400, "Invalid location code");
  }
  const std::string image = verda_image(body["image"]);
  if (image.empty()) return refusal(400, "Invalid image");
  if (!type->starts(image)) {
    return refusal(400, "Operating system is not valid for this instance type");
  }
  for (const Json& id : body["ssh_key_ids"]) {
    if (!has_text(keys_, id)) return refusal(400, "Invalid SSH key id");
  }
  if (body.contains("startup_script_id") && !has_text(scripts_, body["startup_script_id"])) {
    return refusal(400, "Invalid startup script id");
  }
  for (const Json& id : body.value("existing_volumes", Json::array())) {
    const Volume* found = id.is_string() ? find_volume(id) : nullptr;
    if (found == nullptr || is_attached(*found)) return refusal(400, "Invalid volume id");
  }
  if (std::stod(dials.balance) <= invoice(asked_at())) {
    return refusal(402, "Insufficient funds");
  }
  if (!type->is_at(place) || room(std::string(type->name), place) == 0) {
    return refusal(503, "Not enough resources for this instance type in this location");
  }
  return no_reply();
}

io::HttpReply Verda::create_instance(const Request& request, const Names&) {
  const Json body = without_nulls(request.body);
  const std::vector<std::string> wrong = wrong_create(body);
  if (!wrong.empty()) return refuse_all(400, wrong);
  const io::HttpReply refused = refuse_wish(body);
  if (refused.status != 0) return refused;
  const VerdaType& type = *find_verda_type(body["instance_type"]);
  const bool spot = body.value("is_spot", false);
  const Machine& made = make_machine({.id = dice().uuid(),
                                      .name = body["hostname"],
                                      .size = std::string(type.name),
                                      .place = body["location_code"],
                                      .hourly = spot ? type.spot_hourly : type.hourly,
                                      .spot = spot,
                                      .request = body},
                                     false);
  if (made.failed == kNever) {
    const Json os = without_nulls(body.value(
        "os_volume", Json{{"name", "OS volume of " + made.name}, {"size", kOsVolumeGb}}));
    add_volume(os, made.place, made.id).is_os = true;
    for (const Json& volume : body.value("volumes", Json::array())) {
      add_volume(without_nulls(volume), made.place, made.id);
    }
    for (const Json& id : body.value("existing_volumes", Json::array())) {
      find_volume(id)->machine = made.id;
      find_volume(id)->detached = kNever;
    }
  }
  return new_id(202, made.id);
}

io::HttpReply Verda::act_on_instances(const Request& request, const Names&) {
  const Json body = without_nulls(request.body);
  std::vector<std::string> wrong = misfits(body,
                                           {{"id", Kind::any, true},
                                            {"action", Kind::text, true},
                                            {"volume_ids", Kind::list},
                                            {"delete_permanently", Kind::flag}},
                                           "an action");
  if (wrong.empty() &&
      !is_one_of(body["action"], {"delete", "discontinue", "shutdown", "force_shutdown", "start",
                                  "boot", "hibernate"})) {
    wrong.push_back("nobody knows the action " + body["action"].get<std::string>());
  }
  if (wrong.empty() && body.value("delete_permanently", false) && !body.contains("volume_ids")) {
    wrong.emplace_back("delete_permanently without volume_ids, which does nothing");
  }
  if (!wrong.empty()) return refuse_all(400, wrong);
  Json told = Json::array();
  std::size_t failed = 0;
  std::string first;
  for (const Json& id : ids_of(body["id"])) {
    const std::string why = id.is_string() ? act(id, body) : "Invalid instance id";
    Json line{{"action", body["action"]}, {"instanceId", id}};
    line["status"] = why.empty() ? "success" : "error";
    const bool is_state = why.starts_with("Can't ");
    if (!why.empty()) line.update({{"error", why}, {"statusCode", is_state ? 403 : 400}});
    told.push_back(line);
    if (why.empty()) continue;
    if (++failed == 1) first = why;
  }
  if (failed == 0) return json_reply(202, told);
  // When nothing was done, the real one has said so in three ways.
  if (failed == told.size() && dice().chance(0.5)) {
    return refusal(first.starts_with("Can't ") && dice().chance(0.5) ? 403 : 400, first);
  }
  return json_reply(207, told);
}

std::string Verda::act(const std::string& id, const Json& body) {
  Machine* one = nullptr;
  for (Machine& each : machines) {
    if (each.id == id && is_ours(each) && now() >= each.made + each.reading_lag) one = &each;
  }
  if (one == nullptr) return "Invalid instance id";
  const std::string action = body["action"];
  const std::string status = status_of(*one);
  if (is_one_of(action, {"delete", "discontinue", "hibernate"})) {
    if (status == "ordered" || status == "provisioning") {
      return "Can't discontinue a provisioning instance";
    }
    if (one->ended != kNever) return "Can't discontinue a discontinued instance";
    discontinue(*one, action == "hibernate" ? Json{{"volume_ids", Json::array()}} : body);
    return {};
  }
  if (status != "running" && status != "offline") return "Can't " + action + " now";
  const bool stops = action == "shutdown" || action == "force_shutdown";
  one->off = stops ? std::min(one->off, now()) : kNever;
  return {};
}

void Verda::discontinue(Machine& machine, const Json& body) {
  const bool chosen = body.contains("volume_ids");
  for (Volume& volume : volumes_) {
    if (volume.machine != machine.id || volume.gone != kNever) continue;
    const auto is_this = [&](const Json& id) { return id == volume.id; };
    const bool removed = chosen ? std::ranges::any_of(body["volume_ids"], is_this) : volume.is_os;
    volume.detached = removed ? now() : now() + dials.detach;
    if (removed) remove_volume(volume, body.value("delete_permanently", false));
  }
  end_machine(machine);
}

void Verda::on_preempted(Machine& machine) {
  for (Volume& volume : volumes_) {
    if (volume.machine != machine.id || volume.gone != kNever) continue;
    volume.detached = now() + dials.detach;
    if (volume.on_spot_discontinue == "delete_permanently") remove_volume(volume, true);
    if (volume.on_spot_discontinue == "move_to_trash") remove_volume(volume, false);
  }
}

// ---- volumes ------------------------------------------------------------------------------------

Verda::Volume& Verda::add_volume(const Json& said, const std::string& place,
                                 const std::string& machine) {
  return volumes_.emplace_back(
      Volume{.id = dice().uuid(),
             .account = dials.account,
             .name = said["name"],
             .type = said.value("type", "NVMe"),
             .place = place,
             .machine = machine,
             .on_spot_discontinue = said.value("on_spot_discontinue", "keep_detached"),
             .size_gb = said["size"],
             .made = now()});
}

Verda::Volume* Verda::find_volume(const std::string& id) {
  for (Volume& one : volumes_) {
    if (one.id == id && one.account == dials.account && now() < one.gone) return &one;
  }
  return nullptr;
}

void Verda::remove_volume(Volume& volume, bool permanently) {
  if (volume.trashed == kNever) volume.trashed = now();
  volume.gone = permanently ? now() + dials.erasing : kNever;
}

std::string Verda::volume_status(const Volume& one) const {
  if (is_erasing(one)) return "deleting";
  if (one.trashed != kNever) return "deleted";
  if (!is_attached(one)) return "detached";
  return one.detached == kNever ? "attached" : "detaching";
}

Json Verda::volume_json(const Volume& one) const {
  const bool attached = is_attached(one);
  const bool trashed = one.trashed != kNever;
  return {{"id", one.id},
          {"status", volume_status(one)},
          {"name", one.name},
          {"size", one.size_gb},
          {"type", one.type},
          {"is_os_volume", one.is_os},
          {"created_at", wall_text(one.made)},
          {"target", attached ? Json("vda") : Json()},
          {"location", one.place},
          {"instance_id", attached ? Json(one.machine) : Json()},
          {"ssh_key_ids", Json::array()},
          {"deleted_at", trashed ? Json(wall_text(one.trashed)) : Json()},
          {"contract", "PAY_AS_YOU_GO"},
          {"base_hourly_cost", one.size_gb * kGigabyteHour},
          {"monthly_price", one.size_gb * kGigabyteHour * 730},
          {"currency", "usd"}};
}

io::HttpReply Verda::list_volumes(const Request& request, const Names&) {
  const auto asked = request.query.find("status");
  Json all = Json::array();
  for (const Volume& one : volumes_) {
    if (one.account != dials.account || (one.trashed != kNever && !is_erasing(one))) continue;
    const Json item = volume_json(one);
    if (asked == request.query.end() || Json(asked->second) == item["status"]) all.push_back(item);
  }
  return json_reply(200, all);
}

io::HttpReply Verda::list_trash(const Request&, const Names&) {
  Json all = Json::array();
  for (const Volume& one : volumes_) {
    const bool is_over = one.gone != kNever;
    const bool in_trash = one.trashed != kNever && !is_erasing(one) &&
                          now() < one.trashed + kTrash && (dials.trash_keeps || !is_over);
    if (one.account != dials.account || !in_trash) continue;
    all.push_back(volume_json(one));
    all.back()["is_permanently_deleted"] = is_over;
  }
  return json_reply(200, all);
}

io::HttpReply Verda::get_volume(const Request&, const Names& names) {
  const Volume* found = find_volume(names[0]);
  if (found == nullptr) return refusal(404, "Invalid volume id");
  return json_reply(200, volume_json(*found));
}

io::HttpReply Verda::create_volume(const Request& request, const Names&) {
  const Json body = without_nulls(request.body);
  const std::vector<std::string> wrong = wrong_volume(body, false,
                                                      {{"name", Kind::text, true},
                                                       {"size", Kind::whole, true},
                                                       {"type", Kind::text, true},
                                                       {"location_code", Kind::text, true},
                                                       {"instance_id", Kind::text}});
  if (!wrong.empty()) return refuse_all(400, wrong);
  if (body.contains("instance_id")) return refusal(400, "Instance must be offline");
  return new_id(201, add_volume(body, body["location_code"], "").id);
}

std::string Verda::remove_free_volume(const std::string& id, bool permanently) {
  Volume* found = find_volume(id);
  if (found == nullptr) return "Invalid volume id";
  if (is_erasing(*found)) return "Volume is being deleted";
  if (is_attached(*found)) return "Volume is attached to an instance";
  remove_volume(*found, permanently);
  return {};
}

io::HttpReply Verda::act_on_volumes(const Request& request, const Names&) {
  const Json body = without_nulls(request.body);
  std::vector<std::string> wrong = misfits(
      body, {{"id", Kind::any, true}, {"action", Kind::text, true}, {"is_permanent", Kind::flag}},
      "an action");
  if (wrong.empty() && body["action"] != "delete") {
    wrong.push_back("nobody knows the action " + body["action"].get<std::string>());
  }
  if (!wrong.empty()) return refuse_all(400, wrong);
  for (const Json& id : ids_of(body["id"])) {
    const std::string why =
        id.is_string() ? remove_free_volume(id, body.value("is_permanent", false)) : "Invalid";
    if (!why.empty()) return refusal(400, why);
  }
  return {.status = 202};
}

io::HttpReply Verda::delete_volume(const Request& request, const Names& names) {
  const Json body = request.body.is_null() ? Json::object() : request.body;
  const std::vector<std::string> wrong =
      misfits(body, {{"is_permanent", Kind::flag}}, "what is deleted");
  if (!wrong.empty()) return refuse_all(400, wrong);
  if (find_volume(names[0]) == nullptr) return refusal(404, "Invalid volume id");
  const std::string why = remove_free_volume(names[0], body.value("is_permanent", false));
  return why.empty() ? io::HttpReply{.status = 202} : refusal(dice().chance(0.5) ? 403 : 400, why);
}

io::HttpReply Verda::list_volume_types(const Request&, const Names&) {
  const auto type = [](const char* name, double monthly) {
    return Json{{"type", name},
                {"price", {{"currency", "usd"}, {"price_per_month_per_gb", monthly}}}};
  };
  return json_reply(200, {type("NVMe", kGigabyteHour * 730), type("HDD", 0.05)});
}

double Verda::side_bill(Time at) const {
  double sum = 0;
  for (const Volume& one : volumes_) {
    const Time end = one.trashed == kNever ? one.gone : std::min(one.gone, one.trashed + kTrash);
    sum += seconds(std::max(std::min(at, end) - one.made, Duration{})) / 3600 * one.size_gb *
           kGigabyteHour;
  }
  return sum;
}

}  // namespace skyward::doubles
