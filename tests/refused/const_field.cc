// Must not compile: a const field cannot be received.
#include "skyward/skyward.h"

struct Report {
  const int epoch = 0;
  double loss = 0;
};
int fit(Report one);

auto call() { return sky::compute<fit>({}); }
