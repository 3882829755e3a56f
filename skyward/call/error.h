#pragma once

// What the face throws. Each class says what the caller may do about it; what() says what failed,
// where, why and what to do next.

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/spec/shortage.h"

namespace skyward {

class SkywardError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ConfigurationError : public SkywardError {  // the request is wrong
 public:
  using SkywardError::SkywardError;
};
class NoMatchingInstanceError
    : public ConfigurationError {  // no machine type has what is asked for
 public:
  using ConfigurationError::ConfigurationError;
};
class NotProvisionedError : public SkywardError {  // the pool is not open
 public:
  using SkywardError::SkywardError;
};
class ProvisioningError : public SkywardError {  // machines could not be provisioned or set up
 public:
  using SkywardError::SkywardError;
};
// A machine could not be reached while the pool opened.
class ConnectionError : public ProvisioningError {
 public:
  using ProvisioningError::ProvisioningError;
};

// Fewer machines were available than requested; all of them were released.
class CapacityError : public ProvisioningError {
 public:
  CapacityError(const std::string& what, Shortage shortage)
      : ProvisioningError(what), shortage_(std::move(shortage)) {}

  int requested() const { return shortage_.requested; }
  int got() const { return shortage_.got; }  // the most that ran at the same time
  const std::string& region() const { return shortage_.region; }
  const std::vector<std::string>& regions_checked() const { return shortage_.regions; }
  const std::string& instance_type() const { return shortage_.instance_type; }
  // The closest offers, in words: type, place, price on demand.
  const std::vector<std::string>& offers() const { return shortage_.offers; }

 private:
  Shortage shortage_;
};
class SpotCapacityError : public CapacityError {  // not as spot machines, after all retries
 public:
  using CapacityError::CapacityError;
};
class SpotMinimumNotMetError
    : public CapacityError {  // fewer than the minimum share of spot machines
 public:
  using CapacityError::CapacityError;
};
class QuotaExceededError : public CapacityError {  // the account's quota is too small
 public:
  using CapacityError::CapacityError;
};
class NoAvailableRegionError : public ProvisioningError {  // no region sells the type
 public:
  NoAvailableRegionError(const std::string& what, Shortage shortage)
      : ProvisioningError(what), shortage_(std::move(shortage)) {}

  const std::string& instance_type() const { return shortage_.instance_type; }
  const std::vector<std::string>& regions_checked() const { return shortage_.regions; }

 private:
  Shortage shortage_;
};

// One of several providers, and why the pool did not open there.
struct ProviderFailure {
  std::string provider;  // as people call it
  Error error;
};
// No provider of the list has machines for the pool.
class AllProvidersFailedError : public ProvisioningError {
 public:
  explicit AllProvidersFailedError(std::vector<ProviderFailure> errors);
  const std::vector<ProviderFailure>& errors() const { return errors_; }  // in the order of trying

 private:
  std::vector<ProviderFailure> errors_;
};

// The budget is spent, or does not suffice to open the pool.
class BudgetExceededError : public SkywardError {
 public:
  using SkywardError::SkywardError;
};
// The pool is closed, but some of its machines are not known to have terminated and may still cost
// money.
class MachinesLeftError : public SkywardError {
 public:
  using SkywardError::SkywardError;
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

// The task's machine was lost, and so was the machine of every retry.
class InstanceTerminatedError : public ExecutionError {
 public:
  using ExecutionError::ExecutionError;
};
// The task's last machine was lost after its cloud had announced that it would preempt it, or no
// machine came in its place. Where there is no such notice, it is the base class.
class PreemptionError : public InstanceTerminatedError {
 public:
  using InstanceTerminatedError::InstanceTerminatedError;
};
// The connection to the task's machine broke for good, and so did that of every retry. The machine
// may still be running.
class ConnectionLostError : public ExecutionError {
 public:
  using ExecutionError::ExecutionError;
};

// Message and hint, as in what().
std::string text_of(const Error& error);

// Throws the class for the error's kind, with the shortage if there is one; message and hint become
// what().
[[noreturn]] void throw_error(const Error& error);

}  // namespace skyward
