// skyward/display.h.

#include "bindings.h"

namespace skyward::python {

void bind_display(nb::module_&) {}

}  // namespace skyward::python
