#include "skyward/provider/verda/verda_images.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "skyward/provider/choosing.h"

namespace skyward::provider::verda {

namespace {

// Where a type does not say what it starts from.
constexpr const char* kPlainImage = "ubuntu-24.04";
constexpr const char* kCudaImage = "ubuntu-24.04-cuda-13.0-open";

// NVIDIA's boards with its own processors, which are ARM's; a type does not say what it has.
bool is_on_grace(std::string_view accelerator) {
  return accelerator == "GH200" || accelerator == "GB200" || accelerator == "GB300";
}

}  // namespace

Offer offer_of(const ServerType& type, const std::string& location, Offer offer) {
  offer.instance_type = type.name;
  offer.region = location;
  offer.cpus = type.cpus;
  offer.memory_gb = type.memory_gb;
  if (type.gpus > 0) {
    offer.accelerator = accelerator_in(type.gpu);
    offer.accelerator_form = form_factor_in(type.gpu);
    offer.accelerator_count = type.gpus;
    offer.accelerator_memory_gb = type.gpu_memory_gb / type.gpus;
  }
  offer.architecture = is_on_grace(offer.accelerator) ? "arm64" : "x86_64";
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
