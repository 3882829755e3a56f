#include "skyward/provider/local/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/base/text.h"
#include "skyward/spec/image.h"
#include "skyward/spec/pip_index.h"
#include "skyward/spec/to_disk.h"

namespace skyward::provider {

namespace {

// The value in the quotes that Python's repr() gave it.
std::string unquoted(std::string_view text) {
  if (text.size() < 2 || (text.front() != '\'' && text.front() != '"')) return std::string(text);
  text = text.substr(1, text.size() - 2);
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    ++i;
    out += text[i] == 'n' ? '\n' : text[i] == 't' ? '\t' : text[i];
  }
  return out;
}

// The words of a text, joined by `separator`.
std::string joined_words(std::string_view text, std::string_view separator) {
  std::string out;
  for (std::size_t begin = text.find_first_not_of(kBlanks); begin != std::string_view::npos;) {
    const std::size_t end = text.find_first_of(kBlanks, begin);
    if (!out.empty()) out += separator;
    out += text.substr(begin, end == std::string_view::npos ? end : end - begin);
    begin = end == std::string_view::npos ? end : text.find_first_not_of(kBlanks, end);
  }
  return out;
}

// Whether a variable says who asks, and not what is asked for: "UV_INDEX_LAB_PASSWORD", "HF_TOKEN".
bool is_login(std::string_view variable) {
  constexpr std::array<std::string_view, 6> kEnds = {"_USERNAME", "_PASSWORD", "_TOKEN",
                                                     "_KEY",      "_KEY_ID",   "_SECRET"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return variable.ends_with(end); });
}

// Follows the assignments that environment_script() writes. All that comes from outside is in
// those, quoted. It runs in `/`, as the script for other machines does (remote_image.cc).
constexpr std::string_view kEnvironmentScript = R"bash(
cd /
say() { printf 'skyward: %s\n' "$*" >&2; }

# What no pool has used for a month makes room, and after a day what was never completed.
is_unused() {
  if [[ -e $1/skyward-ready && ! $(find "$1/skyward-ready" -mtime +30) ]]; then return 1; fi
  ! grep -qsF -- "${1##*/}" /proc/[0-9]*/environ /proc/[0-9]*/cmdline
}
make_room() {
  local old
  exec 9>&- # who needs this environment, too, need not wait
  find "${environment%/*}" -mindepth 1 -maxdepth 1 -type d -mmin +1440 |
    while IFS= read -r old; do
      [[ ${old##*/} =~ ^[0-9a-f]{16}$ ]] || continue # others are those of nodes
      is_unused "$old" || continue
      (flock -n 8 && is_unused "$old" && rm -rf -- "$old") 8>>"$old.lock"
    done || true
}

(umask 077 && mkdir -p -- "${environment%/*}")
chmod go-rwx -- "${environment%/*}" 2>/dev/null || true # earlier versions left it open
exec 9>"$environment.lock"
flock 9

if [[ -e $environment/skyward-ready ]] &&
  [[ $(version_of "$environment/bin/python"). == "$minor".* ]]; then
  touch -c -- "$environment/skyward-ready" || true # it is in use
  printf '%s\n' uv apt deps skyward >&3
  make_room
  exit 0
fi

if ! command -v "$uv" >/dev/null; then
  say "the program '$uv' was not found, and the packages of the image need it;" \
    "install it, for example with 'pip install uv'"
  exit 1
fi
echo uv >&3
echo apt >&3 # the system packages were looked up before the pool was opened

rm -rf -- "$environment"
if ! "$uv" venv --quiet --no-project --python "$python" -- "$environment" </dev/null; then
  say "could not create an environment with Python '$python'; see uv's output above"
  exit 1
fi
if ! install_requirements "$uv" "$environment" "${options[@]}"; then
  say "could not install the image's packages; see uv's output above"
  exit 1
fi
echo deps >&3

to_disk "$environment"
touch -- "$environment/skyward-ready"
echo skyward >&3
make_room
)bash";

}  // namespace

std::string disk_path_of(std::string_view requirement) {
  requirement = requirement.substr(0, requirement.find(';'));
  const std::size_t at = requirement.find('@');
  if (at != std::string_view::npos && !requirement.substr(0, at).contains('/')) {
    requirement.remove_prefix(at + 1);
  }
  requirement = trimmed(requirement, " ");
  const bool is_git = requirement.starts_with("git+");
  if (is_git) requirement.remove_prefix(4);
  constexpr std::string_view kScheme = "file://";
  constexpr std::string_view kThisHost = "localhost/";
  const bool is_url = requirement.starts_with(kScheme);
  if (is_url) requirement.remove_prefix(kScheme.size());
  if (is_url && requirement.starts_with(kThisHost)) requirement.remove_prefix(kThisHost.size() - 1);
  if (!requirement.starts_with('/') && !requirement.starts_with('.')) return "";
  requirement = requirement.substr(0, requirement.find('#'));
  if (is_git) requirement = requirement.substr(0, requirement.rfind('@'));  // the revision
  if (requirement.ends_with(']')) requirement = requirement.substr(0, requirement.rfind('['));
  return is_url ? percent_decode(requirement) : std::string(requirement);
}

std::string minor_version(std::string_view version) {
  const std::size_t first = version.find('.');
  const std::size_t second = first == std::string_view::npos ? first : version.find('.', first + 1);
  return std::string(version.substr(0, second));
}

// Of a folder, uv looks at the project's file alone to see whether it has changed. It refuses to
// look again when it is told to be offline.
std::string_view refresh_line(const EnvironmentRequest& request) {
  return request.contents.empty() ? "" : "[[ ${UV_OFFLINE:-} ]] || options+=(--refresh)\n";
}

std::string environment_key(const EnvironmentRequest& request) {
  std::vector<std::string> parts;
  for (const std::string& part : request.pip) parts.push_back(without_logins(part));
  std::ranges::sort(parts);
  std::string text = "3";  // the number of this recipe: a change in the script needs a new one
  const auto add = [&](std::string_view part) {
    text += fmt::format("\n{}:{}", part.size(), part);
  };
  add(request.python);
  add(request.version);
  add(request.machine);
  add(without_logins(request.extra_index.value_or("")));
  if (!request.index_project.empty()) add(without_logins(request.index_project));
  for (const auto* variables : {&request.variables, &request.indexes, &request.image_variables}) {
    for (const auto& [name, value] : *variables) {
      if (is_login(name)) continue;
      add(name);
      add(without_logins(value));
    }
  }
  if (request.sees_image) add("sees the image");
  for (const std::string& part : parts) add(part);
  for (const std::string& content : request.contents) add(content);
  return to_hex(sha256(as_bytes(text))).substr(0, 16);
}

std::string environment_directory(const EnvironmentRequest& request) {
  return request.root + "/" + environment_key(request);
}

std::string environment_python(const EnvironmentRequest& request) {
  return environment_directory(request) + "/bin/python";
}

std::string environment_marker(const EnvironmentRequest& request) {
  return environment_directory(request) + "/skyward-ready";
}

std::string environment_script(const EnvironmentRequest& request, bool no_index) {
  std::string list;
  for (const std::string& requirement : request.pip) {
    if (!list.empty()) list += ' ';
    list += shell_quote(requirement);
  }
  return fmt::format(
      "#!/bin/bash\n"
      "set -euo pipefail\n"
      "environment={}\n"
      "python={}\n"
      "minor={}\n"
      "uv={}\n"
      "requirements=({})\n"
      "options=({})\n"
      "{}{}{}{}{}",
      shell_quote(environment_directory(request)), shell_quote(request.python),
      request.version.empty() ? "3" : shell_quote(minor_version(request.version)),
      shell_quote(request.uv), list, no_index ? "--no-index" : "", refresh_line(request),
      kInstallRequirements, kVersionOf, kToDisk, kEnvironmentScript);
}

std::map<std::string, std::string> parse_pip_config(std::string_view text) {
  constexpr std::array<std::string_view, 3> kSections = {"global.", "install.", ":env:."};
  std::map<std::string, std::string> found;
  for (const std::string_view section : kSections) {  // later ones overwrite
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t end = text.find('\n', begin);
      if (end == std::string_view::npos) end = text.size();
      const std::string_view line = text.substr(begin, end - begin);
      begin = end + 1;
      const std::size_t equals = line.find('=');
      if (equals == std::string_view::npos || !line.starts_with(section)) continue;
      found[std::string(line.substr(section.size(), equals - section.size()))] =
          unquoted(line.substr(equals + 1));
    }
  }
  return found;
}

