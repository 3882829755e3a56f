#pragma once

// Which machine image a pool's machines start from, and who logs in there.

#include <string>
#include <string_view>

#include "skyward/provider/aws/ec2_api.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider::aws {

// Whether a published image can drive these devices; of an image of the user's own nothing is
// known. Fails with `invalid`, naming the setting "ami".
Status check_image(const PoolSpec& spec, std::string_view accelerator, double count);

// The name of SSM's parameter that holds the newest image for these machines.
std::string image_parameter(const PoolSpec& spec, const Offer& offer);

// "ubuntu", "admin", "ec2-user", by the image's name.
std::string login_user(const std::string& image_name);

struct BootImage {
  MachineImage image{};
  std::string user{};
  int root_gb = 0;
};
// The settings "ami" and "username", else what Canonical and Amazon publish.
Result<BootImage> find_image(Client& client, const PoolSpec& spec, const Offer& offer,
                             Time deadline);

}  // namespace skyward::provider::aws
