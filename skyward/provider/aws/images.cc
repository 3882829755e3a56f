#include "skyward/provider/aws/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/spec/accelerator.h"

namespace skyward::provider::aws {

namespace {

// What the price list covers, in the words of DescribeImages; other systems cost more.
constexpr std::string_view kPlainLinux = "Linux/UNIX";
constexpr const char* kNewUser = "skyward";
constexpr int kRoot_gb = 30;
constexpr int kGpuRoot_gb = 100;  // drivers, CUDA and the frameworks on top

// The published images bring NVIDIA's open kernel modules, which drive Turing and what came after.
bool has_open_driver(std::string_view accelerator) {
  constexpr std::array<std::string_view, 4> kOlder = {"Kepler", "Maxwell", "Pascal", "Volta"};
  const auto known = parse_accelerator_name(accelerator);
  return !known || std::ranges::find(kOlder, known->model->architecture) == kOlder.end();
}

// Slices of a GPU need a driver that no published image brings.
bool has_gpu_image(const Offer& offer) {
  return is_nvidia(offer.accelerator) && offer.accelerator_count >= 1;
}

// Refuses an image that costs more than the price list says.
Status check_price(const MachineImage& image, const std::string& region) {
  std::string why;
  if (image.from_marketplace) {
    why = "is a product of AWS Marketplace, whose fee";
  } else if (!image.billed_as.empty() && image.billed_as != kPlainLinux) {
    why = fmt::format("is billed as \"{}\", whose price", image.billed_as);
  }
  if (why.empty()) return {};
  return fail(ErrorKind::invalid,
              fmt::format("the image {} in {} {} Skyward does not know, so it cannot enforce "
                          "budget= or max_hourly_cost=",
                          image.id, region, why),
              "leave the limit out, or give ami= of an image that is billed as Linux/UNIX and is "
              "not from AWS Marketplace");
}

}  // namespace

Status check_image(const PoolSpec& spec, std::string_view accelerator, double count) {
  if (!spec.provider.setting("ami").empty()) return {};
  if (is_trainium(accelerator) || accelerator.starts_with("Inferentia")) {
    return fail(ErrorKind::invalid,
                fmt::format("machines with {} need an image with Neuron's driver", accelerator),
                "give ami= of a Deep Learning image for Neuron in that region");
  }
  if (!is_nvidia(accelerator)) {
    return fail(ErrorKind::invalid,
                fmt::format("machines with {} need an image with its driver: the published ones "
                            "have NVIDIA's alone",
                            accelerator),
                "give ami= of an image that has the driver, or ask for another accelerator");
  }
  if (count < 1) {
    return fail(ErrorKind::invalid,
                fmt::format("machines with a share of one {} need an image with NVIDIA's GRID "
                            "driver",
                            accelerator),
                "give ami= of an image that has it, or ask for a whole one");
  }
  if (has_open_driver(accelerator)) return {};
  return fail(ErrorKind::invalid,
              fmt::format("machines with {} need an image with NVIDIA's proprietary driver: the "
                          "published ones support Turing and later",
                          accelerator),
              "give ami= of a Deep Learning image with the proprietary driver in that region, or "
              "ask for a newer accelerator");
}

std::string image_parameter(const PoolSpec& spec, const Offer& offer) {
  const bool arm = offer.architecture == "arm64";
  std::string version = spec.provider.setting("ubuntu_version");
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
  constexpr std::array<std::pair<std::string_view, const char*>, 7> kUsers = {{
      {"ubuntu", "ubuntu"},
      {"debian", "admin"},
      {"amzn", "ec2-user"},
      {"al2023", "ec2-user"},
      {"amazon linux", "ec2-user"},
      {"rhel", "ec2-user"},
      {"suse", "ec2-user"},
  }};
  const std::string name = lower(image_name);
  for (const auto& [system, user] : kUsers) {
    if (name.contains(system)) return user;
  }
  return {};
}

Result<BootImage> find_image(Client& client, const PoolSpec& spec, const Offer& offer,
                             Time deadline) {
  Ec2Api api(client);
  std::string id = spec.provider.setting("ami");
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
    Error error =
        to_error(image.error(), fmt::format("EC2 DescribeImages {} in {}", id, client.region()));
    if (spec.provider.setting("ami").empty() && image.error().refusal == Refusal::not_found) {
      error.hint =
          "the account may not see this published image (Amazon's setting \"Allowed AMIs\"): give "
          "ami= of one that it may use, or ask an administrator to allow the image's owner";
    }
    return std::unexpected(std::move(error));
  }
  if (image->platform == "windows") {
    return fail(ErrorKind::invalid,
                fmt::format("the image {} in {} is a Windows image", id, client.region()),
                "give ami= of a Linux image with cloud-init");
  }
  if (spec.budget || spec.max_hourly_cost) {
    if (Status priced = check_price(*image, client.region()); !priced) return fail(priced);
  }
  BootImage boot{.image = *image};
  boot.user = spec.provider.setting("username");
  if (boot.user.empty()) boot.user = login_user(image->name);
  boot.new_user = boot.user.empty();
  if (boot.new_user) boot.user = kNewUser;
  boot.root_gb = std::max(has_gpu_image(offer) ? kGpuRoot_gb : kRoot_gb, image->size_gb);
  return boot;
}

}  // namespace skyward::provider::aws
