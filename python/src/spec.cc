// skyward/spec/image.h and skyward/spec/pool_spec.h.

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "bindings.h"
#include "skyward/call/error.h"
#include "skyward/spec/image.h"
#include "skyward/spec/pool_spec.h"
#include "skyward/spec/secret_files.h"

namespace skyward::python {

namespace {

void bind_image(nb::module_& module) {
  nb::class_<PipIndex>(module, "PipIndex")
      .def(nb::init<std::string, std::vector<std::string>>(), nb::arg("url"), nb::arg("packages"));

  nb::class_<Image>(module, "Image")
      .def(nb::init<>())
      .def_rw("python", &Image::python)
      .def_rw("pip", &Image::pip)
      .def_rw("pip_extra_index_url", &Image::pip_extra_index_url, nb::arg().none())
      .def_rw("pip_indexes", &Image::pip_indexes)
      .def_rw("apt", &Image::apt)
      .def_rw("env", &Image::env)
      .def("content_hash", &Image::content_hash)
      .def(
          "bootstrap",
          [](const Image& image, int ttl) {
            if (const Status status = validate(image); !status) throw_error(status.error());
            return image.bootstrap(ttl);
          },
          nb::arg("ttl"));
}

void bind_provider(nb::module_& module) {
  nb::class_<ProviderSpec>(module, "ProviderSpec")
      .def(nb::init<>())
      .def_rw("name", &ProviderSpec::name)
      .def_rw("settings", &ProviderSpec::settings);

  nb::class_<WorkerRuntime>(module, "WorkerRuntime")
      .def(nb::init<>())
      .def_rw("command", &WorkerRuntime::command)
      .def_rw("python", &WorkerRuntime::python)
      .def_rw("environment", &WorkerRuntime::environment)
      .def_rw("archives", &WorkerRuntime::archives)
      .def_rw("uv", &WorkerRuntime::uv);

  nb::class_<ProviderChoice>(module, "ProviderChoice")
      .def(nb::init<>())
      .def_rw("provider", &ProviderChoice::provider)
      .def_rw("runtime", &ProviderChoice::runtime);
}

}  // namespace

void bind_spec(nb::module_& module) {
  bind_image(module);
  bind_provider(module);
  nb::class_<PoolSpec>(module, "PoolSpec")
      .def(nb::init<>())
      .def_rw("provider", &PoolSpec::provider)
      .def_rw("other_providers", &PoolSpec::other_providers)
      .def_prop_rw(
          "selection", [](const PoolSpec& spec) { return std::string(to_string(spec.selection)); },
          [](PoolSpec& spec, const std::string& text) {
            const auto selection = parse_selection(text);
            if (!selection) throw_error(selection.error());
            spec.selection = *selection;
          },
          "Which provider is tried first: \"first\", \"cheapest\" or \"available\".")
      .def_rw("image", &PoolSpec::image)
      .def_rw("nodes", &PoolSpec::nodes)
      .def_rw("accelerator", &PoolSpec::accelerator, nb::arg().none())
      .def_rw("cpus", &PoolSpec::cpus)
      .def_rw("memory_mb", &PoolSpec::memory_mb)
      .def_rw("architecture", &PoolSpec::architecture)
      .def_rw("machine", &PoolSpec::machine)
      .def_rw("spot", &PoolSpec::spot)
      .def_rw("max_hourly_cost", &PoolSpec::max_hourly_cost, nb::arg().none())
      .def_rw("budget", &PoolSpec::budget, nb::arg().none())
      .def_rw("volumes", &PoolSpec::volumes)
      .def_rw("concurrency", &PoolSpec::concurrency)
      .def_prop_rw(
          "timeout", [](const PoolSpec& spec) { return seconds(spec.timeout); },
          [](PoolSpec& spec, double value) { spec.timeout = from_seconds(value); },
          "Lifetime of the machines, in seconds.")
      .def_prop_rw(
          "heartbeat_timeout", [](const PoolSpec& spec) { return seconds(spec.heartbeat_timeout); },
          [](PoolSpec& spec, double value) { spec.heartbeat_timeout = from_seconds(value); },
          "Silence of a node on another machine, in seconds, before Skyward reconnects to it.")
      .def_prop_rw(
          "reconnect_timeout",
          [](const PoolSpec& spec) {
            const auto& value = spec.reconnect_timeout;
            return value ? std::optional(seconds(*value)) : std::nullopt;
          },
          [](PoolSpec& spec, std::optional<double> value) {
            spec.reconnect_timeout = value ? std::optional(from_seconds(*value)) : std::nullopt;
          },
          nb::for_setter(nb::arg("value").none()),
          "Time for reaching it again, in seconds, before it is lost; None: as suits the provider.")
      .def_prop_rw(
          "lease", [](const PoolSpec& spec) { return seconds(spec.lease); },
          [](PoolSpec& spec, double value) { spec.lease = from_seconds(value); },
          "Silence of this program, in seconds, after which a machine ends itself.")
      .def_rw("env", &PoolSpec::env)
      .def_rw("collect_metrics", &PoolSpec::collect_metrics)
      .def_rw("collect_tasks", &PoolSpec::collect_tasks)
      .def_rw("runtime", &PoolSpec::runtime)
      .def_rw("agent_path", &PoolSpec::agent_path)
      .def_rw("other_agents", &PoolSpec::other_agents)
      .def_rw("record_root", &PoolSpec::record_root);

  module.def(
      "validate",
      [](const PoolSpec& spec) {
        if (const Status status = validate(spec); !status) throw_error(status.error());
      },
      nb::arg("spec"), "Raises ConfigurationError for what no provider could fulfil.");
  module.def("may_be_secret", &may_be_secret, nb::arg("path"),
             "Whether a file of this name or path may hold a secret.");
}

}  // namespace skyward::python
