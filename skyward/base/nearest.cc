#include "skyward/base/nearest.h"

#include <algorithm>
#include <vector>

namespace skyward {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t exchanged = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, exchanged});
    }
  }
  return row[b.size()];
}

std::string_view nearest_word(std::string_view said, std::span<const std::string_view> words) {
  std::string_view best;
  std::size_t least = std::max<std::size_t>(2, said.size() / 3) + 1;
  for (const std::string_view word : words) {
    const bool begins_alike = !said.empty() && (word.starts_with(said) || said.starts_with(word));
    const std::size_t away = begins_alike ? 1 : edit_distance(said, word);
    if (away < least && away < std::max(said.size(), word.size())) {
      least = away;
      best = word;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view said, std::span<const std::string_view> words) {
  const std::string_view near = nearest_word(said, words);
  return near.empty() ? std::string() : "did you mean " + std::string(near) + "? ";
}

}  // namespace skyward
