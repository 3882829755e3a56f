// skyward/spec/spot.h, volume.h, offer.h, memory_size.h and provider_settings.h: what machines are
// asked for, and how one is chosen.

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>

#include "bindings.h"
#include "skyward/call/error.h"
#include "skyward/pool/providers.h"
#include "skyward/spec/memory_size.h"
#include "skyward/spec/offer.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/spec/spot.h"
#include "skyward/spec/volume.h"

namespace skyward::python {

namespace {

constexpr std::array<std::string_view, 5> kSpotKinds = {"always", "if-available", "never",
                                                        "percent", "cheapest"};

void throw_unless(const Status& status) {
  if (!status) throw_error(status.error());
}

void set_kind(Spot& spot, std::string_view kind) {
  const auto found = std::ranges::find(kSpotKinds, kind);
  if (found == kSpotKinds.end()) throw nb::value_error("no such kind of spot strategy");
  spot.kind = static_cast<SpotKind>(found - kSpotKinds.begin());
}

void bind_spot(nb::module_& module) {
  nb::class_<Spot>(module, "Spot")
      .def(nb::init<>())
      .def_prop_rw(
          "kind",
          [](const Spot& spot) { return kSpotKinds.at(static_cast<std::size_t>(spot.kind)); },
          &set_kind)
      .def_rw("percentage", &Spot::percentage)
      .def_rw("retries", &Spot::retries)
      .def_prop_rw(
          "interval", [](const Spot& spot) { return seconds(spot.interval); },
          [](Spot& spot, double value) { spot.interval = from_seconds(value); }, "In seconds.");
  module.def(
      "parse_spot", [](std::string_view text) { return value_or_throw(parse_spot(text)); },
      nb::arg("text"));
  module.def(
      "validate_spot", [](const Spot& spot) { throw_unless(validate(spot)); }, nb::arg("spot"));
}

void bind_volume(nb::module_& module) {
  nb::class_<Volume>(module, "Volume")
      .def(nb::init<>())
      .def_rw("mount_path", &Volume::mount_path)
      .def_rw("bucket", &Volume::bucket)
      .def_rw("prefix", &Volume::prefix)
      .def_rw("read_only", &Volume::read_only)
      .def_rw("install_commands", &Volume::install_commands)
      .def_rw("mount_commands", &Volume::mount_commands);
  module.def(
      "parse_volume",
      [](std::string mount_path, std::string_view uri) {
        return value_or_throw(parse_volume(std::move(mount_path), uri));
      },
      nb::arg("mount_path"), nb::arg("uri"));
  module.def(
      "validate_volumes",
      [](const std::vector<Volume>& volumes) { throw_unless(validate(volumes)); },
      nb::arg("volumes"));
}

void bind_offer(nb::module_& module) {
  nb::class_<Offer>(module, "Offer")
      .def(nb::init<>())
      .def_rw("instance_type", &Offer::instance_type)
      .def_rw("region", &Offer::region)
      .def_rw("cpus", &Offer::cpus)
      .def_rw("memory_gb", &Offer::memory_gb)
      .def_rw("accelerator", &Offer::accelerator)
      .def_rw("accelerator_count", &Offer::accelerator_count)
      .def_rw("accelerator_memory_gb", &Offer::accelerator_memory_gb)
      .def_rw("architecture", &Offer::architecture)
      .def_rw("price_on_demand", &Offer::price_on_demand, nb::arg().none())
      .def_rw("price_spot", &Offer::price_spot, nb::arg().none())
      .def_rw("billing_increment_minutes", &Offer::billing_increment_minutes);
  nb::class_<OfferRequest>(module, "OfferRequest")
      .def(nb::init<>())
      .def_rw("accelerator", &OfferRequest::accelerator, nb::arg().none())
      .def_rw("cpus", &OfferRequest::cpus)
      .def_rw("memory_mb", &OfferRequest::memory_mb)
      .def_rw("architecture", &OfferRequest::architecture)
      .def_rw("prefer_spot", &OfferRequest::prefer_spot);
  module.def(
      "rank_offers",
      [](const std::vector<Offer>& offers, const OfferRequest& request) {
        return value_or_throw(rank_offers(offers, request));
      },
      nb::arg("offers"), nb::arg("request"), "Positions of those that fit, the best first.");
  module.def(
      "available_instances",
      [](const ProviderSpec& provider) {
        const GilReleased released;
        return available_instances(provider, [] {
          const GilAcquired acquired;
          if (PyErr_CheckSignals() != 0) throw nb::python_error();
        });
      },
      nb::arg("provider"), "Everything that it sells.");
}

}  // namespace

void bind_machine(nb::module_& module) {
  bind_spot(module);
  bind_volume(module);
  bind_offer(module);
  module.def(
      "parse_memory_mb",
      [](std::string_view text) { return value_or_throw(parse_memory_mb(text)); }, nb::arg("text"),
      "In MiB. Raises ConfigurationError.");
  module.def(
      "standard_settings",
      [](std::string_view provider) {
        std::map<std::string, std::string> settings;
        const ProviderSheet* sheet = find_provider_sheet(provider);
        if (sheet == nullptr) throw nb::key_error("no such provider");
        for (const ProviderSetting& setting : sheet->settings) {
          if (!setting.standard.empty()) settings.emplace(setting.name, setting.standard);
        }
        return settings;
      },
      nb::arg("provider"), "What is said when nothing is given.");
  module.def(
      "provider_to_take",
      [](const std::string& named) {
        return provider_to_take(named.empty() ? std::nullopt
                                              : std::optional(ProviderSpec{.name = named}))
            .name;
      },
      nb::arg("named"),
      "The name of the provider that a pool gets which names this one, or none: ''.");
  module.def(
      "validate_settings",
      [](std::string_view provider, const std::map<std::string, std::string>& settings) {
        throw_unless(validate_settings(provider, settings));
      },
      nb::arg("provider"), nb::arg("settings"));
}

}  // namespace skyward::python
