#pragma once

// What a user asks for, complete and resolved by the face: nothing in it is looked up later.

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/spec/image.h"

namespace skyward {

// Which cloud, and its constructor's arguments as text.
struct ProviderSpec {
  std::string name = "local";
  std::map<std::string, std::string> settings{};
  bool operator==(const ProviderSpec&) const = default;
};

// How a node runs the user's functions.
struct WorkerRuntime {
  // argv of a worker process; the word "{python}" is replaced by the interpreter of the image's
  // environment.
  std::vector<std::string> command{};
  // Interpreter of an empty image on this machine (the driver's own); "" for C++ workers.
  std::string python{};
  std::map<std::string, std::string> environment{};
  bool operator==(const WorkerRuntime&) const = default;
};

struct PoolSpec {
  ProviderSpec provider{};
  Image image{};
  int nodes = 1;
  int concurrency = 1;                       // slots per worker
  Duration timeout{};                        // lifetime of the pool's machines
  std::map<std::string, std::string> env{};  // merged over image.env
  bool collect_metrics = true;
  WorkerRuntime runtime{};
  std::string agent_path{};  // the skyward-agent binary to run or to upload

  bool operator==(const PoolSpec&) const = default;
};

// Everything that can be refused before anything is bought.
Status validate(const PoolSpec& spec);

}  // namespace skyward
