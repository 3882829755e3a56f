#pragma once

// Shell scripts for storage on a Linux node: the part of a bootstrap that mounts a pool's volumes,
// and the script that flushes and unmounts them at the end. s3fs mounts buckets. Both record what
// they do in the agent's directory ($SKYWARD_NODE_DIRECTORY). Pure.

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "skyward/spec/pool_spec.h"
#include "skyward/spec/volume.h"

namespace skyward::provider {

struct VolumeScripts {
  // For bash, before all else: hides the credentials from all that runs before the mounting, since
  // installing a package runs its code.
  std::string begin;
  std::string mount;    // for bash, after the packages; ends with its step. Empty without volumes.
  std::string unmount;  // a bash script of its own
  std::vector<std::string> packages;  // needed if their programs are missing
  // Of the mounting script: the client's credentials, if there are buckets. It passes them on in an
  // unnamed file, which is gone when it ends.
  std::vector<std::pair<std::string, std::string>> environment;
};

// `variable`: the client's environment; AWS_ENDPOINT_URL_S3, AWS_REGION, AWS_ACCESS_KEY_ID … are
// used. Without AWS_REGION, buckets are in the region of a pool at Amazon, else in us-east-1.
// Without keys, or if they expire, the machine's own role is used if the provider gives it one;
// without both, the bucket must be public.
VolumeScripts volume_scripts(
    const PoolSpec& spec, const std::function<std::optional<std::string>(const char*)>& variable);

}  // namespace skyward::provider
