#include "skyward/call/call.h"

#include <algorithm>
#include <string>
#include <utility>

#include "skyward/base/hash.h"

namespace skyward {

FunctionBody make_function(SharedBytes bytes, std::string name) {
  FunctionBody body;
  const auto digest = sha256(bytes.view);
  std::copy_n(digest.begin(), body.id.value.size(), body.id.value.begin());
  body.bytes = wire::small_buffer(std::move(bytes));
  body.name = std::move(name);
  return body;
}

}  // namespace skyward
