#include "skyward/cli/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "skyward/io/process.h"
#include "skyward/spec/secret_files.h"

namespace skyward::cli {

namespace {

constexpr Duration kGitTimeout = std::chrono::seconds(60);
constexpr std::size_t kNamedFiles = 3;

bool is_below(std::string_view path, std::string_view folder) {
  return !folder.empty() && path.starts_with(folder) &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

std::vector<std::string> split_at_zeros(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\0'), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// Whether this directory or one above has a .git, as far as can be seen.
bool is_in_repository(std::string folder) {
  namespace fs = std::filesystem;
  while (true) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(fs::path(folder) / ".git", error))) return true;
    const std::string parent = fs::path(folder).parent_path();
    if (parent.empty() || parent == folder) return false;
    folder = parent;
  }
}

// What git tracks or would track there. The hint of an error: what git advises.
Result<std::vector<std::string>> paths_of_git(const std::string& root) {
  io::SpawnOptions git;
  // The repository's configuration may not choose programs to run: no monitor of its files, and no
  // way to fetch objects that a partial clone does not have.
  git.command = {"git",      "-C", root,       "-c",       "core.fsmonitor=false",
                 "ls-files", "-z", "--cached", "--others", "--exclude-standard"};
  git.environment = {{"LC_ALL", "C"},
                     {"GIT_OPTIONAL_LOCKS", "0"},
                     {"GIT_NO_LAZY_FETCH", "1"},               // since git 2.44
                     {"GIT_ALLOW_PROTOCOL", "none"}};          // before it
  git.unset = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"};  // of another repository
  const auto answer = io::run_command(git, kGitTimeout);
  if (!answer) return fail(answer);
  if (answer->status.code != 0 || answer->status.signal != 0) {
    return fail(ErrorKind::invalid,
                answer->err.empty() ? answer->status.describe()
                                    : answer->err.substr(0, answer->err.find('\n')),
                advice_of_git(answer->err));
  }
  std::vector<std::string> paths = split_at_zeros(answer->out);
  std::ranges::sort(paths);
  const auto repeated = std::ranges::unique(paths);  // of a merge that goes on
  paths.erase(repeated.begin(), repeated.end());
  return paths;
}

std::uint64_t size_of(const std::vector<io::TreeEntry>& entries) {
  const auto add = [](std::uint64_t sum, const io::TreeEntry& entry) { return sum + entry.size; };
  return std::accumulate(entries.begin(), entries.end(), std::uint64_t{0}, add);
}

bool is_visible(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return !name.starts_with('.') && name != "__pycache__";
}

}  // namespace

std::string advice_of_git(std::string_view said) {
  const std::size_t start = said.find("git config --global --add safe.directory ");
  if (start == std::string_view::npos) return "";
  said.remove_prefix(start);
  return fmt::format("if you trust this repository, run: {}", said.substr(0, said.find('\n')));
}

ChosenFiles sendable(std::vector<io::TreeEntry> entries, const std::string& output) {
  ChosenFiles chosen;
  for (io::TreeEntry& entry : entries) {
    if (is_below(entry.path, output)) continue;
    if (entry.kind == io::EntryKind::link && !io::is_inner_link(entry.path, entry.target)) {
      chosen.notes.push_back(
          fmt::format("not sent: {}, a link to {}, which is outside", entry.path, entry.target));
    } else if (entry.kind == io::EntryKind::other) {
      chosen.notes.push_back(
          fmt::format("not sent: {}, which is neither a file nor a directory", entry.path));
    } else {
      chosen.entries.push_back(std::move(entry));
    }
  }
  return chosen;
}

std::string secrets_note(const std::vector<io::TreeEntry>& entries) {
  std::string named;
  std::size_t found = 0;
  for (const io::TreeEntry& entry : entries) {
    if (entry.kind == io::EntryKind::directory || !may_be_secret(entry.path)) continue;
    if (++found <= kNamedFiles) named += (named.empty() ? "" : ", ") + entry.path;
  }
  if (found == 0) return "";
  if (found > kNamedFiles) named += fmt::format(" and {} more", found - kNamedFiles);
  return fmt::format(
      "warning: sending files that may hold secrets: {}; to keep them here, move them elsewhere, "
      "or list them in the .gitignore of a repository",
      named);
}

