// Droplets and what happens to them.

#include <algorithm>

#include "doubles/digitalocean.h"
#include "skyward/base/text.h"

namespace skyward::doubles {
namespace {

constexpr std::size_t kMostNames = 10;
constexpr std::size_t kMostUserData = 64 << 10;
constexpr Duration kActionLength = std::chrono::seconds(5);

// Stricter than the published pattern: a name is a host's name.
bool is_host_name(const Json& name) {
  if (!name.is_string()) return false;
  const auto text = name.get<std::string>();
  if (text.empty() || text.size() > 255) return false;
  if (!is_alphanumeric(text.front()) || !is_alphanumeric(text.back())) return false;
  return std::ranges::all_of(text,
                             [](char c) { return is_alphanumeric(c) || c == '.' || c == '-'; });
}

Json address_json(const std::string& address, const char* type) {
  return {{"ip_address", address},
          {"netmask", "255.255.0.0"},
          {"gateway", address.substr(0, address.rfind('.')) + ".1"},
          {"type", type}};
}

}  // namespace

bool DigitalOcean::is_pending(const Machine& one) const {
  if (one.is_new(now()) || one.ended != kNever) return true;
  return std::ranges::any_of(actions_, [&](const Action& action) {
    return action.machine == one.id && now() < action.ends;
  });
}

Json DigitalOcean::droplet_json(const Machine& one) {
  const DropletSize& size = *find_size(one.size);
  Json v4 = Json::array();
  if (one.ready != kNever && now() >= one.ready + dials.address_lag) {
    v4.push_back(address_json(one.private_address, "private"));
    v4.push_back(address_json(one.public_address, "public"));
  }
  std::string status = "active";
  if (one.is_new(now()) || one.has_failed(now())) status = "new";
  if (one.off <= now()) status = "off";
  Json out{{"id", *whole(one.id)},
           {"name", one.name},
           {"memory", size.memory_mb},
           {"vcpus", size.vcpus},
           {"disk", size.disk_gb},
           {"disk_info", size_json(size)["disk_info"]},
           {"locked", is_pending(one)},
           {"status", status},
           {"kernel", nullptr},
           {"created_at", wall_text(one.made)},
           {"features", {"monitoring", "droplet_agent", "private_networking"}},
           {"backup_ids", Json::array()},
           {"next_backup_window", nullptr},
           {"snapshot_ids", Json::array()},
           {"image", image_json(*find_image(one.request["image"]))},
           {"volume_ids", Json::array()},
           {"size", size_json(size)},
           {"size_slug", one.size},
           {"networks", {{"v4", v4}, {"v6", Json::array()}}},
           {"region", region_json(*find_region(one.place))},
           {"tags", one.tags},
           {"vpc_uuid", "760e09ef-dc84-11e8-981e-3cfdfeaae000"}};
  if (size.gpus > 0) out["gpu_info"] = size_json(size)["gpu_info"];
  return out;
}

io::HttpReply DigitalOcean::list_droplets(const Request& request, const Names&) {
  const auto asked = [&](const char* name) {
    const auto found = request.query.find(name);
    return found == request.query.end() ? std::string() : found->second;
  };
  const std::string tag = asked("tag_name"), name = asked("name"), type = asked("type");
  if (!tag.empty() && (!type.empty() || !name.empty())) {
    return refuse_all(422, {"tag_name cannot be combined with type or name"});
  }
  if (!type.empty() && type != "gpus" && type != "droplets") {
    return refuse_all(422, {"type is gpus or droplets, not " + type});
  }
  Json all = Json::array();
  for (const Machine* one : listed_machines()) {
    const bool has_gpus = find_size(one->size)->gpus > 0;
    if (has_gpus != (type == "gpus")) continue;
    if (!tag.empty() && !one->tags.contains(tag)) continue;
    if (!name.empty() && lower(one->name) != lower(name)) continue;
    all.push_back(droplet_json(*one));
  }
  return page(request, "droplets", all);
}

std::vector<std::string> DigitalOcean::wrong_create(const Json& body) const {
  std::vector<std::string> wrong = misfits(body,
                                           {{"name", Kind::text},
                                            {"names", Kind::list},
                                            {"region", Kind::text},
                                            {"size", Kind::text, true},
                                            {"image", Kind::text_or_whole, true},
                                            {"ssh_keys", Kind::list},
                                            {"backups", Kind::flag},
                                            {"ipv6", Kind::flag},
                                            {"monitoring", Kind::flag},
                                            {"tags", Kind::list},
                                            {"user_data", Kind::text},
                                            {"private_networking", Kind::flag},
                                            {"volumes", Kind::list},
                                            {"vpc_uuid", Kind::text},
                                            {"with_droplet_agent", Kind::flag},
                                            {"public_networking", Kind::flag}},
                                           "a droplet");
  if (!wrong.empty()) return wrong;
  if (body.contains("name") == body.contains("names")) {
    wrong.emplace_back("a droplet: either name or names");
  }
  const Json names = body.contains("names") ? body["names"] : Json::array({body.value("name", "")});
  if (names.empty() || names.size() > kMostNames) {
    wrong.push_back(std::to_string(names.size()) + " droplets at once; one to ten are allowed");
  }
  for (const Json& name : names) {
    if (is_host_name(name)) continue;
    wrong.push_back("Only valid hostname characters are allowed. (a-z, A-Z, 0-9, . and -): " +
                    name.dump());
  }
  for (const Json& tag : body.value("tags", Json::array())) {
    if (!tag.is_string() || !is_tag(tag.get<std::string>())) {
      wrong.push_back(tag.dump() + " is no name of a tag");
    }
  }
  if (body.value("user_data", "").size() > kMostUserData) {
    wrong.emplace_back("User data must be less than 64 KiB");
  }
  if (!body.value("volumes", Json::array()).empty()) wrong.emplace_back("there are no volumes");
  return wrong;
}

std::string DigitalOcean::wrong_keys(const Json& body) {
  Json unknown = Json::array();
  for (const Json& key : body.value("ssh_keys", Json::array())) {
    const bool is_id = key.is_number_integer() || key.is_string();
    const Key* found =
        is_id ? find_key(key.is_string() ? key.get<std::string>() : key.dump()) : nullptr;
    if (found == nullptr || !has_spread(*found)) unknown.push_back(key);
  }
  if (unknown.empty()) return {};
  return unknown.dump() + " are invalid key identifiers for Droplet creation.";
}

std::string DigitalOcean::unavailable(const Json& body) {
  const DropletSize* size = find_size(body["size"]);
  if (size == nullptr) return "You specified an invalid size for Droplet creation.";
  const std::string region = body.value("region", "");
  if (std::ranges::none_of(droplet_regions(), [&](const DropletRegion& one) {
        return one.slug.starts_with(region);
      })) {
    return "You specified an invalid region for Droplet creation.";
  }
  const std::vector<std::string> regions = size->regions();
  if (std::ranges::none_of(regions,
                           [&](const std::string& one) { return one.starts_with(region); })) {
    return "Size is not available in this region.";
  }
  const DropletImage* image = find_image(body["image"]);
  if (image == nullptr) return "You specified an invalid image for Droplet creation.";
  const bool fits_gpus =
      image->for_gpus.empty() || (size->gpus > 0 && size->gpu.starts_with(image->for_gpus) &&
                                  (image->gpus == 0 || image->gpus == size->gpus));
  if (!fits_gpus) return "Image is not available for this size.";
  if (body.contains("vpc_uuid")) return "VPC could not be found.";
  return wrong_keys(body);
}

io::HttpReply DigitalOcean::create_droplets(const Request& request, const Names&) {
  const std::vector<std::string> wrong = wrong_create(request.body);
  if (!wrong.empty()) return refuse_all(422, wrong);
  const std::string missing = unavailable(request.body);
  if (!missing.empty()) return refusal(422, missing);
  const bool many = request.body.contains("names");
  const std::vector<std::string> wanted =
      many ? request.body["names"].get<std::vector<std::string>>()
           : std::vector{request.body["name"].get<std::string>()};
  return sell(request, wanted, many);
}

io::HttpReply DigitalOcean::sell(const Request& request, const std::vector<std::string>& wanted,
                                 bool many) {
  const DropletSize& size = *find_size(request.body["size"]);
  const std::string region = request.body.value("region", "");
  const std::vector<std::string> regions = size.regions();
  const std::string place = *std::ranges::find_if(
      regions, [&](const std::string& one) { return one.starts_with(region); });
  const auto fitting = static_cast<std::size_t>(room(std::string(size.slug), place));
  if (fitting == 0 || (fitting < wanted.size() && dials.partial == "refuse")) {
    const auto ours = std::ranges::count_if(
        machines, [&](const Machine& one) { return is_ours(one) && one.is_there(now()); });
    if (static_cast<std::size_t>(ours) + wanted.size() >
        static_cast<std::size_t>(dials.machine_limit)) {
      return refusal(422, "creating this/these droplet(s) will exceed your droplet limit");
    }
    return refusal(422, "Size is not available in this region.");
  }
  Json droplets = Json::array(), actions = Json::array();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool fails = i >= fitting;
    if (fails && dials.partial == "fewer") break;
    const auto tags = request.body.value("tags", std::set<std::string>{});
    Machine& made = make_machine({.id = std::to_string(++last_id_),
                                  .name = wanted[i],
                                  .size = std::string(size.slug),
                                  .place = place,
                                  .tags = tags,
                                  .hourly = size.hourly,
                                  .spot = size.slug.ends_with("-spot"),
                                  .request = request.body},
                                 fails);
    tags_[dials.account].insert(tags.begin(), tags.end());
    const Action& action = add_action(made, "create", dials.boot, made.failed != kNever);
    droplets.push_back(droplet_json(made));
    actions.push_back({{"id", action.id},
                       {"rel", many ? "multiple_create" : "create"},
                       {"href", request.origin + "/v2/actions/" + std::to_string(action.id)}});
  }
  Json out{{"links", {{"actions", actions}}}};
  out[many ? "droplets" : "droplet"] = many ? droplets : droplets[0];
  return json_reply(202, out);
}

