#include "doubles/kubectl.h"

#include <algorithm>
#include <set>

namespace skyward::doubles {
namespace {

constexpr int kMostTries = 10;

CommandReply failed(std::string err) { return {.code = 1, .err = std::move(err) + "\n"}; }

Json read(const io::HttpReply& reply) {
  Json out = Json::parse(reply.body, nullptr, false);
  return out.is_discarded() ? Json() : out;
}

// As it prints a refusal.
std::string error_line(const io::HttpReply& reply, const std::string& doing = {}) {
  if (reply.status <= 0) {
    return doing +
           "unexpected error when reading response body. Please retry. Original error: "
           "unexpected EOF";
  }
  const Json status = read(reply);
  if (reply.status == 401) return "error: You must be logged in to the server (Unauthorized)";
  const std::string reason = status.is_object() ? status.value("reason", "") : "";
  const std::string message =
      status.is_object() ? status.value("message", "") : "an error on the server";
  if (reason == "Invalid") return "The " + message;
  return "Error from server (" + (reason.empty() ? "InternalError" : reason) + "): " + doing +
         message;
}

// What a query may not have in it.
std::string encoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '=') {
      out += "%3D";
    } else if (c == ',') {
      out += "%2C";
    } else if (c == '!') {
      out += "%21";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

CommandReply Kubectl::violate(const std::string& what) {
  cluster_.violations.push_back({.text = "kubectl: " + what});
  return failed("error: " + what);
}

// One that comes too early is sent again when it may.
io::HttpReply Kubectl::ask(const std::string& method, const std::string& path, const Json& body) {
  io::HttpRequest request{.method = method, .url = "http://cluster" + path};
  if (!body.is_null()) {
    request.body = body.dump();
    request.headers.emplace_back("Content-Type", "application/json");
  }
  for (int tries = 1;; ++tries) {
    const io::HttpReply reply = cluster_.reply(request, now_());
    const auto wait = whole(header_of(reply, "Retry-After"));
    if (reply.status != 429 || !wait || tries > kMostTries) return reply;
    sleep_(std::chrono::seconds(*wait));
  }
}

CommandReply Kubectl::run(const Words& words, std::string_view input) {
  if (words.size() < 2 || words[0] != "kubectl") return violate("no such program");
  Command command{.space = name_space};
  static const std::set<std::string> kFlags{
      "--context",  "--namespace",       "--output",         "-o",
      "--minify",   "--filename",        "--validate",       "--now",
      "--wait",     "--request-timeout", "--field-selector", "--ignore-not-found",
      "--selector", "--all-namespaces"};
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string& word = words[at];
    if (!word.starts_with('-')) {
      command.words.push_back(word);
      continue;
    }
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    std::string value = equal == std::string::npos ? "" : word.substr(equal + 1);
    if (name == "-o") value = words[++at];
    if (!kFlags.contains(name)) return violate("unknown flag: " + word);
    if (!command.flags.emplace(name, value).second) return violate("given twice: " + word);
  }
  const auto chosen = command.flags.find("--context");
  if (chosen != command.flags.end() && chosen->second != context) {
    return failed("Error in configuration: context was not found for specified context: " +
                  chosen->second);
  }
  if (const auto space = command.flags.find("--namespace"); space != command.flags.end()) {
    command.space = space->second;
  }
  if (!command.flags.contains("--request-timeout")) return violate("it may wait for ever");
  if (command.words == Words{"config", "view"}) return view();
  if (command.words[0] == "get") return get(command);
  if (command.words[0] == "create") return create(command, input);
  if (command.words[0] == "delete") return remove(command);
  return violate("unknown command " + command.words[0]);
}

CommandReply Kubectl::view() const {
  const Json config{
      {"kind", "Config"},
      {"clusters", {{{"name", "c1"}, {"cluster", {{"server", "https://cluster"}}}}}},
      {"contexts", {{{"name", context}, {"context", {{"cluster", "c1"}, {"user", "jane"}}}}}},
      {"current-context", context}};
  return {.out = config.dump(4)};
}

// One request for each name.
CommandReply Kubectl::get_named(const Command& command) {
  Json items = Json::array();
  std::string err;
  for (std::size_t at = 2; at < command.words.size(); ++at) {
    const std::string path =
        "/api/v1/namespaces/" + command.space + "/" + command.words[1] + "/" + command.words[at];
    const io::HttpReply reply = ask("GET", path);
    if (reply.status == 200) {
      items.push_back(read(reply));
    } else if (reply.status != 404 || !command.flags.contains("--ignore-not-found")) {
      err += error_line(reply) + "\n";
    }
  }
  CommandReply out{.code = err.empty() ? 0 : 1, .err = err};
  if (items.size() == 1 && command.words.size() == 3) {
    out.out = items[0].dump(4);
  } else if (!items.empty() || !err.empty()) {
    out.out = Json{{"kind", "List"}, {"apiVersion", "v1"}, {"items", items}}.dump(4);
  }
  return out;
}

CommandReply Kubectl::get(const Command& command) {
  const std::string what = command.words.size() > 1 ? command.words[1] : "";
  if (what != "pods" && what != "nodes") return violate("get " + what);
  if (command.words.size() > 2) return get_named(command);
  const bool all = what == "nodes" || command.flags.contains("--all-namespaces");
  std::string path = all ? "/api/v1/" + what : "/api/v1/namespaces/" + command.space + "/" + what;
  path += "?limit=500";
  for (const auto& [flag, name] :
       {std::pair("--selector", "labelSelector"), std::pair("--field-selector", "fieldSelector")}) {
    const auto given = command.flags.find(flag);
    if (given != command.flags.end()) {
      path += std::string("&") + name + "=" + encoded(given->second);
    }
  }
  const io::HttpReply reply = ask("GET", path);
  if (reply.status != 200) return failed(error_line(reply));
  const std::string form = command.flags.contains("--output") ? command.flags.at("--output") : "";
  if (form == "json") return {.out = read(reply).dump(4)};
  if (!form.starts_with("jsonpath={range .items[*]}{.spec.nodeName}")) return violate(form);
  std::string out;
  const Json listed = read(reply);
  for (const Json& pod : listed["items"]) {
    out += pod.value("/spec/nodeName"_json_pointer, "") + "\t";
    for (const Json& one : pod["spec"]["containers"]) {
      out += one.value("/resources/requests"_json_pointer, Json::object()).dump();
    }
    out += "\n";
  }
  return {.out = std::move(out)};
}

// One request for each item; those that fail do not keep the others from being created.
CommandReply Kubectl::create(const Command& command, std::string_view input) {
  const Json list = Json::parse(input, nullptr, false);
  if (!list.is_object() || list.value("kind", "") != "List") return violate("no List to create");
  CommandReply out;
  for (const Json& one : list["items"]) {
    const bool review = one.value("kind", "") == "SelfSubjectAccessReview";
    const std::string path = review ? "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
                                    : "/api/v1/namespaces/" + command.space + "/pods";
    const io::HttpReply reply = ask("POST", path, one);
    if (reply.status != 201) {
      out.code = 1;
      out.err += error_line(reply, "error when creating \"STDIN\": ") + "\n";
    } else if (review) {
      const Json asked = one["spec"]["resourceAttributes"];
      out.out += asked.value("verb", "") + " " + asked.value("resource", "") + "/" +
                 asked.value("subresource", "") +
                 (read(reply)["status"]["allowed"] == true ? " true\n" : " false\n");
    } else {
      out.out += "pod/" + one["metadata"]["name"].get<std::string>() + "\n";
    }
  }
  return out;
}

CommandReply Kubectl::remove(const Command& command) {
  if (command.words.size() < 3 || command.words[1] != "pods") return violate("delete what?");
  if (command.flags.count("--wait") == 0) return violate("it waits until pods are gone");
  CommandReply out;
  Json options{
      {"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"propagationPolicy", "Background"}};
  if (command.flags.contains("--now")) options["gracePeriodSeconds"] = 1;
  for (std::size_t at = 2; at < command.words.size(); ++at) {
    const std::string path = "/api/v1/namespaces/" + command.space + "/pods/" + command.words[at];
    const io::HttpReply reply = ask("DELETE", path, options);
    if (reply.status == 200) {
      out.out += "pod/" + command.words[at] + "\n";
    } else {
      out.code = 1;
      out.err += error_line(reply) + "\n";
    }
  }
  return out;
}

}  // namespace skyward::doubles
