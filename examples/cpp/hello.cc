// The smallest program: one node, one call.
//
//   $ hello
//   … multiplying 6 and 7 far away
//   6 times 7 is 42

#include <cstdio>

#include "skyward/skyward.h"

int multiply_there(int a, int b) {
  std::printf("multiplying %d and %d far away\n", a, b);
  return a * b;
}
constexpr auto multiply = sky::compute<multiply_there>;

int main(int argc, char** argv) {
  sky::init(argc, argv);  // workers are this program, too; in them, init() does not return
  sky::ComputePool pool;
  const int answer = multiply(6, 7) >> pool;
  std::printf("6 times 7 is %d\n", answer);
}
