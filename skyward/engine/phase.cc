#include "skyward/engine/phase.h"

#include "skyward/base/check.h"

namespace skyward::engine {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::idle:
      return "idle";
    case Phase::offering:
      return "offering";
    case Phase::moving:
      return "moving";
    case Phase::preparing:
      return "preparing";
    case Phase::provisioning:
      return "provisioning";
    case Phase::starting:
      return "starting";
    case Phase::running:
      return "running";
    case Phase::closing:
      return "closing";
    case Phase::terminating:
      return "terminating";
    case Phase::removing:
      return "removing";
    case Phase::closed:
      return "closed";
  }
  return "?";
}

void CheckedPhase::set(Phase next) {
  SKYWARD_CHECK(may_follow(phase_, next), "{} after {}", name(next), name(phase_));
  phase_ = next;
}

}  // namespace skyward::engine
