#pragma once

// The providers whose settings are all that they have, one header each.
// Made by tools/providers.py from the sheets in skyward/provider; ./dev static compares them.

#include "skyward/pool/clouds/aws.h"            // IWYU pragma: export
#include "skyward/pool/clouds/container.h"      // IWYU pragma: export
#include "skyward/pool/clouds/digital_ocean.h"  // IWYU pragma: export
#include "skyward/pool/clouds/kubernetes.h"     // IWYU pragma: export
#include "skyward/pool/clouds/runpod.h"         // IWYU pragma: export
#include "skyward/pool/clouds/slurm.h"          // IWYU pragma: export
#include "skyward/pool/clouds/vastai.h"         // IWYU pragma: export
#include "skyward/pool/clouds/verda.h"          // IWYU pragma: export
