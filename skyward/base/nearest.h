#pragma once

// Words that somebody may have meant.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace skyward {

// Letters to put in, take out or exchange to make one word the other.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The word that `said` most probably stands for; empty when none is near.
std::string_view nearest_word(std::string_view said, std::span<const std::string_view> words);

// How a hint begins: "did you mean offers? "; empty when none is near.
std::string did_you_mean(std::string_view said, std::span<const std::string_view> words);

}  // namespace skyward
