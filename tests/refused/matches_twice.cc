// Must not compile: which of the two should be called?
#include "skyward/skyward.h"

void look(const sky::Event& event) {
  sky::match(event, [](const sky::LogLine&) {}, [](const sky::LogLine&) {});
}
