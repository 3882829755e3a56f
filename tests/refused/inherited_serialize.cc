// Must not compile: the inherited serialize would leave `rate` behind.
#include "skyward/skyward.h"

struct Base {
  int epoch = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch);
  }
};
struct Derived : Base {
  double rate = 0;
};
int fit(std::vector<Derived> all);

auto call() { return sky::compute<fit>({}); }
