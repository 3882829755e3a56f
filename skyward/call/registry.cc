#include "skyward/call/registry.h"

#include <map>
#include <mutex>

namespace skyward {
namespace {

// Filled before main() and only read after, but a library opened later may add to it.
struct Registry {
  std::mutex mutex;
  std::map<std::string, const RegisteredFunction*, std::less<>> functions;
  std::map<const RegisteredFunction*, std::shared_ptr<const FunctionBody>> bodies;
};

// Made at the first registration, whichever file's comes first, and never destroyed: tasks may
// still run at exit.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

// "… [with auto F = ns::{anonymous}::train; R = …" (gcc) and "… [F = &ns::train, R = …" (clang) →
// "ns::train".
std::string readable_name(std::string_view pretty) {
  const std::size_t equals = pretty.find("F = ");
  if (equals == std::string_view::npos) return std::string(pretty);
  std::string_view text = pretty.substr(equals + 4);
  for (const std::string_view end :
       {"; R = ", ", R = ", "; T = ", ", T = ", "; Signature = ", ", Signature = "}) {
    text = text.substr(0, text.find(end));
  }
  if (text.ends_with(']')) text.remove_suffix(1);
  if (text.starts_with('&')) text.remove_prefix(1);
  std::string name(text);
  for (const std::string_view hidden : {"{anonymous}::", "(anonymous namespace)::"}) {
    for (std::size_t at = 0; (at = name.find(hidden)) != std::string::npos;) {
      name.erase(at, hidden.size());
    }
  }
  return name;
}

}  // namespace

RegisteredFunction::RegisteredFunction(std::string_view symbol, std::string_view pretty,
                                       Invoke function)
    : symbol_(symbol), name_(readable_name(pretty)), invoke_(function) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  // The order of initialisation is fixed at link time, so driver and worker number alike.
  for (int number = 2; !all.functions.emplace(symbol_, this).second; ++number) {
    symbol_ = std::string(symbol) + "#" + std::to_string(number);
  }
}

std::shared_ptr<const FunctionBody> RegisteredFunction::body() const {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  auto& body = all.bodies[this];
  if (!body) {
    body = std::make_shared<const FunctionBody>(make_function(SharedBytes(symbol_), name_));
  }
  return body;
}

const RegisteredFunction* find_function(std::string_view symbol) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.functions.find(symbol);
  return found == all.functions.end() ? nullptr : found->second;
}

}  // namespace skyward
