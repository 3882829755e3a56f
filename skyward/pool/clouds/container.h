#pragma once

// Containers of your own podman or docker, here or on a host that ssh reaches: to try an image
// before you pay for machines. docs/guide/containers.md says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <optional>
#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct Container {
  // Which one to use. Left out: the one that is installed, podman first.
  std::optional<std::string> runtime{};
  // The container image, with `sh` and `bash`. Left out: `"docker.io/library/python:3.x-slim"`.
  std::optional<std::string> image{};
  // The network of the containers: a name, or `"host"`. Left out: the runtime's default.
  std::optional<std::string> network{};
  // Where the runtime is: a host for `ssh`, such as `"me@workstation"`. Left out: your computer.
  std::optional<std::string> host{};
  operator ProviderSpec() const;
};

}  // namespace skyward
