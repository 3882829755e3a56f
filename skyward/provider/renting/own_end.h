#pragma once

// How a container ends itself where powering off is not possible: its cloud put a key into its
// environment that can end this container, and nothing else.

#include <string>

namespace skyward::provider {

struct OwnEnd {
  std::string key{};  // the names of variables of the container's first process
  std::string id{};
  // The arguments of curl, as shell: "-X DELETE https://…/$id". The cloud has refused when its
  // reply has the word "error", whatever its status.
  std::string request{};
  std::string otherwise{};  // the same by another way, if that is refused; empty: none
  std::string environment = "/proc/1/environ";
};

// A shell command that repeats the request for up to an hour, until the cloud accepts it. The key
// stays off command lines, which everybody there can read.
std::string own_end_script(const OwnEnd& own);

}  // namespace skyward::provider
