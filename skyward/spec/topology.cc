#include "skyward/spec/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>
#include <numeric>
#include <random>
#include <span>

#include "skyward/base/check.h"
#include "skyward/spec/accelerator.h"
#include "skyward/spec/json_text.h"

namespace skyward {

namespace {

// CPython seeds its Mersenne Twister from an integer by the authors' init_by_array. The standard
// engine takes a seed sequence's words as its state, so this "sequence" writes that state.
class PythonSeed {
 public:
  using result_type = std::uint_least32_t;

  explicit PythonSeed(std::uint64_t seed) {
    key_.push_back(static_cast<std::uint32_t>(seed));
    if (seed >> 32 != 0) key_.push_back(static_cast<std::uint32_t>(seed >> 32));
  }

  template <typename Iterator>
  void generate(Iterator begin, Iterator end) const {
    std::vector<std::uint32_t> state(static_cast<std::size_t>(end - begin));
    fill(state);
    std::ranges::copy(state, begin);
  }

 private:
  void fill(std::span<std::uint32_t> state) const {
    const std::size_t n = state.size();
    state[0] = 19650218;
    for (std::uint32_t i = 1; i < n; ++i) {
      state[i] = 1812433253U * (state[i - 1] ^ state[i - 1] >> 30) + i;
    }
    std::size_t i = 1;
    const auto mixed = [&](std::uint32_t factor) {
      return state[i] ^ ((state[i - 1] ^ state[i - 1] >> 30) * factor);
    };
    const auto advance = [&] {
      if (++i < n) return;
      state[0] = state[n - 1];
      i = 1;
    };
    std::size_t j = 0;
    for (std::size_t k = std::max(n, key_.size()); k > 0; --k) {
      state[i] = mixed(1664525U) + key_[j] + static_cast<std::uint32_t>(j);
      advance();
      j = (j + 1) % key_.size();
    }
    for (std::size_t k = n - 1; k > 0; --k) {
      state[i] = mixed(1566083941U) - static_cast<std::uint32_t>(i);
      advance();
    }
    state[0] = 0x80000000U;
  }

  std::vector<std::uint32_t> key_;  // the seed's 32-bit digits, lowest first
};

// random.getrandbits(bits) for 1 ≤ bits ≤ 64: whole words, lowest first; of the last one the
// highest bits.
std::uint64_t random_bits(std::mt19937& generator, int bits) {
  std::uint64_t value = 0;
  for (int done = 0; done < bits; done += 32) {
    const int wanted = std::min(32, bits - done);
    const std::uint64_t word = static_cast<std::uint32_t>(generator()) >> (32 - wanted);
    value |= word << done;
  }
  return value;
}

// random._randbelow(limit), limit ≥ 1.
std::uint64_t random_below(std::mt19937& generator, std::uint64_t limit) {
  const int bits = static_cast<int>(std::bit_width(limit));
  std::uint64_t value = random_bits(generator, bits);
  while (value >= limit) value = random_bits(generator, bits);
  return value;
}

// random.Random(seed).shuffle(order).
void shuffle(std::span<std::size_t> order, std::uint64_t seed) {
  PythonSeed sequence(seed);
  std::mt19937 generator(sequence);
  for (std::size_t i = order.size(); i-- > 1;) {
    std::swap(order[i], order[random_below(generator, i + 1)]);
  }
}

// "accelerators":[…],"total_accelerators":n
std::string devices_json(const std::vector<std::string>& names, int total) {
  std::string out = "\"accelerators\":[";
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, names[i]);
  }
  fmt::format_to(std::back_inserter(out), R"(],"total_accelerators":{})", total);
  return out;
}

// "accelerator":{…}
std::string device_json(const std::vector<std::string>& names) {
  std::string out = "\"accelerator\":";
  if (names.empty()) return out + "null";
  out += "{\"type\":";
  append_json_string(out, names[0]);
  fmt::format_to(std::back_inserter(out), R"(,"count":{},"is_trainium":{}}})", names.size(),
                 is_trainium(names[0]));
  return out;
}

}  // namespace

