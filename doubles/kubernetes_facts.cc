#include "doubles/kubernetes_facts.h"

#include <algorithm>

#include "doubles/kubernetes.h"
#include "skyward/base/text.h"

namespace skyward::doubles {
namespace {

constexpr std::size_t kLongestLabel = 63;
constexpr std::size_t kLongestName = 253;
constexpr long long kMostSeconds = 2'147'483'647;

bool is_between(const std::string& text, std::size_t most, std::string_view others, bool upper) {
  if (text.empty() || text.size() > most) return false;
  const auto plain = [&](char c) { return is_digit(c) || is_lower(c) || (upper && is_upper(c)); };
  return plain(text.front()) && plain(text.back()) &&
         std::ranges::all_of(text, [&](char c) { return plain(c) || others.contains(c); });
}

bool is_label_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return is_between(name, kLongestLabel, "-_.", true);
  return is_between(name.substr(0, slash), kLongestName, "-.", false) &&
         is_between(name.substr(slash + 1), kLongestLabel, "-_.", true);
}

bool is_label_value(const Json& value) {
  return value.is_string() &&
         (value.get<std::string>().empty() || is_between(value, kLongestLabel, "-_.", true));
}

class Form {
 public:
  void check(const Json& value, Fields fields, const std::string& where) {
    for (std::string& one : misfits(value, fields, where)) wrong.push_back(std::move(one));
  }
  std::vector<std::string> wrong{};
};

void check_container(Form& form, const Json& one, const std::string& where) {
  form.check(one,
             {{"name", Kind::text, true},
              {"image", Kind::text, true},
              {"command", Kind::list},
              {"args", Kind::list},
              {"env", Kind::list},
              {"resources", Kind::object},
              {"securityContext", Kind::object},
              {"volumeMounts", Kind::list},
              {"workingDir", Kind::text}},
             where);
  const auto part = [&](const char* name) { return one.value(name, Json::object()); };
  form.check(part("resources"), {{"limits", Kind::object}, {"requests", Kind::object}},
             where + ".resources");
  form.check(part("securityContext"),
             {{"allowPrivilegeEscalation", Kind::flag},
              {"capabilities", Kind::object},
              {"runAsNonRoot", Kind::flag},
              {"runAsUser", Kind::whole},
              {"runAsGroup", Kind::whole},
              {"seccompProfile", Kind::object}},
             where + ".securityContext");
  for (const Json& mount : one.value("volumeMounts", Json::array())) {
    form.check(
        mount,
        {{"name", Kind::text, true}, {"mountPath", Kind::text, true}, {"readOnly", Kind::flag}},
        where + ".volumeMounts");
  }
  for (const Json& variable : one.value("env", Json::array())) {
    form.check(variable, {{"name", Kind::text, true}, {"value", Kind::text}}, where + ".env");
  }
}

void add_resource_rules(const Json& container, const std::string& where,
                        std::vector<std::string>& out) {
  const Json limits = container.value("/resources/limits"_json_pointer, Json::object());
  const Json requests = container.value("/resources/requests"_json_pointer, Json::object());
  for (const Json* side : {&limits, &requests}) {
    for (const auto& [name, quantity] : side->items()) {
      if (!read_quantity(quantity)) {
        out.push_back(where + ".resources." + name + ": Invalid value: " + quantity.dump());
      }
    }
  }
  for (const auto& [name, quantity] : requests.items()) {
    const bool extended = name.contains('/');
    if (extended && limits.value(name, Json()) != quantity) {
      out.push_back(where + ".resources.requests." + name + ": must be equal to its limit");
    } else if (limits.contains(name) &&
               read_quantity(quantity).value_or(0) > read_quantity(limits[name]).value_or(0)) {
      out.push_back(where + ".resources.requests." + name + ": must be at most its limit");
    }
  }
}

}  // namespace

std::vector<std::string> wrong_form(const Json& pod) {
  Form form;
  form.check(pod,
             {{"apiVersion", Kind::text, true},
              {"kind", Kind::text, true},
              {"metadata", Kind::object, true},
              {"spec", Kind::object, true},
              {"status", Kind::object}},
             "a pod");
  if (!form.wrong.empty()) return form.wrong;
  form.check(pod["metadata"],
             {{"name", Kind::text, true},
              {"namespace", Kind::text},
              {"labels", Kind::object},
              {"annotations", Kind::object},
              {"creationTimestamp", Kind::any}},
             "metadata");
  form.check(pod["spec"],
             {{"containers", Kind::list, true},
              {"restartPolicy", Kind::text},
              {"activeDeadlineSeconds", Kind::whole},
              {"terminationGracePeriodSeconds", Kind::whole},
              {"automountServiceAccountToken", Kind::flag},
              {"enableServiceLinks", Kind::flag},
              {"serviceAccountName", Kind::text},
              {"nodeSelector", Kind::object},
              {"nodeName", Kind::text},
              {"priority", Kind::whole},
              {"tolerations", Kind::list},
              {"securityContext", Kind::object},
              {"volumes", Kind::list}},
             "spec");
  if (!form.wrong.empty()) return form.wrong;
  const Json& spec = pod["spec"];
  form.check(spec.value("securityContext", Json::object()),
             {{"seccompProfile", Kind::object},
              {"runAsNonRoot", Kind::flag},
              {"runAsUser", Kind::whole},
              {"runAsGroup", Kind::whole},
              {"fsGroup", Kind::whole}},
             "spec.securityContext");
  for (const Json& one : spec.value("tolerations", Json::array())) {
    form.check(one,
               {{"key", Kind::text},
                {"operator", Kind::text},
                {"value", Kind::text},
                {"effect", Kind::text},
                {"tolerationSeconds", Kind::whole}},
               "spec.tolerations");
  }
  for (const Json& one : spec.value("volumes", Json::array())) {
    form.check(one, {{"name", Kind::text, true}, {"emptyDir", Kind::object}}, "spec.volumes");
  }
  for (const Json& one : spec["containers"]) check_container(form, one, "spec.containers");
  return form.wrong;
}

