// Keys, tags and firewalls: what stands beside droplets, and stays when nobody removes it.

#include <algorithm>
#include <span>

#include "doubles/digitalocean.h"
#include "skyward/base/hash.h"
#include "skyward/base/text.h"

namespace skyward::doubles {
namespace {

constexpr const char* kNotFound = "The resource you were accessing could not be found.";
constexpr std::size_t kMostTags = 5;  // of a firewall

// In the form of one: sixteen bytes, though not those that MD5 would give.
std::string fingerprint_of(const std::string& key) {
  const Sha256 hash = sha256(std::as_bytes(std::span(key)));
  std::string out;
  for (std::size_t i = 0; i < 16; ++i) {
    out += (i == 0 ? "" : ":") + to_hex(std::span(hash).subspan(i, 1));
  }
  return out;
}

// "ssh-ed25519 AAAA… comment" without the comment; empty if it is none.
std::string key_of(const std::string& text) {
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.contains('\n')) return {};
  const std::string type = text.substr(0, space);
  const std::string body = text.substr(space + 1, text.find(' ', space + 1) - space - 1);
  const bool is_type = type.starts_with("ssh-") || type.starts_with("ecdsa-");
  return is_type && body.starts_with("AAAA") && body.size() > 16 ? type + " " + body : "";
}

// "22", "8000-9000", "all"; "0" as DigitalOcean writes the latter.
bool is_ports(const std::string& text) {
  if (text == "all" || text == "0") return true;
  const std::size_t dash = text.find('-');
  const auto low = whole(text.substr(0, dash));
  const auto high = dash == std::string::npos ? low : whole(text.substr(dash + 1));
  return low && high && *low >= 1 && *low <= *high && *high <= 65535;
}

std::vector<std::string> wrong_rules(const Json& rules, const char* ends) {
  std::vector<std::string> wrong;
  for (const Json& rule : rules) {
    for (std::string& one : misfits(rule,
                                    {{"protocol", Kind::text, true},
                                     {"ports", Kind::text, true},
                                     {ends, Kind::object, true}},
                                    "a firewall's rule")) {
      wrong.push_back(std::move(one));
    }
    if (!wrong.empty()) return wrong;
    const std::string protocol = rule["protocol"];
    if (protocol != "tcp" && protocol != "udp" && protocol != "icmp") {
      wrong.push_back("a firewall's rule: no protocol " + protocol);
    }
    if (!is_ports(rule["ports"])) {
      wrong.push_back("a firewall's rule: no ports " + rule["ports"].get<std::string>());
    }
    for (std::string& one : misfits(rule[ends],
                                    {{"addresses", Kind::list},
                                     {"droplet_ids", Kind::list},
                                     {"load_balancer_uids", Kind::list},
                                     {"kubernetes_ids", Kind::list},
                                     {"tags", Kind::list}},
                                    "a rule's end")) {
      wrong.push_back(std::move(one));
    }
    if (rule[ends].empty()) wrong.emplace_back("a rule that names nobody");
  }
  return wrong;
}

}  // namespace

bool is_tag(const std::string& name) {
  if (name.empty() || name.size() > 255) return false;
  return std::ranges::all_of(
      name, [](char c) { return is_alphanumeric(c) || c == '_' || c == '-' || c == ':'; });
}

std::vector<std::string> DigitalOcean::side_things() const {
  std::vector<std::string> out;
  for (const Key& one : keys_) out.push_back("key " + one.name);
  for (const Firewall& one : firewalls_) {
    out.push_back("firewall " + one.said["name"].get<std::string>());
  }
  for (const auto& [account, names] : tags_) {
    for (const std::string& name : names) out.push_back("tag " + name);
  }
  return out;
}

// ---- keys ---------------------------------------------------------------------------------------

static Json key_json(const auto& one) {
  return {{"id", one.id},
          {"fingerprint", one.fingerprint},
          {"public_key", one.public_key},
          {"name", one.name}};
}

DigitalOcean::Key* DigitalOcean::find_key(const std::string& id_or_fingerprint) {
  for (Key& one : keys_) {
    if (one.account != dials.account) continue;
    if (one.fingerprint == id_or_fingerprint || std::to_string(one.id) == id_or_fingerprint) {
      return &one;
    }
  }
  return nullptr;
}

io::HttpReply DigitalOcean::list_keys(const Request& request, const Names&) {
  Json all = Json::array();
  for (const Key& one : keys_) {
    if (one.account == dials.account && has_spread(one)) all.push_back(key_json(one));
  }
  return page(request, "ssh_keys", all);
}

