#pragma once

// Which image a pool's machines boot, and the user that logs in to it.

#include <string>
#include <string_view>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::aws {

// Fails with `invalid`, naming the setting "ami", if no published image has these devices' driver.
// Accepts any image of the user's own.
Status check_image(const PoolSpec& spec, std::string_view accelerator, double count);

// The SSM parameter that holds the newest image for these machines.
std::string image_parameter(const PoolSpec& spec, const Offer& offer);

// "ubuntu", "admin" or "ec2-user", by the image's name; empty if it does not say.
std::string login_user(const std::string& image_name);

struct BootImage {
  MachineImage image{};
  std::string user{};     // logs in
  bool new_user = false;  // cloud-init creates it, since the image's own is not known
  int root_gb = 0;
};
// From the settings "ami" and "username", else what Canonical and Amazon publish.
Result<BootImage> find_image(Client& client, const PoolSpec& spec, const Offer& offer,
                             Time deadline);

}  // namespace skyward::provider::aws
