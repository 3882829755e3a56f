#pragma once

// What an ARN, the name of a thing at Amazon, says of its owner.

#include <string>
#include <string_view>

namespace skyward::provider::aws {

// Who made a thing, from the ARN of a caller: a role without the name of its session.
std::string owner_of(std::string_view arn);
// The account's number in an ARN; empty where there is none.
std::string account_of(std::string_view arn);

}  // namespace skyward::provider::aws
