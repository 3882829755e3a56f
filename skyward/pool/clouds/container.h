#pragma once

// Containers that your own podman or docker runs, on your computer or on a host that ssh reaches.
// docs/guide/containers.md says more.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include <optional>
#include <string>

#include "skyward/spec/pool_spec.h"

namespace skyward {

struct Container {
  // The runtime to use. Default: the one that is installed, podman first.
  std::optional<std::string> runtime{};
  // The container image. It needs `sh`, `find` and a few other programs. Default:
  // `"docker.io/library/python:3.x-slim"`.
  std::optional<std::string> image{};
  // The network of the containers: a name, or `"host"`. Default: the runtime's default.
  std::optional<std::string> network{};
  // Where the runtime is: a host for `ssh`, such as `"me@workstation"`. Default: your computer.
  std::optional<std::string> host{};
  operator ProviderSpec() const;
};

}  // namespace skyward
