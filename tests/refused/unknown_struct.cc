// Must not compile: nobody says how a Model travels.
#include <string>

#include "skyward/skyward.h"

class Model {
 public:
  std::string name() const { return name_; }

 private:
  std::string name_;
};
int fit(std::vector<Model> models);

auto call() { return sky::compute<fit>({}); }
