#include "skyward/call/thrown_type.h"

#include <map>
#include <mutex>
#include <typeindex>

namespace skyward {
namespace {

// As with functions: filled before main(), never destroyed.
struct Registry {
  std::mutex mutex;
  std::map<std::type_index, const RegisteredException*> types;
  std::map<std::string, const RegisteredException*, std::less<>> symbols;
};

Registry& exceptions() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

RegisteredException::RegisteredException(const std::type_info& type, const std::type_info& nested,
                                         Write writer, Make maker)
    : symbol_(type.name()), write_(writer), make_(maker) {
  Registry& all = exceptions();
  const std::lock_guard lock(all.mutex);
  if (!all.types.emplace(type, this).second) return;  // a shared library registers it as well
  all.types.emplace(nested, this);
  for (int number = 2; !all.symbols.emplace(symbol_, this).second; ++number) {
    symbol_ = std::string(type.name()) + "#" + std::to_string(number);
  }
}

const RegisteredException* find_exception(const std::type_info& type) {
  Registry& all = exceptions();
  const std::lock_guard lock(all.mutex);
  const auto found = all.types.find(type);
  return found == all.types.end() ? nullptr : found->second;
}

const RegisteredException* find_exception(std::string_view symbol) {
  Registry& all = exceptions();
  const std::lock_guard lock(all.mutex);
  const auto found = all.symbols.find(symbol);
  return found == all.symbols.end() ? nullptr : found->second;
}

}  // namespace skyward
