// Vast.ai's instances.

#include <algorithm>

#include "doubles/vast.h"

namespace skyward::doubles {

static constexpr std::size_t kLongestPage = 25;

std::string Vast::status_of(const Machine& one) const {
  if (one.has_failed(now())) return "created";
  if (now() < one.made + dials.boot / 4) return "";
  if (one.off <= now()) return "exited";
  return one.is_new(now()) ? "loading" : "running";
}

Json Vast::instance_json(const Machine& one) {
  const Contract& contract = contracts_.at(one.id);
  Json out = contract.offer;
  for (const char* name : {"ask_contract_id", "verified", "datacenter", "cluster_id", "duration"}) {
    out.erase(name);
  }
  const std::string status = status_of(one);
  const bool stopped = one.off <= now();
  const bool direct = one.request.value("runtype", "ssh") != "ssh_proxy";
  const bool reached = !stopped && one.ready != kNever && now() >= one.ready + dials.address_lag;
  // As some hosts' are told.
  const std::string blanks = *whole(one.id) % 2 == 0 ? " \n" : "";
  Json ports = Json::object();
  if (reached && direct) {
    ports["22/tcp"] = {{{"HostIp", "0.0.0.0"}, {"HostPort", std::to_string(one.ssh_port)}}};
  }
  out.update({{"id", *whole(one.id)},
              {"actual_status", status.empty() ? Json() : Json(status)},
              {"cur_state", stopped ? "stopped" : "running"},
              {"next_state", stopped ? "stopped" : "running"},
              {"intended_status", stopped ? "stopped" : "running"},
              {"status_msg", one.has_failed(now()) ? "OCI runtime create failed: no such device"
                                                   : "success, running " + one.size},
              {"label", one.request.value("label", Json())},
              {"image_uuid", one.request["image"]},
              {"image_runtype", one.request.value("runtype", "ssh")},
              {"image_args", one.request.value("args", Json::array())},
              {"onstart", one.request.value("onstart", "")},
              {"extra_env", Json::array()},
              {"is_bid", contract.is_bid},
              {"external", false},
              {"min_bid", contract.market},
              {"dph_base", contract.price},
              {"dph_total", contract.price + contract.offer["storage_cost"].get<double>() *
                                                 contract.disk_gb / 730},
              {"disk_space", contract.disk_gb},
              {"start_date", static_cast<double>(wall_s(one.made))},
              {"ssh_host", "ssh" + std::to_string(last_id_ % 9) + ".vast.ai"},
              {"ssh_port", 10000 + *whole(one.id) % 20000},
              {"ssh_idx", std::to_string(last_id_ % 9)},
              {"public_ipaddr", one.public_address + blanks},
              {"ports", reached ? ports : Json()}});
  return out;
}

io::HttpReply Vast::get_instance(const Request&, const Names& names) {
  const Machine* one = find_machine(names[0]);
  if (one != nullptr) return json_reply(200, {{"instances", instance_json(*one)}});
  if (dice().chance(0.5)) return json_reply(200, {{"instances", nullptr}});
  return refuse(404, "no_such_instance", "Instance with that ID does not exist.");
}

io::HttpReply Vast::list_instances(const Request&, const Names&) {
  Json all = Json::array();
  for (const Machine* one : listed_machines()) all.push_back(instance_json(*one));
  return json_reply(200, {{"instances", all}});
}

io::HttpReply Vast::list_pages(const Request& request, const Names&) {
  const auto read = [&](const char* name, const char* otherwise) {
    const auto found = request.query.find(name);
    return Json::parse(found == request.query.end() ? otherwise : found->second, nullptr, false);
  };
  const Json limit = read("limit", "25"), filters = read("select_filters", "{}");
  const Json after = read("after_token", "0");
  std::vector<std::string> wrong;
  if (!limit.is_number_integer() || limit < 1 || limit > kLongestPage) {
    wrong.emplace_back("a page has one to 25 instances");
  }
  if (!filters.is_object()) wrong.emplace_back("select_filters is no JSON object");
  if (!after.is_number_integer()) wrong.emplace_back("an invalid after_token");
  if (wrong.empty()) {
    for (const auto& [name, filter] : filters.items()) {
      if (name != "label" && name != "id" && name != "actual_status" && name != "gpu_name") {
        wrong.push_back("nobody can filter by " + name);
      }
    }
  }
  if (!wrong.empty()) return refuse_all(400, wrong);
  Json page = Json::array(), next = nullptr;
  std::size_t total = 0;
  for (const Machine* one : listed_machines()) {
    const Json item = instance_json(*one);
    if (!fits_filters(item, filters, wrong)) continue;
    ++total;
    if (item["id"] <= after) continue;
    if (page.size() < limit.get<std::size_t>()) {
      page.push_back(item);
    } else {
      next = page.back()["id"].dump();
    }
  }
  if (!wrong.empty()) return refuse_all(400, {wrong.front()});
  return json_reply(200, {{"success", true},
                          {"instances", page},
                          {"instances_found", page.size()},
                          {"total_instances", total},
                          {"next_token", next}});
}

io::HttpReply Vast::change_instance(const Request& request, const Names& names) {
  std::vector<std::string> wrong =
      misfits(request.body, {{"state", Kind::text}, {"label", Kind::text}}, "a change");
  const std::string state = wrong.empty() ? request.body.value("state", "running") : "";
  if (wrong.empty() && state != "running" && state != "stopped") {
    wrong.push_back("there is no state " + state);
  }
  if (!wrong.empty()) return refuse_all(400, wrong);
  Machine* one = find_machine(names[0]);
  if (one == nullptr) return refuse(404, "no_such_instance", "no such instance");
  if (request.body.contains("label")) one->request["label"] = request.body["label"];
  if (request.body.contains("state")) state == "stopped" ? one->stop(now()) : one->resume(now());
  return json_reply(200, {{"success", true}});
}

io::HttpReply Vast::destroy_instance(const Request&, const Names& names) {
  Machine* one = find_machine(names[0]);
  if (one == nullptr) {
    return refuse(404, "no_such_instance", "Instance with that ID does not exist.");
  }
  end_machine(*one);
  return json_reply(200, {{"success", true}, {"msg", "Instance destroyed successfully"}});
}

io::HttpReply Vast::change_bid(const Request& request, const Names& names) {
  std::vector<std::string> wrong = misfits(
      request.body, {{"client_id", Kind::text, true}, {"price", Kind::number, true}}, "a bid");
  if (wrong.empty() && request.body["price"] < 0.001) wrong.emplace_back("a bid below 0.001");
  if (!wrong.empty()) return refuse_all(400, wrong);
  Machine* one = find_machine(names[0]);
  if (one == nullptr) return refuse(404, "no_such_instance", "no such instance");
  Contract& contract = contracts_.at(one->id);
  if (!contract.is_bid) return refuse(400, "invalid_args", "This instance has no bid");
  contract.price = request.body["price"];
  contract.price < contract.market ? one->stop(now()) : one->resume(now());
  return json_reply(200, {{"success", true}});
}

io::HttpReply Vast::attach_key(const Request& request, const Names& names) {
  const std::vector<std::string> wrong =
      misfits(request.body, {{"ssh_key", Kind::text, true}}, "a key");
  if (!wrong.empty()) return refuse_all(400, wrong);
  Machine* one = find_machine(names[0]);
  if (one == nullptr) return refuse(404, "no_such_instance", "no such instance");
  Json& keys = one->inside["keys"];
  if (std::ranges::find(keys, request.body["ssh_key"]) != keys.end()) {
    return refuse(400, "invalid_args", "SSH key is already associated with instance");
  }
  keys.push_back(request.body["ssh_key"]);
  return json_reply(200, {{"success", true}, {"msg", "SSH key attached successfully"}});
}

}  // namespace skyward::doubles
