#pragma once

// The marks on everything that Skyward makes at Amazon: by them it is found from a computer that
// has never seen the pool. They are set by the request that makes the thing, never afterwards.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "skyward/provider/aws/ec2_api.h"

namespace skyward::provider::aws {

inline constexpr const char* kManagedTag = "skyward:managed";  // "true"
inline constexpr const char* kPoolTag = "skyward:pool";        // "aws-1a2b3c4d"
inline constexpr const char* kOwnerTag = "skyward:owner";      // whose credentials made it
inline constexpr const char* kExpiresTag = "skyward:expires";  // seconds since 1970
inline constexpr const char* kNodesTag = "skyward:nodes";      // "0-3", "2"
inline constexpr const char* kLaunchTag = "skyward:launch";    // the client token

struct Mark {
  std::string pool{};
  std::string owner{};
  std::int64_t expires_s = 0;

  bool operator==(const Mark&) const = default;
};

Tags to_tags(const Mark& mark);
// Empty when they are not our marks.
std::optional<Mark> read_mark(const Tags& tags);

// Who made a thing, from the ARN of a caller: a role without the name of its session.
std::string owner_of(std::string_view arn);
// The account's number in an ARN; empty where there is none.
std::string account_of(std::string_view arn);

}  // namespace skyward::provider::aws
