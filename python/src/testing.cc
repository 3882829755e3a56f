// skyward/testing.h.

#include "skyward/testing.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "bindings.h"
#include "skyward/base/forever.h"
#include "skyward/call/error.h"

namespace skyward::python {

namespace {

using testing::FakeCloud;
using testing::FakeCloudOptions;

// As people give it.
Duration seconds_of(double value) {
  if (std::abs(value) <= seconds(kLongestWait)) return from_seconds(value);
  throw ConfigurationError(
      fmt::format("FakeCloud: {} s: expected a finite time, of a century at most", value));
}

// A field that holds a time, in seconds.
template <Duration FakeCloudOptions::* field>
void def_seconds(nb::class_<FakeCloudOptions>& options, const char* name) {
  options.def_prop_rw(
      name, [](const FakeCloudOptions& self) { return seconds(self.*field); },
      [](FakeCloudOptions& self, double value) { self.*field = seconds_of(value); });
}

std::optional<Duration> duration_or_none(std::optional<double> value) {
  return value ? std::optional(seconds_of(*value)) : std::nullopt;
}

void bind_options(nb::module_& module) {
  nb::class_<FakeCloudOptions> options(module, "FakeCloudOptions");
  options.def(nb::init<>())
      .def_rw("prices", &FakeCloudOptions::prices)
      .def_rw("spot_prices", &FakeCloudOptions::spot_prices)
      .def_rw("price_volatility", &FakeCloudOptions::price_volatility)
      .def_rw("capacity", &FakeCloudOptions::capacity)
      .def_rw("spot_capacity", &FakeCloudOptions::spot_capacity)
      .def_rw("quota", &FakeCloudOptions::quota, nb::arg().none())
      .def_rw("preemptions", &FakeCloudOptions::preemptions)
      .def_rw("requests_per_second", &FakeCloudOptions::requests_per_second)
      .def_rw("lost_replies", &FakeCloudOptions::lost_replies)
      .def_rw("server_errors", &FakeCloudOptions::server_errors)
      .def_rw("failed_boots", &FakeCloudOptions::failed_boots)
      .def_rw("leaked_disks", &FakeCloudOptions::leaked_disks)
      .def_rw("seed", &FakeCloudOptions::seed)
      .def_rw("speed", &FakeCloudOptions::speed)
      .def_prop_rw(
          "storms",
          [](const FakeCloudOptions& self) {
            std::vector<double> out;
            for (const Duration storm : self.storms) out.push_back(seconds(storm));
            return out;
          },
          [](FakeCloudOptions& self, const std::vector<double>& values) {
            self.storms.clear();
            for (const double value : values) self.storms.push_back(seconds_of(value));
          });
  def_seconds<&FakeCloudOptions::preempt_after>(options, "preempt_after");
  def_seconds<&FakeCloudOptions::notice>(options, "notice");
  def_seconds<&FakeCloudOptions::launch_delay>(options, "launch_delay");
  def_seconds<&FakeCloudOptions::listing_lag>(options, "listing_lag");
}

}  // namespace

void bind_testing(nb::module_& module) {
  using release = nb::call_guard<GilReleased>;
  bind_options(module);
  nb::class_<FakeCloud>(module, "FakeCloud")
      .def(nb::init<const FakeCloudOptions&>(), nb::arg("options"), release())
      .def("settings", [](const FakeCloud& self) { return ProviderSpec(self).settings; })
      .def(
          "advance", [](FakeCloud& self, double value) { self.advance(seconds_of(value)); },
          nb::arg("seconds"), release())
      .def(
          "elapsed", [](const FakeCloud& self) { return seconds(self.elapsed()); }, release())
      .def(
          "preempt",
          [](FakeCloud& self, int node, std::optional<double> notice) {
            self.preempt(node, duration_or_none(notice));
          },
          nb::arg("node"), nb::arg("notice").none(), release())
      .def(
          "storm",
          [](FakeCloud& self, std::optional<double> notice) {
            return self.storm(duration_or_none(notice));
          },
          nb::arg("notice").none(), release())
      .def("set_spot_price", &FakeCloud::set_spot_price, nb::arg("name"), nb::arg("price"),
           release())
      .def("set_capacity", &FakeCloud::set_capacity, nb::arg("name"), nb::arg("machines"),
           release())
      .def("bill", &FakeCloud::bill, release())
      .def("running", &FakeCloud::running, release())
      .def("launched", &FakeCloud::launched, release())
      .def("preempted", &FakeCloud::preempted, release())
      .def("requests", &FakeCloud::requests, release())
      .def("left", &FakeCloud::left, release())
      .def("violations", &FakeCloud::violations, release());
}

}  // namespace skyward::python