UvSettings uv_settings(const std::map<std::string, std::string>& pip,
                       const std::optional<std::string>& image_extra_index,
                       const std::function<std::optional<std::string>(const char*)>& variable) {
  UvSettings settings;
  const auto set = [&](const char* name, std::string value) {
    if (!value.empty()) settings.environment.emplace_back(name, std::move(value));
  };
  const auto from_pip = [&](const char* option) { return value_at(pip, option); };

  std::string extra = variable("UV_EXTRA_INDEX_URL").value_or("");
  bool several = false;
  const bool own_index = variable("UV_INDEX_URL") || variable("UV_DEFAULT_INDEX") ||
                         variable("UV_INDEX") || variable("UV_EXTRA_INDEX_URL");
  if (!own_index) {
    set("UV_INDEX_URL", joined_words(from_pip("index-url"), " "));
    extra = joined_words(from_pip("extra-index-url"), " ");
    several = !extra.empty();
    const std::string no_index = from_pip("no-index");
    settings.no_index = no_index == "true" || no_index == "1" || no_index == "yes";
  }
  if (image_extra_index) {
    extra += (extra.empty() ? "" : " ") + *image_extra_index;
    several = true;
  }
  if (several) {
    set("UV_EXTRA_INDEX_URL", extra);
    // pip takes the best version of all indexes; uv alone would stop at the first that knows a
    // name.
    if (!variable("UV_INDEX_STRATEGY")) set("UV_INDEX_STRATEGY", "unsafe-best-match");
  }

  struct Pair {
    const char* uv;
    const char* pip;
    const char* separator;
  };
  constexpr std::array<Pair, 4> kPairs = {{{"UV_FIND_LINKS", "find-links", ","},
                                           {"UV_INSECURE_HOST", "trusted-host", " "},
                                           {"UV_HTTP_TIMEOUT", "default-timeout", " "},
                                           {"SSL_CERT_FILE", "cert", " "}}};
  for (const Pair& pair : kPairs) {
    if (!variable(pair.uv)) set(pair.uv, joined_words(from_pip(pair.pip), pair.separator));
  }
  if (!variable("HTTPS_PROXY") && !variable("https_proxy") && !variable("ALL_PROXY")) {
    set("ALL_PROXY", from_pip("proxy"));
  }
  return settings;
}

}  // namespace skyward::provider
