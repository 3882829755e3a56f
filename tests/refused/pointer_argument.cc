// Must not compile: a pointer means nothing in another process.
#include "skyward/skyward.h"

double sum(const double* values, int count);

auto call() { return sky::compute<sum>(nullptr, 0); }
