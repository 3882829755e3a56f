#include "skyward/call/thrown_type.h"

#include <map>
#include <mutex>

namespace skyward {
namespace {

// As with functions: filled before main(), never destroyed.
struct Registry {
  std::mutex mutex;
  std::map<std::string, const RegisteredException*, std::less<>> types;
};

Registry& exceptions() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

RegisteredException::RegisteredException(const std::type_info& type, Write writer, Make maker)
    : type_(type), write_(writer), make_(maker) {
  Registry& all = exceptions();
  const std::lock_guard lock(all.mutex);
  all.types.emplace(type.name(), this);
}

const RegisteredException* find_exception(std::string_view symbol) {
  Registry& all = exceptions();
  const std::lock_guard lock(all.mutex);
  const auto found = all.types.find(symbol);
  return found == all.types.end() ? nullptr : found->second;
}

}  // namespace skyward
