// skyward/spec/accelerator.h.

#include "skyward/spec/accelerator.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <map>

#include "bindings.h"
#include "skyward/call/error.h"

namespace skyward::python {

namespace {

// None, a profile, or a list of them.
using PythonMig = std::optional<std::variant<std::string, std::vector<std::string>>>;

Mig parse_mig(const PythonMig& mig) {
  if (!mig) return {};
  return std::visit([](const auto& value) -> Mig { return value; }, *mig);
}

PythonMig python_mig(const Mig& mig) {
  if (const auto* one = std::get_if<std::string>(&mig)) return *one;
  if (const auto* several = std::get_if<std::vector<std::string>>(&mig)) return *several;
  return std::nullopt;
}

// What the catalogue knows of it; None for what it does not.
std::map<std::string, nb::object> facts(const Accelerator& accelerator) {
  constexpr std::array kVendors = {"nvidia", "amd", "habana", "aws", "google"};
  std::map<std::string, nb::object> result = {{"vendor", nb::none()},
                                              {"architecture", nb::none()},
                                              {"form_factor", nb::none()},
                                              {"cuda", nb::none()}};
  const auto name = parse_accelerator_name(accelerator.name);
  if (name && !accelerator.custom) {
    result["vendor"] = nb::cast(kVendors.at(static_cast<std::size_t>(name->model->vendor)));
    result["architecture"] = nb::cast(name->model->architecture);
    if (!name->form.empty()) result["form_factor"] = nb::cast(name->form);
  }
  result["memory_gb"] = nb::cast(device_memory_gb(accelerator));
  const auto [least, largest] = cuda_range(accelerator);
  if (!least.empty() || !largest.empty()) {
    result["cuda"] = nb::cast(std::map<std::string, std::string>{{"min", least}, {"max", largest}});
  }
  return result;
}

}  // namespace

void bind_accelerator(nb::module_& module) {
  nb::class_<Accelerator>(module, "Accelerator")
      .def(nb::init<>())
      .def_rw("name", &Accelerator::name)
      .def_rw("memory", &Accelerator::memory)
      .def_rw("count", &Accelerator::count)
      .def_prop_rw(
          "mig", [](const Accelerator& value) { return python_mig(value.mig); },
          [](Accelerator& value, const PythonMig& mig) { value.mig = parse_mig(mig); },
          nb::for_setter(nb::arg("mig").none()))
      .def_rw("memory_required", &Accelerator::memory_required)
      .def_rw("custom", &Accelerator::custom)
      .def_rw("cuda_min", &Accelerator::cuda_min)
      .def_rw("cuda_max", &Accelerator::cuda_max)
      .def(
          "checked", [](const Accelerator& value) { return value_or_throw(checked(value)); },
          "In the catalogue's spelling. Raises ConfigurationError for what does not exist.")
      .def("workers_per_node", [](const Accelerator& value) { return workers_per_node(value); })
      .def("facts", &facts);

  module.def(
      "catalogue_accelerator",
      [](const std::string& name, std::optional<double> count, const std::string& memory,
         const std::string& form_factor, const PythonMig& mig) {
        return value_or_throw(catalogue_accelerator(
            name,
            {.count = count, .memory = memory, .form_factor = form_factor, .mig = parse_mig(mig)}));
      },
      nb::arg("name"), nb::arg("count").none(), nb::arg("memory"), nb::arg("form_factor"),
      nb::arg("mig").none(), "A model with the memory that the catalogue gives it.");
  module.def("accelerator_names", [] {
    std::vector<std::string> names;
    for (const AcceleratorModel& model : accelerator_catalogue()) names.emplace_back(model.name);
    return names;
  });
  module.def("is_nvidia", &is_nvidia, nb::arg("name"));
  module.def("is_trainium", &is_trainium, nb::arg("name"));
  module.def("is_gpu", &is_gpu, nb::arg("name"));
}

}  // namespace skyward::python
