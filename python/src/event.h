#pragma once

// Events as (class name, fields): the package makes its own frozen classes of them, and the
// displays take those back.

#include <string>

#include "bindings.h"
#include "skyward/spec/event.h"

namespace skyward::python {

// (name, (field, …)), fields in declaration order.
nb::tuple to_python(const Event& event);
// The way back. Throws nb::value_error on an unknown name, nb::cast_error on fields that do not
// fit.
Event from_python(const std::string& name, const nb::tuple& fields);

}  // namespace skyward::python
