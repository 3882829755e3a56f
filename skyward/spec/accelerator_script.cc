#include "skyward/spec/accelerator_script.h"

#include <fmt/format.h>

#include <cmath>

#include "skyward/spec/image.h"

namespace skyward {

namespace {

// What all processes of a node see. nvidia-smi counts devices by their place on the bus.
constexpr std::string_view kWholeGpus = R"bash(
if [[ -n ${SKYWARD_GPUS:-} ]]; then
  printf 'worker * %s\n' CUDA_DEVICE_ORDER=PCI_BUS_ID "CUDA_VISIBLE_DEVICES=$SKYWARD_GPUS" >&3
fi
)bash";

// Follows the assignments of `count` and `wanted`.
constexpr std::string_view kPartitions = R"bash(
(
  say() { printf 'skyward: %s\n' "$*" >&2; }
  echo 'begin accelerators' >&3
  if ! command -v nvidia-smi >/dev/null; then
    say 'there is no nvidia-smi on this node: its GPUs cannot be split'
    exit 1
  fi
  as_root=() # who logs in may be another user
  if [[ $(id -u) != 0 ]] && sudo -n true 2>/dev/null; then as_root=(sudo -n); fi
  partitions() { # of a GPU, as lines "profile UUID"; -L takes no -i
    nvidia-smi -L | sed -n "/^GPU $1:/,/^GPU /"'s/^ *MIG \([^ ]*\) .*(UUID: \([^)]*\)).*$/\1 \2/p'
  }
  profiles() { partitions "$1" | cut -d ' ' -f 1 | sort | paste -s -d , -; }

  if [[ -n ${SKYWARD_GPUS:-} ]]; then
    IFS=, read -r -a gpus <<<"$SKYWARD_GPUS"
  else
    mapfile -t gpus < <(seq 0 $((count - 1)))
  fi
  list=$(IFS=,; echo "${wanted[*]}")
  sorted=$(printf '%s\n' "${wanted[@]}" | sort | paste -s -d , -)
  worker=0
  for gpu in "${gpus[@]}"; do
    mode=$(nvidia-smi -i "$gpu" --query-gpu=mig.mode.current --format=csv,noheader)
    if [[ $mode != Enabled ]]; then
      "${as_root[@]}" nvidia-smi -i "$gpu" -mig 1
      mode=$(nvidia-smi -i "$gpu" --query-gpu=mig.mode.current --format=csv,noheader)
      if [[ $mode != Enabled ]]; then
        say "GPU $gpu cannot be split: its MIG mode is '$mode' after it was enabled;" \
          "a program may still be using it, or it needs a reset"
        exit 1
      fi
    fi
    there=$(profiles "$gpu")
    if [[ $there != "$sorted" ]]; then
      if [[ -z ${SKYWARD_GPUS:-} ]]; then # all of the machine is the pool's
        "${as_root[@]}" nvidia-smi mig -i "$gpu" -dci || true # fails when there is none
        "${as_root[@]}" nvidia-smi mig -i "$gpu" -dgi || true
      elif [[ -n $there ]]; then
        say "GPU $gpu is split into $there and not into $sorted. If nobody uses these partitions," \
          "run 'sudo nvidia-smi mig -i $gpu -dci; sudo nvidia-smi mig -i $gpu -dgi'"
        exit 1
      fi
      "${as_root[@]}" nvidia-smi mig -i "$gpu" -cgi "$list" -C
    fi
    if [[ $(profiles "$gpu") != "$sorted" ]]; then
      say "GPU $gpu has the partitions '$(profiles "$gpu")' and not '$sorted'"
      exit 1
    fi
    partition=0
    while read -r _ uuid; do
      printf "worker $worker %s\n" "CUDA_VISIBLE_DEVICES=$uuid" "SKYWARD_WORKER_ID=$worker" \
        "SKYWARD_MIG_GPU=$gpu" "SKYWARD_MIG_PARTITION=$partition" >&3
      worker=$((worker + 1)) partition=$((partition + 1))
    done < <(partitions "$gpu")
  done
  echo 'begin uv' >&3
)
)bash";

}  // namespace

std::string accelerator_script(const Accelerator& accelerator) {
  if (!accelerator.custom && !is_nvidia(accelerator.name)) return {};
  const std::vector<std::string> partitions = mig_partitions(accelerator);
  if (partitions.empty()) return std::string(kWholeGpus);
  std::string list;
  for (const std::string& profile : partitions) {
    if (!list.empty()) list += ' ';
    list += shell_quote(profile);
  }
  return fmt::format("\ncount={}\nwanted=({})\n{}", std::lround(accelerator.count), list,
                     kPartitions);
}

}  // namespace skyward