io::HttpReply DigitalOcean::create_key(const Request& request, const Names&) {
  const std::vector<std::string> wrong = misfits(
      request.body, {{"name", Kind::text, true}, {"public_key", Kind::text, true}}, "a key");
  if (!wrong.empty()) return refuse_all(422, wrong);
  const std::string text = request.body["public_key"];
  const std::string key = key_of(text);
  if (key.empty()) return refuse_all(422, {"Key invalid, key should be of the form `ssh-rsa …`"});
  const std::string fingerprint = fingerprint_of(key);
  if (const Key* same = find_key(fingerprint); same != nullptr && has_spread(*same)) {
    return refusal(422, "SSH Key is already in use on your account");
  }
  const Key& made = keys_.emplace_back(
      Key{++last_id_, dials.account, fingerprint, text, request.body["name"], now()});
  return json_reply(201, {{"ssh_key", key_json(made)}});
}

io::HttpReply DigitalOcean::get_key(const Request&, const Names& names) {
  const Key* found = find_key(names[0]);
  if (found == nullptr) return refusal(404, kNotFound);
  return json_reply(200, {{"ssh_key", key_json(*found)}});
}

io::HttpReply DigitalOcean::delete_key(const Request&, const Names& names) {
  const Key* found = find_key(names[0]);
  if (found == nullptr) return refusal(404, kNotFound);
  std::erase_if(keys_, [id = found->id](const Key& one) { return one.id == id; });
  return {.status = 204};
}

// ---- tags ---------------------------------------------------------------------------------------

Json DigitalOcean::tag_json(const std::string& name) {
  const auto count = std::ranges::count_if(machines, [&](const Machine& one) {
    return is_ours(one) && one.is_there(now()) && one.tags.contains(name);
  });
  Json resources{{"count", count}, {"droplets", {{"count", count}}}};
  for (const char* kind : {"images", "volumes", "volume_snapshots", "databases"}) {
    resources[kind] = {{"count", 0}};
  }
  return {{"name", name}, {"resources", resources}};
}

io::HttpReply DigitalOcean::list_tags(const Request& request, const Names&) {
  Json all = Json::array();
  for (const std::string& name : tags_[dials.account]) all.push_back(tag_json(name));
  return page(request, "tags", all);
}

io::HttpReply DigitalOcean::create_tag(const Request& request, const Names&) {
  std::vector<std::string> wrong = misfits(request.body, {{"name", Kind::text, true}}, "a tag");
  if (wrong.empty() && !is_tag(request.body["name"])) {
    wrong.push_back(request.body["name"].dump() + " is no name of a tag");
  }
  if (!wrong.empty()) return refuse_all(400, wrong);
  tags_[dials.account].insert(request.body["name"].get<std::string>());
  return json_reply(201, {{"tag", tag_json(request.body["name"])}});
}

io::HttpReply DigitalOcean::get_tag(const Request&, const Names& names) {
  if (!tags_[dials.account].contains(names[0])) return refusal(404, kNotFound);
  return json_reply(200, {{"tag", tag_json(names[0])}});
}

io::HttpReply DigitalOcean::delete_tag(const Request&, const Names& names) {
  if (tags_[dials.account].erase(names[0]) == 0) return refusal(404, kNotFound);
  for (Machine& one : machines) {
    if (is_ours(one)) one.tags.erase(names[0]);
  }
  return {.status = 204};
}

io::HttpReply DigitalOcean::tag_droplets(const Request& request, const Names& names) {
  const std::vector<std::string> wrong =
      misfits(request.body, {{"resources", Kind::list, true}}, "resources");
  if (!wrong.empty()) return refuse_all(422, wrong);
  if (!tags_[dials.account].contains(names[0])) return refusal(404, kNotFound);
  for (const Json& one : request.body["resources"]) {
    const std::vector<std::string> misfit =
        misfits(one, {{"resource_id", Kind::text, true}, {"resource_type", Kind::text, true}},
                "a resource");
    if (!misfit.empty()) return refuse_all(422, misfit);
    Machine* found = one["resource_type"] == "droplet" ? find_machine(one["resource_id"]) : nullptr;
    if (found == nullptr) return refusal(404, kNotFound);
    found->tags.insert(names[0]);
  }
  return {.status = 204};
}

// ---- firewalls ----------------------------------------------------------------------------------

