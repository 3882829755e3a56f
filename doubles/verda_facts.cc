#include "doubles/verda_facts.h"

#include <algorithm>

#include "skyward/base/hash.h"

namespace skyward::doubles {
namespace {

constexpr std::string_view kPlaces[] = {"FIN-01", "FIN-02", "FIN-03", "ICE-01"};
constexpr std::string_view kPlain = "ubuntu-24.04 ubuntu-22.04";
constexpr std::string_view kNew =
    "ubuntu-24.04 ubuntu-22.04 ubuntu-24.04-cuda-13.0-open ubuntu-24.04-cuda-12.8-open-docker";
constexpr std::string_view kOld = "ubuntu-22.04 ubuntu-22.04-cuda-12.4";

constexpr VerdaType kTypes[] = {
    {"CPU.4V.16G", "CPU Node", "AMD EPYC", 0, 0, 4, 16, 0.0279, 0.0098, "FIN-01 FIN-03", kPlain},
    {"CPU.16V.64G", "CPU Node", "AMD EPYC", 0, 0, 16, 64, 0.1116, 0.0391, "FIN-01 FIN-03", kPlain},
    {"1V100.6V", "V100", "Tesla V100", 1, 16, 6, 23, 0.1381, 0.0483, "FIN-01", kOld},
    {"2V100.10V", "V100", "Tesla V100", 2, 32, 10, 45, 0.2762, 0.0966, "FIN-01", kOld},
    {"1A6000.10V", "RTX A6000", "RTX A6000", 1, 48, 10, 60, 0.49, 0.1715, "FIN-01", kOld},
    {"1L40S.20V", "L40S", "L40S", 1, 48, 20, 60, 0.9143, 0.32, "FIN-01 FIN-02", kNew},
    {"1A100.22V", "A100", "A100 SXM4 80GB", 1, 80, 22, 120, 1.29, 0.4515, "FIN-01 FIN-03", kNew},
    {"8A100.176V", "A100", "A100 SXM4 80GB", 8, 640, 176, 960, 10.32, 3.612, "FIN-03", kNew},
    {"1H100.80S.30V", "H100", "H100 SXM5 80GB", 1, 80, 30, 120, 2.29, 0.8015, "FIN-01 ICE-01",
     kNew},
    {"8H100.80S.176V", "H100", "H100 SXM5 80GB", 8, 640, 176, 1480, 18.32, 6.412, "FIN-01", kNew},
    {"1H200.141S.44V", "H200", "H200 SXM5 141GB", 1, 141, 44, 182, 3.39, 1.428, "FIN-03", kNew},
    {"1B200.30V", "B200", "B200 SXM6 180GB", 1, 180, 30, 184, 4.89, 1.669, "FIN-03", kNew},
    {"1GB300.32V", "GB300", "GB300 SXM6 288GB", 1, 288, 32, 240, 5.45, 1.91, "FIN-03", kNew},
    {"8B200.240V", "B200", "B200 SXM6 180GB", 8, 1440, 240, 1470, 39.12, 13.35, "", kNew},
};

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::string_view first = list.substr(0, list.find(' '));
    if (first == word) return true;
    list.remove_prefix(std::min(list.size(), first.size() + 1));
  }
  return false;
}

Json words(std::string_view list) {
  Json out = Json::array();
  while (!list.empty()) {
    const std::string_view first = list.substr(0, list.find(' '));
    out.push_back(first);
    list.remove_prefix(std::min(list.size(), first.size() + 1));
  }
  return out;
}

// In the form of a UUID, the same for the same name.
std::string id_of(std::string_view name) {
  const std::string hex = to_hex(sha256(std::as_bytes(std::span(name))));
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-4" + hex.substr(12, 3) + "-a" +
         hex.substr(15, 3) + "-" + hex.substr(18, 12);
}

Json price(double value, bool as_text) {
  if (!as_text) return value;
  return Json(value).dump();
}

}  // namespace

bool VerdaType::is_at(std::string_view place) const { return has_word(places, place); }
bool VerdaType::starts(std::string_view image) const { return has_word(images, image); }

std::span<const VerdaType> verda_types() { return kTypes; }
std::span<const std::string_view> verda_places() { return kPlaces; }

const VerdaType* find_verda_type(const std::string& name) {
  const auto* const found =
      std::ranges::find_if(kTypes, [&](const VerdaType& one) { return one.name == name; });
  return found == std::end(kTypes) ? nullptr : found;
}

Json verda_images() {
  Json out = Json::array();
  for (const char* type : {"ubuntu-22.04", "ubuntu-24.04", "ubuntu-22.04-cuda-12.4",
                           "ubuntu-24.04-cuda-12.8-open-docker", "ubuntu-24.04-cuda-13.0-open"}) {
    out.push_back({{"id", id_of(type)},
                   {"image_type", type},
                   {"name", type},
                   {"details", {type}},
                   {"is_default", out.empty()},
                   {"is_cluster", false},
                   {"category", "ubuntu"}});
  }
  return out;
}

std::string verda_image(const std::string& id_or_type) {
  for (const Json& one : verda_images()) {
    if (one["id"] == id_or_type || one["image_type"] == id_or_type) return one["image_type"];
  }
  return {};
}

Json verda_type_json(const VerdaType& type, bool as_text) {
  const std::string count = std::to_string(type.gpus) + "x ";
  return {{"id", id_of(type.name)},
          {"instance_type", type.name},
          {"best_for", {"Large model inference"}},
          {"cpu",
           {{"description", std::to_string(type.vcpus) + " CPU"}, {"number_of_cores", type.vcpus}}},
          {"gpu",
           {{"description", type.gpus > 0 ? count + std::string(type.display) : ""},
            {"number_of_gpus", type.gpus}}},
          {"memory",
           {{"description", std::to_string(type.memory_gb) + "GB RAM"},
            {"size_in_gigabytes", type.memory_gb}}},
          {"gpu_memory",
           {{"description", std::to_string(type.gpu_memory_gb) + "GB VRAM"},
            {"size_in_gigabytes", type.gpu_memory_gb}}},
          {"storage", {{"description", "dynamic"}, {"size_in_gigabytes", 0}}},
          {"description", "Dedicated instance"},
          {"deploy_warning", nullptr},
          {"model", type.model},
          {"name", type.display},
          {"display_name", type.display},
          {"manufacturer", type.gpus > 0 ? "NVIDIA" : "AMD"},
          {"p2p", type.gpus > 1 ? "900 GB/s" : ""},
          {"currency", "usd"},
          {"price_per_hour", price(type.hourly, as_text)},
          {"spot_price", price(type.spot_hourly, as_text)},
          {"dynamic_price", price(type.hourly, as_text)},
          {"max_dynamic_price", price(type.hourly * 1.2, as_text)},
          {"serverless_price", nullptr},
          {"serverless_spot_price", nullptr},
          {"supported_os", words(type.images)}};
}

}  // namespace skyward::doubles