io::HttpReply DigitalOcean::get_droplet(const Request&, const Names& names) {
  const Machine* one = find_machine(names[0]);
  if (one == nullptr) return refusal(404, "The resource you were accessing could not be found.");
  return json_reply(200, {{"droplet", droplet_json(*one)}});
}

io::HttpReply DigitalOcean::delete_droplet(const Request&, const Names& names) {
  Machine* one = find_machine(names[0]);
  if (one == nullptr) return refusal(404, "The resource you were accessing could not be found.");
  if (is_pending(*one)) return refusal(422, "Droplet already has a pending event.");
  end_machine(*one);
  return {.status = 204};
}

io::HttpReply DigitalOcean::delete_tagged(const Request& request, const Names&) {
  const auto tag = request.query.find("tag_name");
  if (tag == request.query.end()) return refuse_all(422, {"tag_name is missing"});
  std::vector<Machine*> tagged;
  for (Machine& one : machines) {
    const bool stands = one.is_known(now()) && one.ended == kNever;
    if (is_ours(one) && stands && one.tags.contains(tag->second)) {
      if (is_pending(one)) return refusal(422, "Droplet already has a pending event.");
      tagged.push_back(&one);
    }
  }
  for (Machine* one : tagged) end_machine(*one);
  return {.status = 204};
}

