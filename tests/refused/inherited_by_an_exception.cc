// Must not compile: the inherited serialize would leave `column` behind.
#include <stdexcept>

#include "skyward/skyward.h"

struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
  int row = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(row);
  }
};
struct BadCell : BadRow {
  using BadRow::BadRow;
  int column = 0;
};
const sky::ThrownType<BadCell> bad_cell;
