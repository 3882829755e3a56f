// Exceptions of your own: a type that the program registers arrives as itself, with its fields.

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "skyward/skyward.h"

struct BadRow : std::runtime_error {
  using std::runtime_error::runtime_error;
  int row = 0;

  template <typename Archive>
  void serialize(Archive& archive) {
    archive(row);
  }
};
const sky::ThrownType<BadRow> bad_row;  // registers it, in the program and in its workers

int count_letters(const std::vector<std::string>& rows) {
  int letters = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].empty()) {
      BadRow error("a row without letters");
      error.row = static_cast<int>(i);
      throw error;
    }
    letters += static_cast<int>(rows[i].size());
  }
  return letters;
}
constexpr auto count = sky::compute<count_letters>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool;

  std::printf("%d letters\n", count({"one", "two"}) >> pool);
  try {
    count({"one", "", "three"}) >> pool;
  } catch (const BadRow& error) {
    std::printf("row %d: %s\n", error.row, error.what());
    return error.row == 1 ? 0 : 1;
  }
  return 1;
}
