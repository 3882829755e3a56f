#pragma once

// What the face throws. Each class says what the caller may do about it; what() says what failed,
// where, why and what to do next.

#include <stdexcept>
#include <string>
#include <utility>

#include "skyward/base/error.h"

namespace skyward {

class SkywardError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ConfigurationError : public SkywardError {  // the request is wrong
 public:
  using SkywardError::SkywardError;
};
class NotProvisionedError : public SkywardError {  // the pool is not open
 public:
  using SkywardError::SkywardError;
};
class ProvisioningError : public SkywardError {  // machines could not be had or prepared
 public:
  using SkywardError::SkywardError;
};
// The way to a machine is broken: it could not be reached while the pool opened, or not again.
class ConnectionError : public ProvisioningError {
 public:
  using ProvisioningError::ProvisioningError;
};
class TimeoutError : public SkywardError {
 public:
  using SkywardError::SkywardError;
};
class CancelledError : public SkywardError {
 public:
  using SkywardError::SkywardError;
};
class SerializationError : public SkywardError {
 public:
  using SkywardError::SkywardError;
};
// A task failed: its function threw, or its worker died.
class ExecutionError : public SkywardError {
 public:
  using SkywardError::SkywardError;
};

// Throws the class that fits the kind; message and hint become what().
[[noreturn]] void throw_error(const Error& error);

}  // namespace skyward
