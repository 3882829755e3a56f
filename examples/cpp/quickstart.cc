// Logistic regression on four nodes, by averaging what each node learns from its own part of the
// data.
//
//   $ quickstart              data drawn with a fixed seed
//   $ quickstart data.csv     one example a line: numbers, the last one is the label, 0 or 1
//
// In each round, every worker makes one pass of stochastic gradient descent over its shard and
// returns its weights; the program averages them and sends them out again. At the end, whichever
// workers are idle evaluate the model on held-out examples.

#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "skyward/skyward.h"

struct Data {
  std::size_t columns = 0;  // features of an example
  std::vector<double> features;
  std::vector<double> labels;

  std::size_t rows() const { return labels.size(); }
};
using Weights = std::vector<double>;  // one a feature, and the bias

double probability(std::span<const double> example, const Weights& weights) {
  const double sum =
      std::inner_product(example.begin(), example.end(), weights.begin(), weights.back());
  return 1 / (1 + std::exp(-sum));
}

// One pass over this worker's shard. It reads the arrays in shared memory, without a copy.
Weights learn_there(std::span<const double> features, std::span<const double> labels,
                    Weights weights, int round) {
  const std::size_t columns = weights.size() - 1;
  const double rate = 0.1 / (1 + round);
  double loss = 0;
  const auto mine =
      sky::my_shard_indices(labels.size(), {.shuffle_seed = static_cast<std::uint64_t>(round)});
  for (const std::size_t row : mine) {
    const auto example = features.subspan(row * columns, columns);
    const double guess = probability(example, weights);
    const double error = labels[row] - guess;
    for (std::size_t i = 0; i < columns; ++i) weights[i] += rate * error * example[i];
    weights.back() += rate * error;
    loss -= std::log(std::max(labels[row] > 0.5 ? guess : 1 - guess, 1e-12));
  }
  std::printf("round %d: %zu examples, loss %.4f\n", round, mine.size(),
              loss / static_cast<double>(std::max<std::size_t>(mine.size(), 1)));
  return weights;
}

int count_correct_there(const std::vector<double>& features, const std::vector<double>& labels,
                        const Weights& weights) {
  const std::span<const double> all = features;
  const std::size_t columns = weights.size() - 1;
  int correct = 0;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const bool guess = probability(all.subspan(row * columns, columns), weights) > 0.5;
    correct += guess == (labels[row] > 0.5) ? 1 : 0;
  }
  return correct;
}

constexpr auto learn = sky::compute<learn_there>;
constexpr auto count_correct = sky::compute<count_correct_there>;

// Two clouds of points that overlap: no model gets all of them right.
Data draw_data(std::size_t rows, std::size_t columns) {
  std::mt19937_64 random(20240117);
  std::normal_distribution<double> noise;
  Data data{.columns = columns, .features = {}, .labels = {}};
  for (std::size_t row = 0; row < rows; ++row) {
    const bool positive = random() % 2 == 0;
    for (std::size_t i = 0; i < columns; ++i)
      data.features.push_back(noise(random) + (positive ? 0.3 : -0.3));
    data.labels.push_back(positive ? 1 : 0);
  }
  return data;
}

Data read_csv(const char* path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(std::string("cannot read ") + path);
  Data data;
  for (std::string line; std::getline(file, line);) {
    std::vector<double> numbers;
    std::istringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) {
      try {
        numbers.push_back(std::stod(field));
      } catch (const std::exception&) {
        break;
      }
    }
    if (numbers.size() < 2 || (data.columns != 0 && numbers.size() != data.columns + 1))
      continue;  // a heading
    data.columns = numbers.size() - 1;
    data.labels.push_back(numbers.back());
    data.features.insert(data.features.end(), numbers.begin(), numbers.end() - 1);
  }
  if (data.rows() < 10)
    throw std::runtime_error(std::string(path) + " holds fewer than ten examples");
  return data;
}

// Every column to mean 0 and deviation 1.
void standardize(Data& data) {
  const auto rows = static_cast<double>(data.rows());
  for (std::size_t column = 0; column < data.columns; ++column) {
    double sum = 0;
    double squares = 0;
    for (std::size_t at = column; at < data.features.size(); at += data.columns) {
      sum += data.features[at];
      squares += data.features[at] * data.features[at];
    }
    const double mean = sum / rows;
    const double deviation = std::sqrt(std::max(squares / rows - mean * mean, 1e-12));
    for (std::size_t at = column; at < data.features.size(); at += data.columns) {
      data.features[at] = (data.features[at] - mean) / deviation;
    }
  }
}

// Every fifth example is held out.
std::pair<Data, Data> split(const Data& data) {
  std::pair<Data, Data> parts{{data.columns, {}, {}}, {data.columns, {}, {}}};
  for (std::size_t row = 0; row < data.rows(); ++row) {
    Data& part = row % 5 == 4 ? parts.second : parts.first;
    const auto begin = data.features.begin() + static_cast<std::ptrdiff_t>(row * data.columns);
    part.features.insert(part.features.end(), begin,
                         begin + static_cast<std::ptrdiff_t>(data.columns));
    part.labels.push_back(data.labels[row]);
  }
  return parts;
}

int main(int argc, char** argv) {
  sky::init(argc, argv);
  try {
    Data data = argc > 1 ? read_csv(argv[1]) : draw_data(200'000, 10);
    std::printf("%zu examples of %zu features, %s\n", data.rows(), data.columns,
                argc > 1 ? argv[1] : "drawn with a fixed seed");
    standardize(data);
    const auto [training, held_out] = split(data);

    sky::ComputePool pool({.provider = sky::Local{}, .nodes = 4});
    const sky::Array<double> features = training.features;  // sent once, used in every round
    const sky::Array<double> labels = training.labels;
    Weights weights(data.columns + 1, 0.0);
    for (int round = 0; round < 5; ++round) {
      const auto learned = sky::broadcast(learn(features, labels, weights, round), pool);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        weights[i] = 0;
        for (const Weights& one : learned)
          weights[i] += one[i] / static_cast<double>(learned.size());
      }
    }

    std::vector<sky::Pending<int>> pieces;
    constexpr std::size_t kPieces = 8;
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
      const std::size_t from = held_out.rows() * piece / kPieces;
      const std::size_t to = held_out.rows() * (piece + 1) / kPieces;
      const auto row = [&](std::size_t at) {
        return held_out.features.begin() + static_cast<std::ptrdiff_t>(at * data.columns);
      };
      const auto label = [&](std::size_t at) {
        return held_out.labels.begin() + static_cast<std::ptrdiff_t>(at);
      };
      pieces.push_back(count_correct({row(from), row(to)}, {label(from), label(to)}, weights));
    }
    const std::vector<int> correct = sky::gather(std::move(pieces)) >> pool;
    std::printf("accuracy on %zu held-out examples: %.2f %%\n", held_out.rows(),
                100.0 * std::accumulate(correct.begin(), correct.end(), 0) /
                    static_cast<double>(held_out.rows()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quickstart: %s\n", error.what());
    return 1;
  }
}
