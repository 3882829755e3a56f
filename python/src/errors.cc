// skyward/call/error.h: each class becomes the class of that name in skyward.exceptions, or in
// skyward.pool.not_opened. Errors of calls do not come through here.

#include <nanobind/stl/vector.h>

#include <exception>
#include <string>

#include "bindings.h"
#include "skyward/call/error.h"

namespace skyward::python {
namespace {

nb::object class_named(const char* name) {
  return nb::module_::import_("skyward.exceptions").attr(name);
}

std::string text_of(const std::exception& error) { return error.what(); }

nb::object make(const char* name, const std::exception& error) {
  return class_named(name)(text_of(error));
}

nb::object make_not_opened(const char* name, const std::exception& error) {
  return nb::module_::import_("skyward.pool.not_opened").attr(name)(text_of(error));
}

nb::object make_capacity(const char* name, const CapacityError& error) {
  return class_named(name)(
      text_of(error), nb::arg("requested") = error.requested(), nb::arg("got") = error.got(),
      nb::arg("region") = error.region(), nb::arg("regions_checked") = error.regions_checked(),
      nb::arg("instance_type") = error.instance_type(), nb::arg("offers") = error.offers());
}

nb::object make_exception(const std::exception_ptr& pointer);

nb::object make_all_failed(const AllProvidersFailedError& error) {
  nb::list errors;
  for (const ProviderFailure& failure : error.errors()) {
    try {
      throw_error(failure.error);
    } catch (...) {
      errors.append(nb::make_tuple(failure.provider, make_exception(std::current_exception())));
    }
  }
  return class_named("AllProvidersFailedError")(nb::tuple(errors), text_of(error));
}

// The Python object for one of the face's errors; passes anything else on.
nb::object make_exception(const std::exception_ptr& pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const NoMatchingInstanceError& error) {
    return make("NoMatchingInstanceError", error);
  } catch (const ConfigurationError& error) {
    return make("ConfigurationError", error);
  } catch (const NotProvisionedError& error) {
    return make("NotProvisionedError", error);
  } catch (const SpotCapacityError& error) {
    return make_capacity("SpotCapacityError", error);
  } catch (const SpotMinimumNotMetError& error) {
    return make_capacity("SpotMinimumNotMetError", error);
  } catch (const QuotaExceededError& error) {
    return make_capacity("QuotaExceededError", error);
  } catch (const NoAvailableRegionError& error) {
    return class_named("NoAvailableRegionError")(error.instance_type(), error.regions_checked(),
                                                 text_of(error));
  } catch (const CapacityError& error) {
    return make_capacity("CapacityError", error);
  } catch (const AllProvidersFailedError& error) {
    return make_all_failed(error);
  } catch (const BudgetExceededError& error) {
    return make_not_opened("BudgetExceededError", error);
  } catch (const ConnectionError& error) {
    return make_not_opened("ConnectionError", error);
  } catch (const ProvisioningError& error) {
    return make("ProvisioningError", error);
  } catch (const MachinesLeftError& error) {
    return make("MachinesLeftError", error);
  } catch (const TimeoutError& error) {
    return make("TimeoutError", error);
  } catch (const CancelledError& error) {
    return make("CancelledError", error);
  } catch (const SerializationError& error) {
    return make("SerializationError", error);
  } catch (const ExecutionError& error) {
    return make("ExecutionError", error);
  } catch (const SkywardError& error) {
    return make("SkywardError", error);
  }
}

void translate(const std::exception_ptr& pointer, void*) {
  const nb::object error = make_exception(pointer);
  PyErr_SetObject(error.type().ptr(), error.ptr());
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace skyward::python
