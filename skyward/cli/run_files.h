#pragma once

// Which files `skyward run` sends, and their content.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/io/file_tree.h"
#include "skyward/run/order.h"

namespace skyward::cli {

struct ChosenFiles {
  std::vector<io::TreeEntry> entries{};
  std::vector<std::string> notes{};  // for people: what is not sent, and why
};

// Of a directory: what git tracks or would track there; outside of a repository, all but hidden
// files. In one that git cannot list, it fails, unless the user named the directory: then all but
// hidden files. `output`, which the command writes, is left out.
Result<ChosenFiles> choose_files(const std::string& root, const std::string& output, bool is_named);

// Pure: what git's error says to do about a repository of another user, as a job's files often are
// in a container; otherwise empty.
std::string advice_of_git(std::string_view said);

// Pure: one line about files whose names say that they hold secrets; empty when there are none.
std::string secrets_note(const std::vector<io::TreeEntry>& entries);

// Pure: leaves out what cannot be sent, and says so. `entries`: as they were found.
ChosenFiles sendable(std::vector<io::TreeEntry> entries, const std::string& output);

// Fails with `exhausted` when it is more than `max_bytes`, and names the largest.
Status check_size(const std::vector<io::TreeEntry>& entries, std::uint64_t max_bytes);

struct PackedFiles {
  std::vector<run::SentEntry> entries{};
  std::vector<std::uint8_t> content{};
};
Result<PackedFiles> pack(const std::string& root, const std::vector<io::TreeEntry>& entries);

// "12.5 MB"
std::string size_text(std::uint64_t bytes);

}  // namespace skyward::cli
