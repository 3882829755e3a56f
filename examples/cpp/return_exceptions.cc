// Many calls, some of which fail: each failure stands where its result would be.

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "skyward/skyward.h"

double parse_number(const std::string& text) {
  std::size_t read = 0;
  const double value = std::stod(text, &read);
  if (read != text.size()) throw std::invalid_argument("'" + text + "' ends in something else");
  return value;
}
constexpr auto parse = sky::compute<parse_number>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 2});

  const std::vector<std::string> texts{"1.5", "two", "3 apples", "4"};
  std::vector<sky::Pending<double>> calls;
  for (const std::string& text : texts) calls.push_back(parse(text));

  double sum = 0;
  int failures = 0;
  for (const sky::Attempt<double>& attempt : sky::gather(calls).return_exceptions() >> pool) {
    if (attempt) {
      sum += *attempt;
      continue;
    }
    try {
      std::rethrow_exception(attempt.error());
    } catch (const sky::RemoteError& error) {
      ++failures;
      std::printf("left out: %s: %s\n", error.type().c_str(), error.message().c_str());
    }
  }
  std::printf("the sum of the others is %g\n", sum);
  return sum == 5.5 && failures == 2 ? 0 : 1;
}
