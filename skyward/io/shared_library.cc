#include "skyward/io/shared_library.h"

#include <filesystem>
#include <string>
#include <system_error>

namespace skyward::io {
namespace {

// The folder of the program or extension module that this code was linked into.
std::filesystem::path own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&load_library), &info) == 0) return {};
  std::error_code error;
  return std::filesystem::canonical(info.dli_fname, error).parent_path();
}

void* load(const char* name) { return ::dlopen(name, RTLD_NOW | RTLD_LOCAL); }

}  // namespace

SharedLibrary load_library(std::initializer_list<const char*> names) {
  const std::filesystem::path own = own_folder();
  std::error_code error;
  for (const char* name : names) {
    for (const auto& path : {own / name, own / "bin" / name}) {
      if (own.empty() || !std::filesystem::exists(path, error)) continue;
      if (void* handle = load(path.c_str()); handle != nullptr) return {handle, true};
    }
  }
  for (const char* name : names) {
    if (void* handle = load(name); handle != nullptr) return {handle, false};
  }
  return {};
}

}  // namespace skyward::io
