// The module itself.

#include "bindings.h"

namespace skyward::python {

bool receives_signals() {
  const nb::module_ threading = nb::module_::import_("threading");
  return threading.attr("get_ident")().equal(threading.attr("main_thread")().attr("ident"));
}

}  // namespace skyward::python

NB_MODULE(_core, module) {
  using namespace skyward::python;
  // What a user's globals or an unfinished thread still hold at the interpreter's end is no news.
  nanobind::set_leak_warnings(false);
  module.doc() = "The engine of skyward; use the package `skyward`, which stands on it.";
  module.attr("__version__") = SKYWARD_VERSION;
  bind_gil(module);
  bind_errors(module);
  bind_accelerator(module);
  bind_machine(module);
  bind_spec(module);
  bind_events(module);
  bind_payload(module);
  bind_pool(module);
  bind_display(module);
  bind_testing(module);
}
