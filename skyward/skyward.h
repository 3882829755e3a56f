#pragma once

// Skyward for C++ programs, in one include. Start reading at function.h (what can be called) and
// compute_pool.h (where it runs); every program begins with sky::init.

#include "skyward/accelerators.h"   // IWYU pragma: export
#include "skyward/array.h"          // IWYU pragma: export
#include "skyward/compute_pool.h"   // IWYU pragma: export
#include "skyward/function.h"       // IWYU pragma: export
#include "skyward/future.h"         // IWYU pragma: export
#include "skyward/init.h"           // IWYU pragma: export
#include "skyward/instance_info.h"  // IWYU pragma: export
#include "skyward/match.h"          // IWYU pragma: export
#include "skyward/pending.h"        // IWYU pragma: export
#include "skyward/preemption.h"     // IWYU pragma: export
#include "skyward/remote_error.h"   // IWYU pragma: export
#include "skyward/shard.h"          // IWYU pragma: export
#include "skyward/spec/offer.h"     // IWYU pragma: export
#include "skyward/worker.h"         // IWYU pragma: export

namespace sky = skyward;
