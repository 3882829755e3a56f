#include "skyward/worker/user_code.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <typeinfo>

namespace skyward {

namespace {
void (*flush_streams)() = nullptr;
}  // namespace

std::string thrown_name() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown exception";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return name ? std::string(name.get()) : std::string(type->name());
}

void set_stream_flush(void (*flush)()) { flush_streams = flush; }

void flush_output() {
  if (flush_streams != nullptr) flush_streams();
  std::fflush(nullptr);
}

}  // namespace skyward