DigitalOcean::Action& DigitalOcean::add_action(const Machine& one, const char* type,
                                               Duration length, bool fails) {
  return actions_.emplace_back(Action{.id = ++last_id_,
                                      .machine = one.id,
                                      .type = type,
                                      .began = now(),
                                      .ends = now() + length,
                                      .fails = fails,
                                      .place = one.place});
}

Json DigitalOcean::action_json(const Action& one) {
  const bool runs = now() < one.ends;
  return {{"id", one.id},
          {"status", runs        ? "in-progress"
                     : one.fails ? "errored"
                                 : "completed"},
          {"type", one.type},
          {"started_at", wall_text(one.began)},
          {"completed_at", runs ? Json() : Json(wall_text(one.ends))},
          {"resource_id", *whole(one.machine)},
          {"resource_type", "droplet"},
          {"region", region_json(*find_region(one.place))},
          {"region_slug", one.place}};
}

io::HttpReply DigitalOcean::act(const Request& request, const Names& names) {
  Machine* one = find_machine(names[0]);
  if (one == nullptr) return refusal(404, "The resource you were accessing could not be found.");
  const std::vector<std::string> wrong =
      misfits(request.body, {{"type", Kind::text, true}}, "an action");
  if (!wrong.empty()) return refuse_all(422, wrong);
  const std::string type = request.body["type"];
  const bool ends = type == "power_off" || type == "shutdown";
  if (!ends && type != "power_on" && type != "reboot" && type != "power_cycle") {
    return refuse_all(422, {"nobody knows the action " + type});
  }
  if (is_pending(*one)) return refusal(422, "Droplet already has a pending event.");
  const Action& action = add_action(*one, type.c_str(), kActionLength, false);
  if (ends) one->off = std::min(one->off, action.ends);
  if (type == "power_on") one->off = kNever;
  return json_reply(201, {{"action", action_json(action)}});
}

io::HttpReply DigitalOcean::list_actions(const Request& request, const Names& names) {
  if (find_machine(names[0]) == nullptr) {
    return refusal(404, "The resource you were accessing could not be found.");
  }
  Json all = Json::array();
  for (const Action& one : actions_) {
    if (one.machine == names[0]) all.push_back(action_json(one));
  }
  return page(request, "actions", all);
}

io::HttpReply DigitalOcean::get_action(const Request&, const Names& names) {
  for (const Action& one : actions_) {
    if (std::to_string(one.id) == names[0]) return json_reply(200, {{"action", action_json(one)}});
  }
  return refusal(404, "The resource you were accessing could not be found.");
}

}  // namespace skyward::doubles
