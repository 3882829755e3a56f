#include "skyward/spec/offer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <tuple>

#include "skyward/spec/shortage.h"

namespace skyward {

namespace {

constexpr std::size_t kNamesShown = 8;
constexpr double kMibPerGib = 1024;

constexpr double kUnknownPrice = std::numeric_limits<double>::infinity();

bool has_room(const Offer& offer, const OfferRequest& request) {
  return offer.cpus >= request.cpus &&
         offer.memory_gb * kMibPerGib >= static_cast<double>(request.memory_mb) &&
         (request.architecture.empty() || offer.architecture.empty() ||
          offer.architecture == request.architecture);
}

bool has_model(const Offer& offer, const Accelerator& wanted) {
  return !offer.accelerator.empty() &&
         matches(wanted, offer.accelerator, offer.accelerator_memory_gb, offer.accelerator_form);
}

bool has_devices(const Offer& offer, const Accelerator& wanted) {
  return has_model(offer, wanted) && offer.accelerator_count >= wanted.count;
}

std::string devices_text(const Accelerator& wanted) {
  return fmt::format("{} {}{}", wanted.count, wanted.name,
                     wanted.memory_required ? " of " + wanted.memory : std::string());
}

std::string request_text(const OfferRequest& request) {
  std::string text =
      fmt::format("{:g} CPU{} and {:g} GB of memory", request.cpus, request.cpus == 1 ? "" : "s",
                  std::round(static_cast<double>(request.memory_mb) / kMibPerGib * 100) / 100);
  if (!request.architecture.empty()) text += fmt::format(" of {}", request.architecture);
  if (!request.accelerator) return text;
  return fmt::format("{} with {}", devices_text(*request.accelerator), text);
}

// "an H100", "a T4", "an Inferentia2": the first letter as it is read.
std::string with_article(const std::string& name) {
  const bool spelled = name.size() > 1 && !(name[1] >= 'a' && name[1] <= 'z');
  const bool vowel =
      !name.empty() && std::string_view(spelled ? "AEFHILMNORSX" : "AEIOU").contains(name.front());
  return (vowel ? "an " : "a ") + name;
}

// What is missing, and no more: where no machine has the devices, its processors are no matter.
std::string missing_text(std::span<const Offer> offers, const OfferRequest& request) {
  if (!request.accelerator) return request_text(request);
  const Accelerator& wanted = *request.accelerator;
  const auto model = [&](const Offer& offer) { return has_model(offer, wanted); };
  const auto devices = [&](const Offer& offer) { return has_devices(offer, wanted); };
  if (std::ranges::any_of(offers, devices)) return request_text(request);
  if (std::ranges::any_of(offers, model)) return devices_text(wanted);
  return with_article(wanted.name) + (wanted.memory_required ? " of " + wanted.memory : "");
}

std::string joined(const std::set<std::string>& names) {
  std::vector<std::string> shown(names.begin(), names.end());
  const bool more = shown.size() > kNamesShown;
  if (more) shown.resize(kNamesShown);
  return fmt::format("{}{}", fmt::join(shown, ", "), more ? ", …" : "");
}

// With the form where one was asked for.
std::string offered_name(const Offer& offer, const Accelerator& wanted) {
  const auto name = parse_accelerator_name(wanted.name);
  const bool by_form = !wanted.custom && name && !name->form.empty();
  return offer.accelerator +
         (by_form && !offer.accelerator_form.empty() ? "-" + offer.accelerator_form : "");
}

// What there is that comes near to the request.
std::string nearest(std::span<const Offer> offers, const OfferRequest& request) {
  if (offers.empty()) return "no machines are offered at all";
  if (request.accelerator) {
    const Accelerator& wanted = *request.accelerator;
    std::set<double> counts;
    std::set<std::string> models;
    bool enough_devices = false;
    for (const Offer& offer : offers) {
      if (!offer.accelerator.empty()) models.insert(offered_name(offer, wanted));
      if (has_model(offer, wanted)) counts.insert(offer.accelerator_count);
      enough_devices = enough_devices || has_devices(offer, wanted);
    }
    if (models.empty()) return "no machine with an accelerator is offered";
    if (counts.empty()) return "the machines on offer have " + joined(models);
    if (!enough_devices)
      return fmt::format("{} is offered with {:g} device{}", wanted.name, fmt::join(counts, ", "),
                         counts == std::set<double>{1} ? "" : "s");
  }
  double cpus = 0;
  double memory = 0;
  for (const Offer& offer : offers) {
    if (request.accelerator && !has_devices(offer, *request.accelerator)) continue;
    cpus = std::max<double>(cpus, offer.cpus);
    memory = std::max(memory, offer.memory_gb);
  }
  return fmt::format("the most offered{} is {:g} CPUs and {:g} GB of memory",
                     request.accelerator ? " with it" : "", cpus, memory);
}

}  // namespace

Result<std::vector<std::size_t>> rank_offers(std::span<const Offer> offers,
                                             const OfferRequest& request) {
  std::vector<std::size_t> fitting;
  std::vector<std::size_t> with_device;  // no use was asked for its device
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (!has_room(offers[i], request)) continue;
    if (request.accelerator) {
      if (has_devices(offers[i], *request.accelerator)) fitting.push_back(i);
    } else {
      (offers[i].accelerator.empty() ? fitting : with_device).push_back(i);
    }
  }
  if (fitting.empty()) fitting = std::move(with_device);
  if (fitting.empty()) {
    return std::unexpected(with_shortage(
        {ErrorKind::invalid, fmt::format("no machine has {}", missing_text(offers, request)),
         nearest(offers, request)},
        {.kind = ShortageKind::no_match}));
  }
  const auto order = [&](std::size_t i) {
    const Offer& offer = offers[i];
    const double price = asking_price(offer, request.prefer_spot).value_or(kUnknownPrice);
    return std::tuple(price / offer.baseline, offer.accelerator_count, offer.cpus, offer.memory_gb,
                      std::string_view(offer.instance_type));
  };
  std::ranges::stable_sort(fitting,
                           [&](std::size_t a, std::size_t b) { return order(a) < order(b); });
  return fitting;
}

std::optional<double> asking_price(const Offer& offer, bool prefers_spot) {
  return prefers_spot && offer.price_spot ? offer.price_spot : offer.price_on_demand;
}

}  // namespace skyward
