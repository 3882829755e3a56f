#include "skyward/call/error.h"

namespace skyward {

namespace {

[[noreturn]] void throw_shortage(const std::string& text, Shortage shortage) {
  switch (shortage.kind) {
    case ShortageKind::capacity:
      throw CapacityError(text, std::move(shortage));
    case ShortageKind::spot_capacity:
      throw SpotCapacityError(text, std::move(shortage));
    case ShortageKind::spot_minimum:
      throw SpotMinimumNotMetError(text, std::move(shortage));
    case ShortageKind::quota:
      throw QuotaExceededError(text, std::move(shortage));
    case ShortageKind::region:
      throw NoAvailableRegionError(text, std::move(shortage));
    case ShortageKind::no_match:
      throw NoMatchingInstanceError(text);
  }
  throw ProvisioningError(text);
}

std::string text_of(const std::vector<ProviderFailure>& errors) {
  std::string text = "none of the providers has machines for this pool:";
  for (const ProviderFailure& failure : errors) {
    text += "\n  " + failure.provider + ": " + failure.error.message;
    if (!failure.error.hint.empty()) text += "\n    hint: " + failure.error.hint;
  }
  return text;
}

}  // namespace

AllProvidersFailedError::AllProvidersFailedError(std::vector<ProviderFailure> errors)
    : ProvisioningError(text_of(errors)), errors_(std::move(errors)) {}

std::string text_of(const Error& error) {
  return error.hint.empty() ? error.message : error.message + "\n  hint: " + error.hint;
}

void throw_error(const Error& error) {
  const std::string text = text_of(error);
  if (std::optional<Shortage> shortage = shortage_of(error)) {
    throw_shortage(text, *std::move(shortage));
  }
  switch (error.kind) {
    case ErrorKind::invalid:
      throw ConfigurationError(text);
    case ErrorKind::denied:
    case ErrorKind::exhausted:
    case ErrorKind::unavailable:
    case ErrorKind::lost:
    case ErrorKind::unsupported:
      throw ProvisioningError(text);
    case ErrorKind::unreachable:
      throw ConnectionError(text);
    case ErrorKind::over_budget:
      throw BudgetExceededError(text);
    case ErrorKind::task:
    case ErrorKind::undelivered:
      throw ExecutionError(text);
    case ErrorKind::cancelled:
      throw CancelledError(text);
    case ErrorKind::timeout:
      throw TimeoutError(text);
  }
  throw SkywardError(text);
}

}  // namespace skyward
