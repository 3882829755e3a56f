#pragma once

// Storage on a node of Linux, as shell: the part of a bootstrap that mounts a pool's volumes, and
// the script that flushes and unmounts them at the end, and nothing else. Buckets are mounted by
// s3fs. Both note what they do in the agent's directory ($SKYWARD_NODE_DIRECTORY). Pure.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/spec/pool_spec.h"
#include "skyward/spec/volume.h"

namespace skyward::provider {

struct VolumeScripts {
  // For bash, before all else: what it runs until the mounting does not get the credentials.
  // Installing a package runs its code.
  std::string begin;
  std::string mount;    // for bash, after the packages; ends with its step. Empty without volumes.
  std::string unmount;  // for bash, of its own
  std::vector<std::string> packages;  // that it needs, where their programs are missing
  // Of the mounting script: credentials of the client, where there are buckets. It hands them on in
  // a file without a name, which is gone with it.
  std::vector<std::pair<std::string, std::string>> environment;
};

// `variable`: the client's environment, whose AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID …
// count. Without keys the machine's own role is asked where the provider gives it one, else the
// bucket must be public.
VolumeScripts volume_scripts(
    const PoolSpec& spec, const std::function<std::optional<std::string>(const char*)>& variable);

}  // namespace skyward::provider
