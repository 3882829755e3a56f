// Must not compile: match() gives const references, so that function would never be called.
#include "skyward/skyward.h"

void look(const sky::Event& event) {
  sky::match(event, [](sky::LogLine& line) { line.line.clear(); });
}
