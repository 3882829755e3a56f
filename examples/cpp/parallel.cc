// Several calls at once: & for a few different ones, gather for any number of one kind. Results
// come in the order of the calls, errors with their own type and text.

#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "skyward/skyward.h"

std::vector<int> primes_between(int from, int to) {
  std::vector<int> primes;
  for (int candidate = from; candidate < to; ++candidate) {
    bool prime = candidate > 1;
    for (int divisor = 2; divisor * divisor <= candidate && prime; ++divisor) {
      prime = candidate % divisor != 0;
    }
    if (prime) primes.push_back(candidate);
  }
  return primes;
}
std::string greet(const std::string& name) { return "hello " + name; }
double root_of(double value) {
  if (value < 0) throw std::domain_error("no real root of " + std::to_string(value));
  return std::sqrt(value);
}

constexpr auto primes = sky::compute<primes_between>;
constexpr auto greeting = sky::compute<greet>;
constexpr auto root = sky::compute<root_of>;

int main(int argc, char** argv) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 2, .concurrency = 2});

  // The parentheses are needed: >> binds tighter than &. Without them this does not compile.
  const auto [text, few, two] = (greeting("pool") & primes(0, 30) & root(4)) >> pool;
  std::printf("%s; %zu primes below 30; the root of 4 is %g\n", text.c_str(), few.size(), two);

  std::vector<sky::Pending<std::vector<int>>> calls;
  for (int from = 0; from < 1'000'000; from += 50'000) calls.push_back(primes(from, from + 50'000));
  std::size_t count = 0;
  for (const auto& part : sky::gather(calls) >> pool) count += part.size();
  std::printf("%zu primes below a million\n", count);

  sky::Future<double> later = sky::submit(root(-1).with_timeout(std::chrono::seconds(10)), pool);
  try {
    later.get();
  } catch (const sky::RemoteError& error) {
    std::printf("%s on node %d: %s\n", error.type().c_str(), error.node(), error.message().c_str());
  }
}
