// Must not compile: the base class's serialize would leave `rate` behind.
#include "skyward/skyward.h"

struct Base {
  int epoch = 0;
};
template <typename Archive>
void serialize(Archive& archive, Base& base) {
  archive(base.epoch);
}
struct Derived : Base {
  double rate = 0;
};
int fit(Derived one);

auto call() { return sky::compute<fit>({}); }