std::vector<std::string> broken_rules(const Json& pod) {
  std::vector<std::string> out;
  const std::string name = pod["metadata"]["name"];
  if (!is_between(name, kLongestName, "-.", false)) {
    out.push_back("metadata.name: Invalid value: \"" + name + "\"");
  }
  const Json labels = pod.value("/metadata/labels"_json_pointer, Json::object());
  for (const auto& [key, value] : labels.items()) {
    if (!is_label_name(key) || !is_label_value(value)) {
      out.push_back("metadata.labels: Invalid value: \"" + key + "\": " + value.dump());
    }
  }
  const Json annotations = pod.value("/metadata/annotations"_json_pointer, Json::object());
  for (const auto& [key, value] : annotations.items()) {
    if (!is_label_name(key) || !value.is_string()) {
      out.push_back("metadata.annotations: Invalid value: \"" + key + "\": " + value.dump());
    }
  }
  const Json& spec = pod["spec"];
  const Json selector = spec.value("nodeSelector", Json::object());
  for (const auto& [key, value] : selector.items()) {
    if (!is_label_name(key) || !is_label_value(value)) {
      out.push_back("spec.nodeSelector: Invalid value: \"" + key + "\": " + value.dump());
    }
  }
  const long long life = spec.value("activeDeadlineSeconds", 1LL);
  if (life < 1 || life > kMostSeconds) {
    out.emplace_back("spec.activeDeadlineSeconds: Invalid value: must be between 1 and 2147483647");
  }
  for (const Json& one : spec.value("tolerations", Json::array())) {
    const std::string way = one.value("operator", "Equal"), effect = one.value("effect", "");
    const bool good_effect = effect.empty() || effect == "NoSchedule" ||
                             effect == "PreferNoSchedule" || effect == "NoExecute";
    const bool good_way = way == "Equal" || (way == "Exists" && !one.contains("value"));
    if (!good_effect || !good_way) out.push_back("spec.tolerations: Invalid value: " + one.dump());
  }
  if (spec["containers"].empty()) out.emplace_back("spec.containers: Required value");
  std::vector<std::string> volumes;
  for (const Json& one : spec.value("volumes", Json::array())) volumes.push_back(one["name"]);
  int number = 0;
  for (const Json& one : spec["containers"]) {
    const std::string where = "spec.containers[" + std::to_string(number++) + "]";
    const std::string image = one["image"];
    if (image.empty()) out.push_back(where + ".image: Required value");
    if (trimmed(image) != image) {
      out.push_back(where + ".image: Invalid value: must not have leading or trailing whitespace");
    }
    add_resource_rules(one, where, out);
    for (const Json& mount : one.value("volumeMounts", Json::array())) {
      if (std::ranges::find(volumes, mount["name"].get<std::string>()) == volumes.end()) {
        out.push_back(where + ".volumeMounts: Not found: " + mount["name"].dump());
      }
    }
  }
  return out;
}

std::vector<std::string> insecure_parts(const Json& pod, const std::string& standard) {
  std::vector<std::string> out;
  if (standard != "restricted") return out;
  const Json whole = pod.value("/spec/securityContext"_json_pointer, Json::object());
  const Json one = pod.value("/spec/containers/0/securityContext"_json_pointer, Json::object());
  if (one.value("allowPrivilegeEscalation", true)) {
    out.emplace_back("allowPrivilegeEscalation != false");
  }
  const Json drop = one.value("/capabilities/drop"_json_pointer, Json::array());
  if (std::ranges::find(drop, "ALL") == drop.end()) {
    out.emplace_back("unrestricted capabilities");
  }
  if (!whole.value("runAsNonRoot", one.value("runAsNonRoot", false))) {
    out.emplace_back("runAsNonRoot != true");
  }
  if (whole.value("/seccompProfile/type"_json_pointer, "") != "RuntimeDefault") {
    out.emplace_back("seccompProfile");
  }
  return out;
}

}  // namespace skyward::doubles
