#include "skyward/provider/aws/images.h"

#include <fmt/format.h>

#include <algorithm>

namespace skyward::provider::aws {

namespace {

constexpr int kRoot_gb = 30;
constexpr int kGpuRoot_gb = 100;  // drivers, CUDA and the frameworks on top

std::string setting_of(const PoolSpec& spec, const char* name) {
  const auto found = spec.provider.settings.find(name);
  return found == spec.provider.settings.end() ? std::string() : found->second;
}

// Slices of a GPU need a driver that no published image brings.
bool has_gpu_image(const Offer& offer) {
  return is_nvidia(offer.accelerator) && offer.accelerator_count >= 1;
}

}  // namespace

std::string image_parameter(const PoolSpec& spec, const Offer& offer) {
  const bool arm = offer.architecture == "arm64";
  std::string version = setting_of(spec, "ubuntu_version");
  if (version.empty()) version = "24.04";
  if (has_gpu_image(offer)) {
    return fmt::format(
        "/aws/service/deeplearning/ami/{}/base-oss-nvidia-driver-gpu-ubuntu-{}/latest/ami-id",
        arm ? "arm64" : "x86_64", version);
  }
  return fmt::format("/aws/service/canonical/ubuntu/server/{}/stable/current/{}/hvm/{}/ami-id",
                     version, arm ? "arm64" : "amd64", version < "24.04" ? "ebs-gp2" : "ebs-gp3");
}

std::string login_user(const std::string& image_name) {
  std::string name = image_name;
  std::ranges::transform(name, name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  if (name.contains("ubuntu")) return "ubuntu";
  return name.contains("debian") ? "admin" : "ec2-user";
}

Result<BootImage> find_image(Client& client, const PoolSpec& spec, const Offer& offer,
                             Time deadline) {
  Ec2Api api(client);
  std::string id = setting_of(spec, "ami");
  if (id.empty()) {
    const std::string parameter = image_parameter(spec, offer);
    const auto found = api.get_parameter(parameter, deadline);
    if (!found) {
      Error error = to_error(found.error(),
                             fmt::format("SSM GetParameter {} in {}", parameter, client.region()));
      if (found.error().code == "ParameterNotFound") {
        error.hint = "no image is published under this name: set ubuntu_version=, or give ami=";
      }
      return std::unexpected(std::move(error));
    }
    id = *found;
  }
  const auto image = api.describe_image(id, deadline);
  if (!image) {
    return std::unexpected(
        to_error(image.error(), fmt::format("EC2 DescribeImages {} in {}", id, client.region())));
  }
  BootImage boot{.image = *image};
  boot.user = setting_of(spec, "username");
  if (boot.user.empty()) boot.user = login_user(image->name);
  boot.root_gb = std::max(has_gpu_image(offer) ? kGpuRoot_gb : kRoot_gb, image->size_gb);
  return boot;
}

}  // namespace skyward::provider::aws
