// Must not compile: the inherited serialize would leave `score` behind, which makes the struct no
// larger.
#include <string>

#include "skyward/skyward.h"

struct Run {
  std::string name;
  int epoch = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(name, epoch);
  }
};
struct Scored : Run {
  float score = 0;
};
struct Best : Scored {};
int fit(Best one);

auto call() { return sky::compute<fit>({}); }