std::string to_json(const InstanceInfo& info) {
  std::string out;
  const auto append = std::back_inserter(out);
  fmt::format_to(append, R"({{"node":{},"worker":{},"total_nodes":{},"workers_per_node":{})",
                 info.node, info.worker, info.total_nodes, info.workers_per_node);
  out += ',' + devices_json(info.accelerators, info.total_accelerators) + ",\"head_addr\":";
  append_json_string(out, info.head_addr);
  fmt::format_to(append, R"(,"head_port":{},"job_id":)", info.head_port);
  append_json_string(out, info.job_id);
  out += ",\"peers\":[";
  for (std::size_t i = 0; i < info.peers.size(); ++i) {
    if (i > 0) out += ',';
    fmt::format_to(append, R"({{"node":{},"private_ip":)", info.peers[i].node);
    append_json_string(out, info.peers[i].private_ip);
    out += '}';
  }
  out += "]," + device_json(info.accelerators);
  out += ",\"network\":{";
  if (!info.no_network_of.empty()) {
    out += "\"missing\":";
    append_json_string(out, info.no_network_of);
  }
  return out + "}}";
}

std::string with_accelerators(std::string compute_pool, const std::vector<std::string>& names) {
  // No text in it can look like these: a quote inside a JSON string is escaped.
  constexpr std::string_view kNodes = "\"total_nodes\":";
  int nodes = 0;
  if (const std::size_t found = compute_pool.find(kNodes); found != std::string::npos) {
    const char* begin = compute_pool.data() + found + kNodes.size();
    std::from_chars(begin, compute_pool.data() + compute_pool.size(), nodes);
  }
  const auto replace = [&](const std::string& unknown, const std::string& known) {
    const std::size_t found = compute_pool.find(unknown);
    if (found != std::string::npos) compute_pool.replace(found, unknown.size(), known);
  };
  replace(devices_json({}, 0), devices_json(names, nodes * static_cast<int>(names.size())));
  replace(device_json({}), device_json(names));
  return compute_pool;
}

std::string with_peer(std::string compute_pool, const Peer& peer) {
  // Here, too, no text inside a string can look like a key. Addresses contain nothing that JSON
  // escapes, so that each ends at the next quote.
  const auto replace = [&](const std::string& key) {
    const std::size_t found = compute_pool.find(key + '"');
    if (found == std::string::npos) return;
    const std::size_t begin = found + key.size();
    const std::size_t end = compute_pool.find('"', begin + 1);
    if (end == std::string::npos) return;
    compute_pool.replace(begin, end + 1 - begin, json_string(peer.private_ip));
  };
  replace(fmt::format(R"({{"node":{},"private_ip":)", peer.node));
  if (peer.node == 0) replace("\"head_addr\":");
  return compute_pool;
}

std::vector<std::size_t> shard_indices(std::size_t count, int index, int total,
                                       const ShardOptions& options) {
  SKYWARD_CHECK(total >= 1 && index >= 0 && index < total, "index {} of {}", index, total);
  const auto rank = static_cast<std::size_t>(index);
  const auto ranks = static_cast<std::size_t>(total);

  std::vector<std::size_t> order;
  if (options.shuffle_seed) {
    order.resize(count);
    std::iota(order.begin(), order.end(), std::size_t{0});
    shuffle(order, *options.shuffle_seed);
  }
  const auto at = [&](std::size_t position) { return order.empty() ? position : order[position]; };

  std::vector<std::size_t> mine;
  const std::size_t block = count / ranks;
  if (options.drop_last) {
    mine.reserve(block);
    for (std::size_t i = 0; i < block; ++i) mine.push_back(at(rank * block + i));
  } else {
    mine.reserve(block + 1);
    for (std::size_t position = rank; position < count; position += ranks) {
      mine.push_back(at(position));
    }
  }
  return mine;
}

}  // namespace skyward
