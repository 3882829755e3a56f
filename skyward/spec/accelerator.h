#pragma once

// Accelerators: the catalogue of models, and what a user asks for.
//
// A request names a model ("A100"), a variant of it ("A100-40GB", "H100-NVL"), or a model of the
// user's own. Case, blanks, '-' and '_' do not matter. Cloud catalogues and device tools spell the
// same models in other ways; matches() and device_model_name() bring them together.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "skyward/base/error.h"

namespace skyward {

enum class Vendor : std::uint8_t { nvidia, amd, habana, aws, google };

// One row of the catalogue (accelerators.tsv).
struct AcceleratorModel {
  std::string_view name;
  Vendor vendor = Vendor::nvidia;
  std::string_view architecture;  // "Hopper"
  double memory_gb = 0;           // of what `devices` of it have together
  std::string_view cuda_min;      // versions that can drive it; empty without CUDA
  std::string_view cuda_max;      //
  std::string_view memories;      // other sizes it is made with, in GB, joined by ','
  std::string_view forms;         // "SXM:80,NVL:94": form factors and their memory
  int devices = 1;                // more for a slice of a TPU pod
};

// All models, by vendor and age.
std::span<const AcceleratorModel> accelerator_catalogue();

// A name taken apart: "A100-40GB" is the model A100 with 40 GB.
struct AcceleratorName {
  const AcceleratorModel* model = nullptr;
  double memory_gb = 0;     // 0: the name says nothing of it
  std::string_view form{};  // "SXM", or empty
  std::string spelled{};    // the name as the catalogue spells it
};
// Empty for what the catalogue does not have.
std::optional<AcceleratorName> parse_accelerator_name(std::string_view name);

// The names that look most like a misspelled one, best first.
std::vector<std::string> close_accelerators(std::string_view name, std::size_t most = 4);

// How each GPU is split (NVIDIA's multi-instance GPU): not at all, into as many partitions of one
// profile as fit ("3g.40gb"), or into exactly these.
using Mig = std::variant<std::monostate, std::string, std::vector<std::string>>;

// What each machine of a pool must have.
struct Accelerator {
  std::string name{};
  std::string memory{};  // of one device, for example "80GB"; empty: whatever the model has
  double count = 1;      // devices; below 1: a share of one
  Mig mig{};
  // Whether the memory was asked for, and not only filled in from the catalogue: then machines with
  // another size do not fit. Partitions ask for it, too: each size has profiles of its own. No part
  // of what a request is compared by.
  bool memory_required = false;
  bool custom = false;     // the name is the user's own: the catalogue is not asked
  std::string cuda_min{};  // of a custom one
  std::string cuda_max{};

  bool operator==(const Accelerator& other) const;
};

// What the factories of both faces take.
struct AcceleratorOptions {
  std::optional<double> count{};  // empty: one, or what the slice of a TPU pod has
  std::string memory{};
  std::string form_factor{};
  Mig mig{};
};
// A model with the memory that the catalogue gives it, checked.
Result<Accelerator> catalogue_accelerator(std::string_view name,
                                          const AcceleratorOptions& options = {});

// Puts the name in the catalogue's spelling and refuses what does not exist: names, memories,
// counts and partitions. The error lists the closest that do.
Result<Accelerator> checked(Accelerator accelerator);

// The memory of one device in GB as far as it is known, else 0.
double device_memory_gb(const Accelerator& accelerator);
// The CUDA versions that can drive it, as (least, largest); empty without CUDA.
std::pair<std::string, std::string> cuda_range(const Accelerator& accelerator);
// "4xH100", "H100".
std::string to_string(const Accelerator& accelerator);

// ---- Partitions

struct MigProfile {
  std::string_view name;
  int most = 1;    // on one GPU
  int slices = 1;  // of the seven of a GPU
  int memory_gb = 0;
  int gpu_gb = 0;  // of the GPUs that have it; 80: also those with the 94 GB of an H100-NVL
};
std::span<const MigProfile> mig_profiles();

// Refuses profiles that the model does not have, and more than fit. Part of checked().
Status validate_mig(const Accelerator& accelerator);
// The profiles that each GPU is split into, in order; empty without MIG.
std::vector<std::string> mig_partitions(const Accelerator& accelerator);
// Workers of a machine: one for each partition of each of its GPUs, else one.
int workers_per_node(const Accelerator& accelerator);

// ---- Matching

// Whether machines with `offered` devices of `memory_gb` each (0: not told) have what is wanted. A
// form factor counts where both tell one; `form` is that of devices whose name does not. Says
// nothing about the count.
bool matches(const Accelerator& wanted, std::string_view offered, double memory_gb,
             std::string_view form = {});

// The form factor among the words of a device's description: of "8x H100 SXM5 80GB", "SXM". Empty
// when they tell none.
std::string form_factor_in(std::string_view description);

// The catalogue's name for what nvidia-smi and its like report: "NVIDIA H100 80GB HBM3" is
// "H100-80GB". What is not known stays as it is, without the maker's name.
std::string device_model_name(std::string_view reported);

// Whether a name, with or without a variant, is one of NVIDIA's, AWS's Trainium, any GPU's.
bool is_nvidia(std::string_view name);
bool is_trainium(std::string_view name);
bool is_gpu(std::string_view name);

}  // namespace skyward
