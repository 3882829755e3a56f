#include "skyward/provider/container/wishes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "skyward/provider/choosing.h"
#include "skyward/provider/keeping/standard_image.h"
#include "skyward/provider/ssh/command.h"

namespace skyward::provider::container {

namespace {

constexpr const char* kType = "container";
// podman may know no registry for names without one.
constexpr const char* kRegistry = "docker.io/library/";

// Nothing of the runtime's own options, and no second word.
bool is_word(std::string_view text) {
  return !text.starts_with('-') && std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
  });
}

bool is_with(const Offer& offer, const HostGpu& gpu) {
  return offer.accelerator == accelerator_in(gpu.name) &&
         offer.accelerator_form == form_factor_in(gpu.name) &&
         offer.accelerator_memory_gb == gpu.memory_gb;
}

// The host's GPUs that the offer is with.
Words gpus_of(const EngineHost& host, const Offer& offer) {
  Words out;
  for (const HostGpu& gpu : host.gpus) {
    if (is_with(offer, gpu)) out.push_back(gpu.index);
  }
  return out.size() == host.gpus.size() ? Words{kAllGpus} : out;
}

}  // namespace

Result<Wishes> read_wishes(const ProviderSpec& spec) {
  Wishes out{.image = spec.setting("image"), .network = spec.setting("network")};
  if (!is_word(out.image)) {
    return fail(ErrorKind::invalid,
                fmt::format("Containers: image=\"{}\" is not an image", out.image),
                "name a container image, such as \"docker.io/library/python:3.12-slim\"");
  }
  if (!is_word(out.network)) {
    return fail(ErrorKind::invalid,
                fmt::format("Containers: network=\"{}\" is not a network", out.network),
                "name one that 'podman network ls' or 'docker network ls' shows, or \"host\"");
  }
  return out;
}

bool is_named_network(std::string_view network) {
  constexpr std::string_view kModes[] = {"", "host", "none", "bridge", "private"};
  if (std::ranges::find(kModes, network) != std::end(kModes)) return false;
  const std::string_view kind = network.substr(0, network.find(':'));
  return kind != "slirp4netns" && kind != "pasta" && !network.contains(':');
}

std::vector<Offer> offers_of(const EngineHost& host) {
  const Offer bare{.instance_type = kType,
                   .region = host.name,
                   .cpus = host.cpus,
                   .memory_gb = static_cast<double>(host.memory_mb) / 1024,
                   .architecture = host.architecture,
                   .price_on_demand = 0.0,
                   .billing_increment_minutes = 0};
  std::vector<Offer> out;
  for (const HostGpu& gpu : host.gpus) {
    auto at = std::ranges::find_if(out, [&](const Offer& one) { return is_with(one, gpu); });
    if (at == out.end()) {
      at = out.insert(at, bare);
      at->accelerator = accelerator_in(gpu.name);
      at->accelerator_form = form_factor_in(gpu.name);
      at->accelerator_memory_gb = gpu.memory_gb;
    }
    at->accelerator_count += 1;
  }
  if (out.empty()) out.push_back(bare);
  return out;
}

// Processors are shared by time; memory is not.
Result<std::vector<Offer>> fitting_host(const EngineHost& host, const PoolSpec& spec) {
  std::vector<Offer> possible;
  if (spec.machine.empty() || spec.machine == kType) possible = offers_of(host);
  auto fitting = fitting_offers(possible, spec);
  if (!fitting) {
    Error why = std::move(fitting.error());
    why.message = fmt::format("Containers: {}: {}", host.name, why.message);
    if (spec.accelerator && host.gpus.empty()) {
      why.hint =
          "'nvidia-smi' must list the GPUs; it runs on this computer, unless host= names another "
          "one";
    }
    return std::unexpected(std::move(why));
  }
  const int workers = workers_per_node(spec);
  const std::int64_t memory_mb = spec.memory_mb * workers;
  if (memory_mb * spec.nodes > host.memory_mb) {
    return fail(ErrorKind::invalid,
                fmt::format("Containers: nodes={} of {:.1f} GiB each, but {} has {:.1f} GiB",
                            spec.nodes, static_cast<double>(memory_mb) / 1024, host.name,
                            static_cast<double>(host.memory_mb) / 1024),
                "ask for fewer nodes, or for less in each: memory_gb=");
  }
  if (!spec.accelerator) fitting->resize(1);  // they differ in their GPUs alone
  for (Offer& offer : *fitting) {
    if (spec.cpus > 0) offer.cpus = static_cast<int>(std::ceil(spec.cpus * workers));
    if (memory_mb > 0) offer.memory_gb = static_cast<double>(memory_mb) / 1024;
    if (spec.accelerator) continue;
    offer.accelerator.clear();
    offer.accelerator_count = 0;
  }
  return fitting;
}

ContainerRequest request_of(const EngineHost& host, const Wishes& wishes, const PoolSpec& spec,
                            const Offer& offer) {
  const int workers = workers_per_node(spec);
  const std::int64_t memory_mb = spec.memory_mb * workers;
  return {.image = wishes.image.empty() ? kRegistry + standard_image(spec) : wishes.image,
          .network = wishes.network,
          .cpus = spec.cpus * workers,
          .memory_mb = memory_mb,
          .shared_mb = memory_mb > 0 ? memory_mb : host.memory_mb / 2,
          .gpus = spec.accelerator ? gpus_of(host, offer) : Words()};
}

}  // namespace skyward::provider::container
