#include "skyward/provider/aws/arn.h"

namespace skyward::provider::aws {

std::string owner_of(std::string_view arn) {
  if (arn.contains(":assumed-role/")) arn = arn.substr(0, arn.rfind('/'));
  return std::string(arn);
}

std::string account_of(std::string_view arn) {
  for (int colon = 0; colon < 4; ++colon) {
    const std::size_t at = arn.find(':');
    if (at == std::string_view::npos) return {};
    arn.remove_prefix(at + 1);
  }
  const std::string_view account = arn.substr(0, arn.find(':'));
  const bool is_number = account.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? std::string(account) : std::string();
}

}  // namespace skyward::provider::aws
