#pragma once

// Amazon's published service model as a judge: says what is wrong with a request, for the form of
// the query services (EC2's dialect) and for JSON.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/aws/published_data_fixture.h"

namespace skyward::provider::aws {

class ApiModel {
 public:
  // "ec2/2016-11-15"
  explicit ApiModel(const std::string& path)
      : model_(nlohmann::json::parse(slurp(published_data() + "/" + path + "/service-2.json"))) {}

  // What is wrong with a form body; empty when nothing is. EC2 has flat lists and capital letters.
  std::vector<std::string> judge_form(const std::string& body) {
    wrong_.clear();
    std::map<std::string, std::string> form = parse_form(body);
    const std::string action = form["Action"];
    if (form["Version"] != model_["metadata"]["apiVersion"].get<std::string>()) {
      wrong_.push_back("Version is " + form["Version"]);
    }
    form.erase("Action");
    form.erase("Version");
    if (!model_["operations"].contains(action)) return {"there is no operation " + action};
    const auto& operation = model_["operations"][action];
    Node root;
    for (const auto& [key, value] : form) insert(root, key, value);
    if (operation.contains("input")) {
      judge(root, operation["input"]["shape"], action);
    } else if (!form.empty()) {
      wrong_.push_back(action + " takes nothing");
    }
    return wrong_;
  }

  std::vector<std::string> judge_json(const std::string& action, const std::string& body) {
    wrong_.clear();
    if (!model_["operations"].contains(action)) return {"there is no operation " + action};
    judge_value(nlohmann::json::parse(body), model_["operations"][action]["input"]["shape"],
                action);
    return wrong_;
  }

 private:
  struct Node {
    std::string value;
    bool has_value = false;
    std::map<std::string, Node> below;
  };

  static std::map<std::string, std::string> parse_form(const std::string& body) {
    std::map<std::string, std::string> out;
    std::istringstream parts(body);
    for (std::string part; std::getline(parts, part, '&');) {
      const std::size_t equals = part.find('=');
      out[decode(part.substr(0, equals))] = decode(part.substr(equals + 1));
    }
    return out;
  }

  static std::string decode(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '%') {
        out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
        i += 2;
      } else {
        out += text[i];
      }
    }
    return out;
  }

  static void insert(Node& root, const std::string& key, const std::string& value) {
    Node* at = &root;
    std::istringstream steps(key);
    for (std::string step; std::getline(steps, step, '.');) at = &at->below[step];
    at->value = value;
    at->has_value = true;
  }

  static std::string wire_name(const std::string& name, const nlohmann::json& member) {
    if (member.contains("queryName")) return member["queryName"];
    std::string out = member.value("locationName", name);
    out[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(out[0])));
    return out;
  }

  void judge(const Node& node, const std::string& shape_name, const std::string& path) {
    const auto& shape = model_["shapes"][shape_name];
    const std::string type = shape["type"];
    if (type == "structure") {
      std::set<std::string> known;
      for (const auto& [name, member] : shape["members"].items()) {
        const std::string wire = wire_name(name, member);
        known.insert(wire);
        const auto found = node.below.find(wire);
        if (found != node.below.end()) {
          judge(found->second, member["shape"], path + "." + wire);
        } else if (is_required(shape, name)) {
          wrong_.push_back(path + " lacks " + wire);
        }
      }
      for (const auto& [name, below] : node.below) {
        if (!known.contains(name)) wrong_.push_back(path + " has no " + name);
      }
    } else if (type == "list") {
      int expected = 1;
      std::set<int> numbers;
      for (const auto& [name, below] : node.below) numbers.insert(std::atoi(name.c_str()));
      for (const int number : numbers) {
        if (number != expected++) wrong_.push_back(path + ": the list has a gap");
      }
      if (node.below.empty()) wrong_.push_back(path + " is a list");
      for (const auto& [name, below] : node.below) {
        judge(below, shape["member"]["shape"], path + "." + name);
      }
    } else if (!node.has_value || !node.below.empty()) {
      wrong_.push_back(path + " is a " + type);
    } else {
      judge_text(node.value, shape, path);
    }
  }

  static bool is_required(const nlohmann::json& shape, const std::string& name) {
    for (const auto& required : shape.value("required", nlohmann::json::array())) {
      if (required == name) return true;
    }
    return false;
  }

  void judge_text(const std::string& value, const nlohmann::json& shape, const std::string& path) {
    const std::string type = shape["type"];
    const std::string digits = value.substr(value.starts_with('-') ? 1 : 0);
    if ((type == "integer" || type == "long") &&
        (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos)) {
      wrong_.push_back(path + " is no whole number: " + value);
    }
    if (type == "boolean" && value != "true" && value != "false") {
      wrong_.push_back(path + " is neither true nor false: " + value);
    }
    if (type == "timestamp" && !looks_like(value, "0000-00-00T00:00:00Z")) {
      wrong_.push_back(path + " is no time: " + value);
    }
    if (shape.contains("enum") && !shape["enum"].empty()) {
      bool known = false;
      for (const auto& one : shape["enum"]) known = known || one == value;
      if (!known) wrong_.push_back(path + " is none of the choices: " + value);
    }
    if (type == "string" && value.size() < shape.value("min", std::size_t{0})) {
      wrong_.push_back(path + " is too short");
    }
    if (type == "string" && shape.contains("max") && value.size() > shape["max"]) {
      wrong_.push_back(path + " is too long");
    }
    const bool bounded = type == "integer" && shape.contains("max");
    if (bounded && std::atol(value.c_str()) > shape["max"])
      wrong_.push_back(path + " is too large");
  }

  void judge_value(const nlohmann::json& value, const std::string& shape_name,
                   const std::string& path) {
    const auto& shape = model_["shapes"][shape_name];
    const std::string type = shape["type"];
    if (type == "structure") {
      if (!value.is_object()) return wrong_.push_back(path + " is a structure");
      for (const auto& [name, below] : value.items()) {
        if (!shape["members"].contains(name)) {
          wrong_.push_back(path + " has no " + name);
        } else {
          judge_value(below, shape["members"][name]["shape"], path + "." + name);
        }
      }
      for (const auto& required : shape.value("required", nlohmann::json::array())) {
        if (!value.contains(required)) wrong_.push_back(path + " lacks " + std::string(required));
      }
    } else if (type == "list") {
      if (!value.is_array()) return wrong_.push_back(path + " is a list");
      for (const auto& below : value) judge_value(below, shape["member"]["shape"], path + "[]");
    } else {
      judge_text(value.is_string() ? value.get<std::string>() : value.dump(), shape, path);
    }
  }

  nlohmann::json model_;
  std::vector<std::string> wrong_;
};

}  // namespace skyward::provider::aws