std::vector<std::string> DigitalOcean::wrong_firewall(const Json& body) const {
  std::vector<std::string> wrong = misfits(body,
                                           {{"name", Kind::text, true},
                                            {"inbound_rules", Kind::list},
                                            {"outbound_rules", Kind::list},
                                            {"droplet_ids", Kind::list},
                                            {"tags", Kind::list}},
                                           "a firewall");
  if (!wrong.empty()) return wrong;
  const std::string name = body["name"];
  if (name.size() < 2 || !is_alphanumeric(name[0]) || !std::ranges::all_of(name, [](char c) {
        return is_alphanumeric(c) || c == '.' || c == '-';
      })) {
    wrong.push_back(name + " is no name of a firewall");
  }
  const Json inbound = body.value("inbound_rules", Json::array());
  const Json outbound = body.value("outbound_rules", Json::array());
  if (inbound.empty() && outbound.empty()) wrong.emplace_back("a firewall without a rule");
  for (const auto& [rules, ends] :
       {std::pair{&inbound, "sources"}, std::pair{&outbound, "destinations"}}) {
    for (std::string& one : wrong_rules(*rules, ends)) wrong.push_back(std::move(one));
  }
  if (body.value("tags", Json::array()).size() > kMostTags) {
    wrong.emplace_back("a firewall with more than five tags");
  }
  return wrong;
}

Json DigitalOcean::firewall_json(const Firewall& one) {
  Json changes = Json::array(), droplets = Json::array();
  const auto tags = one.said.value("tags", std::set<std::string>{});
  for (const Machine& machine : machines) {
    if (machine.account != one.account || !machine.is_there(now())) continue;
    const bool tagged = std::ranges::any_of(
        machine.tags, [&](const std::string& tag) { return tags.contains(tag); });
    if (!tagged || now() >= std::max(machine.made, one.made) + std::chrono::seconds(3)) continue;
    changes.push_back(
        {{"droplet_id", *whole(machine.id)}, {"removing", false}, {"status", "waiting"}});
  }
  return {{"id", one.id},
          {"name", one.said["name"]},
          {"status", changes.empty() ? "succeeded" : "waiting"},
          {"created_at", wall_text(one.made)},
          {"pending_changes", changes},
          {"inbound_rules", one.said.value("inbound_rules", Json::array())},
          {"outbound_rules", one.said.value("outbound_rules", Json::array())},
          {"droplet_ids", one.said.value("droplet_ids", droplets)},
          {"tags", tags}};
}

io::HttpReply DigitalOcean::list_firewalls(const Request& request, const Names&) {
  Json all = Json::array();
  for (const Firewall& one : firewalls_) {
    if (one.account == dials.account) all.push_back(firewall_json(one));
  }
  return page(request, "firewalls", all);
}

io::HttpReply DigitalOcean::create_firewall(const Request& request, const Names&) {
  const std::vector<std::string> wrong = wrong_firewall(request.body);
  if (!wrong.empty()) return refuse_all(422, wrong);
  for (const Firewall& one : firewalls_) {
    if (one.account == dials.account && one.said["name"] == request.body["name"]) {
      return refusal(409, "duplicate name");
    }
  }
  for (const Json& tag : request.body.value("tags", Json::array())) {
    if (!tag.is_string() || !tags_[dials.account].contains(tag.get<std::string>())) {
      return refusal(422, "could not find tags " + tag.dump());
    }
  }
  for (const Json& id : request.body.value("droplet_ids", Json::array())) {
    if (find_machine(id.dump()) == nullptr) return refusal(422, "could not find droplet");
  }
  const Firewall& made = firewalls_.emplace_back(
      Firewall{.id = dice().uuid(), .account = dials.account, .made = now(), .said = request.body});
  return json_reply(202, {{"firewall", firewall_json(made)}});
}

io::HttpReply DigitalOcean::get_firewall(const Request&, const Names& names) {
  for (const Firewall& one : firewalls_) {
    if (one.id == names[0] && one.account == dials.account) {
      return json_reply(200, {{"firewall", firewall_json(one)}});
    }
  }
  return refusal(404, kNotFound);
}

io::HttpReply DigitalOcean::delete_firewall(const Request&, const Names& names) {
  const auto erased = std::erase_if(firewalls_, [&](const Firewall& one) {
    return one.id == names[0] && one.account == dials.account;
  });
  return erased == 0 ? refusal(404, kNotFound) : io::HttpReply{.status = 204};
}

}  // namespace skyward::doubles
