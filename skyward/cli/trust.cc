#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "skyward/cli/commands.h"
#include "skyward/cli/print_json.h"
#include "skyward/display/display_text.h"
#include "skyward/io/file.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/settings.h"
#include "skyward/provider/settings_file.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {

namespace {

using provider::World;

// As pools find it: absolute, without links on the way.
Result<std::string> file_at(const std::string& said) {
  std::error_code error;
  std::filesystem::path path(said);
  if (std::filesystem::is_directory(path, error)) path /= "skyward.toml";
  return io::resolved_path(path.string());
}

// "ssh.hosts", for what would not count otherwise.
std::vector<std::string> settings_that_need_it(const provider::SettingsFile& file) {
  std::vector<std::string> names;
  for (const auto& [provider_name, values] : file.providers) {
    const ProviderSheet* sheet = find_provider_sheet(provider_name);
    if (sheet == nullptr) continue;
    for (const auto& [name, value] : values) {
      const ProviderSetting* setting = find_setting(*sheet, name);
      if (setting == nullptr || setting->from_project == FromProject::anybody) continue;
      names.push_back(fmt::format("{}.{}", provider_name, name));
    }
  }
  return names;
}

}  // namespace

int trust_settings(const Streams& streams, const std::string& said) {
  const World world = provider::world_of_this_process();
  const auto path = file_at(said);
  if (!path) return complain(streams, path.error());
  const auto text = world.read_safely(*path, false);
  if (!text) return complain(streams, provider::with_way_out(world, *path, text.error()));
  const auto file = provider::parse_settings_file(*text, *path, provider::home_directory(world));
  if (!file) return complain(streams, file.error());
  const std::vector<std::string> named = provider::files_named_in(*file);
  if (Status kept = provider::trust_file(world, *path, *text, named); !kept) {
    return complain(streams, kept.error());
  }
  const std::vector<std::string> names = settings_that_need_it(*file);
  if (streams.json) {
    print_json(streams, nlohmann::ordered_json{{"path", *path}, {"settings", names}});
    return 0;
  }
  streams.out << fmt::format("{} is trusted until it changes; {}\n", printable_line(*path),
                             names.empty() ? "no setting in it needs trust"
                                           : fmt::format("it sets {}", fmt::join(names, ", ")));
  return 0;
}

int distrust_settings(const Streams& streams, const std::string& said) {
  const World world = provider::world_of_this_process();
  const auto path = file_at(said);
  if (!path) return complain(streams, path.error());
  const std::string record = provider::trust_record(world, *path);
  if (record.empty() || !io::exists(record)) {
    return complain(streams, {ErrorKind::invalid, fmt::format("{} is not trusted", *path),
                              "'skyward config trusted' lists the files that are"});
  }
  if (Status gone = io::remove_tree(record); !gone) return complain(streams, gone.error());
  if (streams.json) print_json(streams, nlohmann::ordered_json{{"path", *path}});
  return 0;
}

int list_trusted(const Streams& streams) {
  const World world = provider::world_of_this_process();
  const std::string directory = provider::trust_directory(world);
  const std::string home = provider::home_directory(world);
  for (const std::string& name : io::list_directory(directory)) {
    const auto record = world.read_safely(directory + "/" + name, false);
    const std::string path = provider::path_in_trust_record(record.value_or(""));
    if (path.empty() || provider::trust_record(world, path) != directory + "/" + name) continue;
    const auto text = world.read_safely(path, false);
    const auto file = text ? provider::parse_settings_file(*text, path, home)
                           : fail(ErrorKind::invalid, "it is gone");
    const bool current =
        file && provider::trust_in(world, path, *text, provider::files_named_in(*file)) ==
                    provider::Trust::given;
    if (streams.json) {
      print_json(streams, nlohmann::ordered_json{{"path", path}, {"current", current}});
    } else {
      streams.out << printable_line(path) << (current ? "" : " (changed since, or gone)") << '\n';
    }
  }
  return 0;
}

}  // namespace skyward::cli
