// Must compile: the measure for its neighbours, which must not.
#include "skyward/skyward.h"

int one() { return 1; }

void right(sky::ComputePool& pool) {
  const auto f = sky::compute<one>;
  const std::tuple<int, int> both = (f() & f()) >> pool;
  const std::vector<int> all = sky::gather(std::vector{f(), f()}) >> pool;
  const std::vector<int> ranks = sky::broadcast(f(), pool);
  sky::Future<int> future = sky::submit(f().with_timeout(std::chrono::seconds(5)), pool);
  if (!future.wait(std::chrono::seconds(1))) future.cancel();
  (void)both;
}

// The examples of the headers' first lines (function.h, plain_struct.h, array.h, compute_pool.h).
double train_impl(std::span<const double> data, double rate) { return rate * data[0]; }
inline constexpr auto train = sky::compute<train_impl>;
inline constexpr auto square = sky::compute<[](int x) { return x * x; }>;

std::size_t length_impl(const std::string_view& text) { return text.size(); }
inline constexpr auto length = sky::compute<length_impl>;

// Functions with a state of their own, by value and by reference.
int count(const sky::Event& event) {
  int lines = 0;
  sky::match(
      event, [&lines, seen = 0](const sky::LogLine&) mutable { lines += ++seen; },
      [](const auto&) {});
  return lines;
}

// Inherits how it travels, and adds nothing to it.
struct Told {
  int epoch = 0;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(epoch);
  }
};
struct Named : Told {};
struct Renamed : Named {};
int epoch_impl(Renamed told) { return told.epoch; }
inline constexpr auto epoch = sky::compute<epoch_impl>;

// The same with a serialize beside the struct, and a struct that has its own although its base
// class has one.
struct Counted {
  int count = 0;
};
template <typename Archive>
void serialize(Archive& archive, Counted& value) {
  archive(value.count);
}
struct Same : Counted {};
struct Weighed : Counted {
  double weight = 0;
};
template <typename Archive>
void serialize(Archive& archive, Weighed& value) {
  archive(value.count, value.weight);
}
double weigh_impl(Same one, Weighed other) { return one.count * other.weight; }
inline constexpr auto weigh = sky::compute<weigh_impl>;

struct Report {
  int epoch;
  std::vector<double> losses;
};
Report report_impl() { return {}; }
inline constexpr auto report = sky::compute<report_impl>;

std::vector<double> read_data() { return {1, 2}; }

int program(int argc, char** argv, const std::vector<double>& rates) {
  sky::init(argc, argv);
  sky::ComputePool pool({.nodes = 4});
  const sky::Array<double> data = read_data();
  std::vector<sky::Pending<double>> trials;
  for (double rate : rates) trials.push_back(train(data, rate));
  const auto losses = sky::gather(trials) >> pool;
  const std::vector<Report> all = pool.broadcast(report());
  return epoch.local({}) + static_cast<int>(weigh({}, {}) >> pool) +
         static_cast<int>(length("four") >> pool) + square.local(2) +
         static_cast<int>(train(data, 3.0) >> pool) + static_cast<int>(losses.size() + all.size());
}
