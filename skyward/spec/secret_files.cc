#include "skyward/spec/secret_files.h"

#include <algorithm>
#include <array>

namespace skyward {

bool may_be_secret(std::string_view path) {
  constexpr std::array kBeginnings = {".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"};
  constexpr std::array kEnds = {".env", ".pem", ".key", ".p12", ".pfx"};
  constexpr std::array kNames = {".netrc", ".pgpass", ".npmrc", ".pypirc", "credentials.json"};
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".pub")) return false;
  return std::ranges::any_of(kBeginnings, [&](const char* one) { return name.starts_with(one); }) ||
         std::ranges::any_of(kEnds, [&](const char* one) { return name.ends_with(one); }) ||
         std::ranges::any_of(kNames, [&](const char* one) { return name == one; });
}

}  // namespace skyward
