// A field of a plain struct that cannot be sent is named by its struct, number and type.
#include <string>
#include <vector>

#include "skyward/skyward.h"

struct Layer {
  std::string name;
  int* device;
};
struct Model {
  int epoch;
  std::vector<Layer> layers;
};

double train(const Model& model) { return model.epoch; }
inline constexpr auto remote_train = sky::compute<train>;

int main() { static_cast<void>(remote_train(Model())); }
