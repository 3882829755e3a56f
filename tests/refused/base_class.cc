// Must not compile: what a struct inherits is no field of its own.
#include "skyward/skyward.h"

struct Base {
  int epoch = 0;
};
struct Derived : Base {
  double rate = 0;
};
int fit(Derived one);

auto call() { return sky::compute<fit>({}); }
