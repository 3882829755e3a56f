// What tests ask a double for: below /_double/.

#include "doubles/cloud.h"

namespace skyward::doubles {
namespace {

// Seconds on the double's clock; null for never.
Json moment(Time at) { return at == kNever ? Json() : Json(seconds(at.time_since_epoch())); }

Json machine_json(const Machine& one) {
  return {{"id", one.id},
          {"name", one.name},
          {"account", one.account},
          {"size", one.size},
          {"place", one.place},
          {"tags", one.tags},
          {"made", moment(one.made)},
          {"ready", moment(one.ready)},
          {"failed", moment(one.failed)},
          {"off", moment(one.off)},
          {"ended", moment(one.ended)},
          {"preempted", one.preempted},
          {"spot", one.spot},
          {"gone", moment(one.gone)},
          {"public_address", one.public_address},
          {"private_address", one.private_address},
          {"ssh_port", one.ssh_port},
          {"inside", one.inside},
          {"request", one.request}};
}

}  // namespace

io::HttpReply Cloud::control(const Request& request) {
  const auto is = [&](std::string_view method, std::string_view path) {
    return request.method == method && request.path == path;
  };
  if (is("GET", "/_double/dials")) return json_reply(200, write_dials(dials));
  if (is("POST", "/_double/dials")) {
    const std::string wrong = turn_dials(dials, request.body);
    if (!wrong.empty()) return json_reply(400, {{"error", wrong}});
    return json_reply(200, write_dials(dials));
  }
  if (is("POST", "/_double/advance")) {
    if (!misfits(request.body, {{"seconds", Kind::number, true}}, "").empty()) {
      return json_reply(400, {{"error", "say {\"seconds\": N}"}});
    }
    const Duration time = from_seconds(request.body["seconds"].get<double>());
    advance(time);
    return json_reply(200, {{"now", seconds((now_ + time).time_since_epoch())}});
  }
  if (is("GET", "/_double/violations")) {
    Json out = Json::array();
    for (const Violation& one : violations) {
      out.push_back({{"request", one.request}, {"at", moment(one.at)}, {"text", one.text}});
    }
    return json_reply(200, out);
  }
  if (is("GET", "/_double/requests")) {
    Json out = Json::array();
    for (const Heard& one : heard) {
      out.push_back({{"number", one.number},
                     {"at", moment(one.at)},
                     {"method", one.method},
                     {"path", one.path},
                     {"body", one.body},
                     {"status", one.status}});
    }
    return json_reply(200, out);
  }
  if (is("GET", "/_double/leftovers")) return json_reply(200, leftovers());
  if (is("GET", "/_double/invoice")) {
    Json lines = Json::object();
    for (const Machine& one : machines) lines[one.id] = bill(one, now_);
    return json_reply(200, {{"total", invoice(asked_at())}, {"machines", lines}});
  }
  if (is("GET", "/_double/machines")) {
    Json out = Json::array();
    for (const Machine& one : machines) out.push_back(machine_json(one));
    return json_reply(200, out);
  }
  if (const auto id = match("/_double/machines/{}", request); id && request.method == "POST") {
    return control_machine(id->front(), request.body);
  }
  if (io::HttpReply own = control_own(request); own.status != 404) return own;
  return json_reply(404, {{"error", "there is no " + request.method + " " + request.path}});
}

// What happens to a machine without its renter: {"act": "end"}, "off", "run", "fail" or "vanish",
// and where the real one behind it is.
io::HttpReply Cloud::control_machine(const std::string& id, const Json& changes) {
  const std::vector<std::string> wrong = misfits(changes,
                                                 {{"act", Kind::text},
                                                  {"public_address", Kind::text},
                                                  {"private_address", Kind::text},
                                                  {"ssh_port", Kind::whole}},
                                                 "a machine");
  if (!wrong.empty()) return json_reply(400, {{"error", wrong.front()}});
  for (Machine& one : machines) {
    if (one.id != id) continue;
    const std::string act = changes.value("act", "");
    if (act == "end" && one.ended == kNever) {
      one.preempted = true;
      end_machine(one);
      on_preempted(one);
    }
    if (act == "off") one.stop(now_);
    if (act == "run") {
      one.ready = std::min(one.ready, now_);
      one.resume(now_);
    }
    if (act == "fail") one.failed = now_;
    if (act == "vanish") one.gone = now_;
    one.public_address = changes.value("public_address", one.public_address);
    one.private_address = changes.value("private_address", one.private_address);
    one.ssh_port = changes.value("ssh_port", one.ssh_port);
    return json_reply(200, Json::object());
  }
  return json_reply(404, {{"error", "there is no machine " + id}});
}

}  // namespace skyward::doubles
