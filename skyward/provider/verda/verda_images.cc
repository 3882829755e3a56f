#include "skyward/provider/verda/verda_images.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "skyward/base/text.h"
#include "skyward/spec/accelerator.h"

namespace skyward::provider::verda {

namespace {

// Where a type does not say what it starts from.
constexpr const char* kPlainImage = "ubuntu-24.04";
constexpr const char* kCudaImage = "ubuntu-24.04-cuda-13.0-open";

// Without its last word; empty when it was the only one.
std::string_view without_last_word(std::string_view text) {
  const std::size_t blank = text.rfind(' ');
  return blank == std::string_view::npos ? std::string_view() : text.substr(0, blank);
}

}  // namespace

// From behind, words go until the catalogue knows the rest: memory, then the form.
std::string accelerator_of(const std::string& description) {
  std::string_view text = description;
  const std::size_t times = text.find("x ");
  const bool counted = times != std::string_view::npos && times > 0 &&
                       std::ranges::all_of(text.substr(0, times), is_digit);
  if (counted) text.remove_prefix(times + 2);
  if (text.empty()) return {};
  for (std::string_view rest = text; !rest.empty(); rest = without_last_word(rest)) {
    if (const auto name = parse_accelerator_name(rest)) return std::string(name->model->name);
  }
  return device_model_name(text);
}

Offer offer_of(const ServerType& type, const std::string& location, Offer offer) {
  offer.instance_type = type.name;
  offer.region = location;
  offer.cpus = type.cpus;
  offer.memory_gb = type.memory_gb;
  offer.architecture = "x86_64";
  if (type.gpus > 0) {
    offer.accelerator = accelerator_of(type.gpu);
    offer.accelerator_count = type.gpus;
    offer.accelerator_memory_gb = type.gpu_memory_gb / type.gpus;
  }
  return offer;
}

std::string image_for(const ServerType& type) {
  const bool gpus = type.gpus > 0;
  if (type.images.empty()) return gpus ? kCudaImage : kPlainImage;
  const auto rank = [&](const std::string& image) {
    return std::tuple(image.starts_with("ubuntu"), image.contains("cuda") == gpus,
                      !image.contains("docker"), std::string_view(image));
  };
  return std::ranges::max(type.images, {}, rank);
}

}  // namespace skyward::provider::verda
