// skyward/display/display.h.

#include "skyward/display/display.h"

#include <nanobind/stl/optional.h>

#include <optional>
#include <string>
#include <utility>

#include "bindings.h"
#include "event.h"

namespace skyward::python {
namespace {

// Python's spelling of the fields of an event.
constexpr auto kRenderSignature =
    "def render(self, name: str, fields: tuple[object, ...], wall_us: int) -> str";

DisplayOptions options(int width, bool color, bool ascii) {
  return {.width = width, .color = color, .ascii = ascii};
}

using Variable = std::optional<std::string>;

}  // namespace

void bind_display(nb::module_& module) {
  nb::class_<Terminal>(module, "Terminal", "Where text goes to, and what the environment says.")
      .def(
          "__init__",
          [](Terminal* self, bool is_tty, Variable no_color, Variable force_color, Variable term,
             Variable lc_all, Variable lc_ctype, Variable lang) {
            new (self) Terminal{.is_tty = is_tty,
                                .no_color = std::move(no_color),
                                .force_color = std::move(force_color),
                                .term = std::move(term),
                                .lc_all = std::move(lc_all),
                                .lc_ctype = std::move(lc_ctype),
                                .lang = std::move(lang)};
          },
          nb::arg("is_tty"), nb::arg("no_color").none() = nb::none(),
          nb::arg("force_color").none() = nb::none(), nb::arg("term").none() = nb::none(),
          nb::arg("lc_all").none() = nb::none(), nb::arg("lc_ctype").none() = nb::none(),
          nb::arg("lang").none() = nb::none())
      .def("wants_color", &wants_color)
      .def("can_redraw", &can_redraw)
      .def("wants_ascii", &wants_ascii);

  nb::class_<LogDisplay>(module, "LogDisplay", "Events as lines.")
      .def(
          "__init__",
          [](LogDisplay* self, int width, bool color, bool ascii) {
            new (self) LogDisplay(options(width, color, ascii));
          },
          nb::arg("width"), nb::arg("color"), nb::arg("ascii"))
      .def(
          "render",
          [](LogDisplay& self, const std::string& name, const nb::tuple& fields,
             std::int64_t wall_us) { return self.render(from_python(name, fields), wall_us); },
          nb::arg("name"), nb::arg("fields"), nb::arg("wall_us"), nb::sig(kRenderSignature))
      .def("tick", &LogDisplay::tick, nb::arg("wall_us"))
      .def("set_width", &LogDisplay::set_width, nb::arg("columns"))
      .def("set_utc_offset", &LogDisplay::set_utc_offset, nb::arg("seconds"))
      .def("set_label", &LogDisplay::set_label, nb::arg("label"))
      .def("set_ended_by", &LogDisplay::set_ended_by, nb::arg("what"))
      .def_prop_ro_static("frame_seconds", [](nb::handle) {
        return static_cast<double>(LogDisplay::kTickMicroseconds) * 1e-6;
      });

  nb::class_<SpinnerDisplay>(module, "SpinnerDisplay", "A line that says how things stand.")
      .def(
          "__init__",
          [](SpinnerDisplay* self, int width, bool color, bool ascii) {
            new (self) SpinnerDisplay(options(width, color, ascii));
          },
          nb::arg("width"), nb::arg("color"), nb::arg("ascii"))
      .def(
          "render",
          [](SpinnerDisplay& self, const std::string& name, const nb::tuple& fields,
             std::int64_t wall_us) { return self.render(from_python(name, fields), wall_us); },
          nb::arg("name"), nb::arg("fields"), nb::arg("wall_us"), nb::sig(kRenderSignature))
      .def("tick", &SpinnerDisplay::tick, nb::arg("wall_us"))
      .def("set_width", &SpinnerDisplay::set_width, nb::arg("columns"))
      .def("set_label", &SpinnerDisplay::set_label, nb::arg("label"))
      .def("set_ended_by", &SpinnerDisplay::set_ended_by, nb::arg("what"))
      .def("set_tasks", &SpinnerDisplay::set_tasks, nb::arg("done"), nb::arg("running"),
           nb::arg("waiting"))
      .def_prop_ro_static("frame_seconds", [](nb::handle) {
        return static_cast<double>(SpinnerDisplay::kFrameMicroseconds) * 1e-6;
      });
}

}  // namespace skyward::python
