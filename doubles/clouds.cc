#include "doubles/clouds.h"

#include "doubles/digitalocean.h"

namespace skyward::doubles {

std::vector<std::string> cloud_names() { return {"digitalocean"}; }

std::unique_ptr<Cloud> make_cloud(const std::string& name, std::uint64_t seed) {
  if (name == "digitalocean") return std::make_unique<DigitalOcean>(seed);
  return nullptr;
}

}  // namespace skyward::doubles
