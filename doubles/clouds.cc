#include "doubles/clouds.h"

#include "doubles/digitalocean.h"
#include "doubles/kubernetes.h"
#include "doubles/runpod.h"
#include "doubles/vast.h"
#include "doubles/verda.h"

namespace skyward::doubles {

std::vector<std::string> cloud_names() {
  return {"digitalocean", "kubernetes", "runpod", "vast", "verda"};
}

std::unique_ptr<Cloud> make_cloud(const std::string& name, std::uint64_t seed) {
  if (name == "digitalocean") return std::make_unique<DigitalOcean>(seed);
  if (name == "kubernetes") return std::make_unique<Kubernetes>(seed);
  if (name == "verda") return std::make_unique<Verda>(seed);
  if (name == "runpod") return std::make_unique<RunPod>(seed);
  if (name == "vast") return std::make_unique<Vast>(seed);
  return nullptr;
}

}  // namespace skyward::doubles
