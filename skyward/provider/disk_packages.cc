#include "skyward/provider/disk_packages.h"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "skyward/io/file_tree.h"
#include "skyward/provider/local/environment.h"

namespace skyward::provider {

namespace {

namespace fs = std::filesystem;

// What building leaves in a project's folder does not count.
std::string look_of(const std::string& path) {
  const auto line_of = [](const io::TreeEntry& entry) {
    return fmt::format("{} {} {}\n", entry.path, entry.size, entry.modified_ns);
  };
  const auto is_source = [](std::string_view inside) {
    const std::string_view name = inside.substr(inside.rfind('/') + 1);
    return !name.starts_with('.') && !name.ends_with(".egg-info") && name != "__pycache__" &&
           inside != "build" && inside != "dist";
  };
  const fs::path whole = fs::path(path).lexically_normal();
  if (const auto file = io::entry_at(whole.parent_path(), whole.filename());
      file && file->kind == io::EntryKind::file) {
    return line_of(*file);
  }
  std::string text;
  const auto unreadable = [](const std::string&, const Error&) {};
  const auto entries = io::list_tree(path, is_source, unreadable);
  if (!entries) return "";  // uv says what is wrong
  for (const io::TreeEntry& entry : *entries) text += line_of(entry);
  return text;
}

}  // namespace

std::vector<DiskPackage> packages_on_disk(const std::vector<std::string>& requirements) {
  std::vector<DiskPackage> found;
  for (const std::string& requirement : requirements) {
    std::string path = disk_path_of(requirement);
    if (path.empty()) continue;
    std::string look = look_of(path);
    found.push_back({.path = std::move(path), .look = std::move(look)});
  }
  return found;
}

}  // namespace skyward::provider
