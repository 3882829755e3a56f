#pragma once

// How a node hands its GPUs to its workers: a piece of bash that runs before the provider's own
// bootstrap script, under the same agent.
//
// It splits the GPUs when partitions were asked for, and tells the agent what each worker sees by
// lines "worker 0 NAME=VALUE" ("worker * …": all of them) on descriptor 3. $SKYWARD_GPUS holds the
// indices of the GPUs to use, joined by ','; a provider sets it in the environment of its bootstrap
// when not all GPUs of the machine are the node's. A GPU that has the wanted partitions already is
// left as it is. The partitions of others are replaced, but with $SKYWARD_GPUS set the script fails
// instead: they may be somebody else's.

#include <string>

#include "skyward/spec/accelerator.h"

namespace skyward {

// Name of the variable above.
inline constexpr const char* kGpusVariable = "SKYWARD_GPUS";

// Empty for what nvidia-smi does not know.
std::string accelerator_script(const Accelerator& accelerator);

}  // namespace skyward
