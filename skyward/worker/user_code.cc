#include "skyward/worker/user_code.h"

#include <cxxabi.h>

#include <cstdio>
#include <typeinfo>

#include "skyward/base/type_text.h"

namespace skyward {

namespace {
void (*flush_streams)() = nullptr;
}  // namespace

std::string thrown_name() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "unknown exception";
  return type_text(*type);
}

void set_stream_flush(void (*flush)()) { flush_streams = flush; }

void flush_output() {
  if (flush_streams != nullptr) flush_streams();
  // Not all streams: a thread that reads one of them holds its lock.
  std::fflush(stdout);
  std::fflush(stderr);
}

}  // namespace skyward
