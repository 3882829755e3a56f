#pragma once

// What an ARN, Amazon's name for a resource, says about its owner.

#include <string>
#include <string_view>

namespace skyward::provider::aws {

// The owner, from a caller's ARN. The session's name of an assumed role is left out.
std::string owner_of(std::string_view arn);
// The account number in an ARN; empty if it has none.
std::string account_of(std::string_view arn);

}  // namespace skyward::provider::aws
