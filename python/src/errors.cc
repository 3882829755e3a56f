// skyward/error.h: each class becomes the class of that name in skyward.exceptions.

#include <exception>

#include "bindings.h"
#include "skyward/error.h"

namespace skyward::python {
namespace {

void raise(const char* name, const char* text) {
  const nb::object cls = nb::module_::import_("skyward.exceptions").attr(name);
  PyErr_SetString(cls.ptr(), text);
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const ConfigurationError& error) {
    raise("ConfigurationError", error.what());
  } catch (const NotProvisionedError& error) {
    raise("NotProvisionedError", error.what());
  } catch (const ConnectionError& error) {
    raise("ConnectionError", error.what());
  } catch (const ProvisioningError& error) {
    raise("ProvisioningError", error.what());
  } catch (const TimeoutError& error) {
    raise("TimeoutError", error.what());
  } catch (const CancelledError& error) {
    raise("CancelledError", error.what());
  } catch (const SerializationError& error) {
    raise("SerializationError", error.what());
  } catch (const ExecutionError& error) {
    raise("ExecutionError", error.what());
  } catch (const SkywardError& error) {
    raise("SkywardError", error.what());
  }
}

}  // namespace

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace skyward::python