Result<ChosenFiles> choose_files(const std::string& root, const std::string& output,
                                 bool is_named) {
  const auto paths = paths_of_git(root);
  if (!paths) {
    const bool in_repository = is_in_repository(root);
    if (in_repository && !is_named) {
      return fail(ErrorKind::invalid,
                  fmt::format("git cannot list the files in {}: {}", root, paths.error().message),
                  fmt::format("{}; or send everything but hidden files with --sync ., or nothing "
                              "with --no-sync",
                              paths.error().hint.empty() ? "fix that" : paths.error().hint));
    }
    auto entries = io::list_tree(root, is_visible);
    if (!entries) return fail(entries);
    ChosenFiles chosen = sendable(*std::move(entries), output);
    chosen.notes.insert(
        chosen.notes.begin(),
        in_repository
            ? fmt::format("git cannot list the files in {}: sending everything except hidden files",
                          root)
            : "not a git repository, or git is not installed: sending everything except hidden "
              "files");
    return chosen;
  }
  std::vector<io::TreeEntry> entries;
  std::vector<std::string> notes;
  for (const std::string& path : *paths) {
    const auto entry =
        io::entry_at(root, path.ends_with('/') ? path.substr(0, path.size() - 1) : path);
    if (!entry) continue;  // deleted, and git does not know it yet
    if (entry->kind == io::EntryKind::directory) {
      notes.push_back(fmt::format("not sent: {}, a separate repository", path));
    } else {
      entries.push_back(*entry);
    }
  }
  ChosenFiles chosen = sendable(std::move(entries), output);
  chosen.notes.insert(chosen.notes.end(), notes.begin(), notes.end());
  return chosen;
}

Status check_size(const std::vector<io::TreeEntry>& entries, std::uint64_t max_bytes) {
  const std::uint64_t sum = size_of(entries);
  if (sum <= max_bytes) return {};
  std::vector<io::TreeEntry> sorted = entries;
  std::ranges::stable_sort(sorted, std::ranges::greater{}, &io::TreeEntry::size);
  sorted.resize(std::min(sorted.size(), kNamedFiles));
  std::string largest;
  for (const io::TreeEntry& entry : sorted) {
    largest +=
        fmt::format("{}{} ({})", largest.empty() ? "" : ", ", entry.path, size_text(entry.size));
  }
  return fail(ErrorKind::exhausted,
              fmt::format("the files to send total {}; the limit is {}; the largest: {}",
                          size_text(sum), size_text(max_bytes), largest),
              "name what is not needed in .gitignore, send a smaller directory with --sync DIR, "
              "or raise the limit with --max-sync");
}

Result<PackedFiles> pack(const std::string& root, const std::vector<io::TreeEntry>& entries) {
  PackedFiles packed;
  packed.content.reserve(size_of(entries));
  std::vector<std::byte> part(run::kDataBytes);
  for (const io::TreeEntry& entry : entries) {
    run::SentEntry sent{
        .kind = entry.kind, .path = entry.path, .mode = entry.mode, .target = entry.target};
    if (entry.kind == io::EntryKind::file) {
      auto file = io::TreeFile::open(root, entry.path);
      if (!file) return fail(file);
      while (true) {
        const auto count = file->read(part);
        if (!count) return fail(count);
        if (*count == 0) break;
        const auto* bytes = reinterpret_cast<const std::uint8_t*>(part.data());
        packed.content.insert(packed.content.end(), bytes, bytes + *count);
        sent.size += *count;
      }
    }
    packed.entries.push_back(std::move(sent));
  }
  return packed;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, kUnits[unit]);
}

}  // namespace skyward::cli
