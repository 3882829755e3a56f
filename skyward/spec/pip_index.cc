#include "skyward/spec/pip_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "skyward/base/text.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/plain_text.h"

namespace skyward {

namespace {

// The name of a package as indexes compare it: "My.Package[extra]>=1" → "my-package". Empty for a
// URL or a path.
std::string package_name(std::string_view requirement) {
  requirement = trimmed(requirement, " ");
  std::string name;
  for (std::size_t i = 0; i < requirement.size(); ++i) {
    const char c = requirement[i];
    if (is_alphanumeric(c)) {
      name += lower(std::string_view(&c, 1));
    } else if (c != '-' && c != '_' && c != '.') {
      if (requirement.substr(i).starts_with("://")) return "";
      break;
    } else if (!name.ends_with('-')) {
      name += '-';
    }
  }
  return name;
}

bool is_package_name(std::string_view text) {
  return !text.empty() && is_alphanumeric(text.front()) && is_alphanumeric(text.back()) &&
         is_made_of(text, "-_.");
}

// A requirement that names where it comes from ("name @ URL") needs no index.
bool is_looked_up(std::string_view requirement) {
  return !requirement.contains('@') && !package_name(requirement).empty();
}

}  // namespace

Status validate_pip_indexes(const Image& image) {
  std::map<std::string, const PipIndex*> claimed;
  for (const PipIndex& index : image.pip_indexes) {
    if (index.packages.empty()) {
      return fail(ErrorKind::invalid, "PipIndex(packages=[]) names no package",
                  "name the packages that come from this index, or use pip_extra_index_url for an "
                  "index that may serve any package");
    }
    for (const std::string& package : index.packages) {
      if (!is_package_name(package)) {
        return fail(ErrorKind::invalid,
                    fmt::format("PipIndex(packages=[{}]) is not the name of a package",
                                json_string(package)),
                    "write it as \"torch\"; versions and extras belong in Image(pip=…)");
      }
      const std::string name = package_name(package);
      const auto [other, is_new] = claimed.emplace(name, &index);
      if (!is_new && other->second->url != index.url) {
        return fail(ErrorKind::invalid,
                    fmt::format("Image(pip_indexes=…): two indexes list {}", json_string(package)),
                    "list each package in one index");
      }
      const bool installed = std::ranges::any_of(image.pip, [&](const std::string& wanted) {
        return is_looked_up(wanted) && package_name(wanted) == name;
      });
      if (!installed) {
        return fail(ErrorKind::invalid,
                    fmt::format("Image(pip_indexes=…) lists {}, but Image(pip=…) does not",
                                json_string(package)),
                    fmt::format("add {} to pip: an index says where a package comes from, pip says "
                                "what is installed",
                                json_string(package)));
      }
    }
  }
  return {};
}

std::string index_project(const Image& image) {
  if (image.pip_indexes.empty()) return "";
  std::map<std::string, std::size_t> index_of;
  std::string indexes;
  for (std::size_t i = 0; i < image.pip_indexes.size(); ++i) {
    const PipIndex& index = image.pip_indexes[i];
    for (const std::string& package : index.packages) index_of.emplace(package_name(package), i);
    indexes += fmt::format("\n[[tool.uv.index]]\nname = \"index-{}\"\nurl = {}\nexplicit = true\n",
                           i, json_string(index.url));
  }
  std::string dependencies;
  for (const std::string& requirement : image.pip) {
    if (!is_looked_up(requirement) || !index_of.contains(package_name(requirement))) continue;
    dependencies += fmt::format("  {},\n", json_string(requirement));
  }
  std::string sources;
  for (const auto& [name, index] : index_of) {
    sources += fmt::format("{} = {{ index = \"index-{}\" }}\n", json_string(name), index);
  }
  return fmt::format(
      "[project]\nname = \"image\"\nversion = \"0\"\ndependencies = [\n{}]\n\n"
      "[tool.uv.sources]\n{}{}",
      dependencies, sources, indexes);
}

std::string without_logins(std::string_view text) {
  constexpr std::string_view kScheme = "://";
  std::string out;
  for (std::size_t at = text.find(kScheme); at != std::string_view::npos; at = text.find(kScheme)) {
    out += text.substr(0, at + kScheme.size());
    text.remove_prefix(at + kScheme.size());
    const std::string_view place = text.substr(0, text.find_first_of("/ \n\"'"));
    const std::size_t login = place.rfind('@');
    if (login != std::string_view::npos && !place.starts_with("git@")) {
      text.remove_prefix(login + 1);
    }
  }
  return out.append(text);
}

const std::string_view kInstallRequirements = R"bash(
install_requirements() {
  local uv=$1 environment=$2 folder='' status=0
  shift 2
  if [[ ${#requirements[@]} -eq 0 ]]; then return 0; fi
  if [[ ${SKYWARD_INDEX_PROJECT:-} ]]; then
    folder=$(mktemp -d -p "${SKYWARD_NODE_DIRECTORY:-${TMPDIR:-/tmp}}")
    printf '%s' "$SKYWARD_INDEX_PROJECT" >"$folder/pyproject.toml"
    set -- "$@" --requirement "$folder/pyproject.toml"
  fi
  set -- "$uv" pip install --quiet --python "$environment/bin/python" --requirement - "$@"
  printf '%s\n' "${requirements[@]}" | (
    SKYWARD_PATH=$PATH
    for SKYWARD_NAME in "${!SKYWARD_IMAGE_ENV_@}"; do
      SKYWARD_ENTRY=${SKYWARD_NAME#SKYWARD_IMAGE_ENV_}=${!SKYWARD_NAME}
      unset "$SKYWARD_NAME"
      if (export "${SKYWARD_ENTRY?}") 2>/dev/null; then # UID and others are bash's own
        export "${SKYWARD_ENTRY?}"
      fi
    done
    [[ $PATH == "$SKYWARD_PATH" ]] || PATH+=:$SKYWARD_PATH
    exec "$@"
  ) || status=$?
  rm -rf -- ${folder:+"$folder"}
  return "$status"
}
)bash";

}  // namespace skyward
