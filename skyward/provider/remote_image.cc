#include "skyward/provider/remote_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <map>

#include "skyward/base/bytes.h"
#include "skyward/base/hash.h"
#include "skyward/base/text.h"
#include "skyward/io/file.h"
#include "skyward/io/machine.h"
#include "skyward/provider/disk_packages.h"
#include "skyward/provider/pip_settings.h"
#include "skyward/provider/uv_config.h"
#include "skyward/provider/volume_script.h"
#include "skyward/spec/apt_script.h"
#include "skyward/spec/image.h"
#include "skyward/spec/json_text.h"
#include "skyward/spec/pip_index.h"
#include "skyward/spec/provider_settings.h"
#include "skyward/spec/to_disk.h"

namespace skyward::provider {

namespace {

// Where everything is kept on a node, for bash and for sh: where the agent was brought to. The line
// that started it says so (engine/link_entry.cc): a pool's HOME may be another one.
constexpr std::string_view kRoot = "root=${SKYWARD_ROOT:?}\nunset SKYWARD_ROOT\n";

// What an environment is for, besides its key: machines of several kinds may share a home.
constexpr std::string_view kSystem =
    "system=$(unset ID VERSION_ID; [ ! -r /etc/os-release ] || . /etc/os-release; "
    "printf %s \"$(command -p uname -m)${ID:+-$ID}${VERSION_ID:+-$VERSION_ID}\")\n";

// Follows the assignments that plan_remote_image() writes. All that comes from outside is in those,
// quoted, or in the environment. It runs in `/`: uv reads settings from the directory it is started
// in and from those above, and anyone may write to the /tmp above a node's.
constexpr std::string_view kUntilPackages = R"bash(
say() { printf 'skyward: %s\n' "$*" >&2; }
step() { printf '%s\n' "$1" >&3; }
tell() { printf 'say %s\n' "$*" >&3; } # to the user

(umask 077 && mkdir -p -- "$root/environments" "$root/archives")
chmod go-rwx -- "$root" 2>/dev/null || true # earlier versions left it open
environment=$root/environments/$key-$system
exec 9>"$environment.lock"
flock 9 2>/dev/null || true # some file systems have no locks, or none between machines
# It may refer to a Python that only another machine has: that one goes on using it.
if [[ -e $environment/skyward-ready && ! -x $environment/bin/python ]]; then
  environment+=-$(uname -n)
fi
new=$environment.$(mktemp -u XXXXXXXXXX) # several machines may build it at once

# This computer has looked at packages on a disk, which may be another one there. Builds write some
# files themselves.
has_changed() {
  local place=${1%/}
  [[ $(find "$place" \( -name '.?*' -o -name '*.egg-info' -o -name __pycache__ \
    -o -path "$place/build" -o -path "$place/dist" \) ! -path "$place" -prune \
    -o -type f -cnewer "$environment/skyward-ready" -print -quit 2>/dev/null) ]]
}
is_ready() {
  local place
  [[ -e $environment/skyward-ready &&
    $(version_of "$environment/bin/python"). == "$minor".* ]] || return 1
  for place in "${on_disk[@]}"; do
    if has_changed "$place"; then return 1; fi
  done
}
ready=
if [[ -z $python ]] || is_ready; then ready=yes; fi

# uv: sent along, the node's own, or installed with pip. A Python that fits is enough where
# nothing is to be installed; uv is not sent there. `base` is that Python, or that of an image whose
# packages are to be `visible`: the one that its PATH puts first.
uv=
base=
makes_environments() { "$1" -ISc "import venv" </dev/null >/dev/null 2>&1; }
find_uv() {
  local candidate
  for candidate in ${uv_file:+"$root/files/$uv_file"} "$(command -v uv || true)" \
    "${HOME:-}/.local/bin/uv" "$root/uv/bin/uv"; do
    if [[ -x $candidate ]] && "$candidate" --version >/dev/null 2>&1; then uv=$candidate; return; fi
  done
}
find_base() {
  local candidate candidates=("python$minor" python3 python)
  if [[ $visible ]]; then candidates=(python python3 "python$minor"); fi
  for candidate in "${candidates[@]}"; do
    [[ $(version_of "$candidate") == "$python" ]] || continue
    if [[ $uv ]] || makes_environments "$candidate"; then
      base=$(command -v "$candidate")
      return
    fi
  done
}
if [[ ! $ready ]]; then
  find_uv
  if [[ $visible || (! $uv && ${#requirements[@]} -eq 0) ]]; then find_base; fi
  if [[ ! $uv && (! $base || ${#requirements[@]} -gt 0) ]]; then
    say "there is no uv on this machine; trying pip"
    if ! python3 -m pip install --quiet --disable-pip-version-check --target "$root/uv" uv \
      </dev/null; then
      say "no uv and no Python $python were found here, and pip could not install uv (see above);" \
        "install uv on the machine that opens the pool, or uv or Python $python on this one"
      exit 1
    fi
    find_uv
    if [[ $visible ]]; then find_base; fi
  fi
fi
step uv

# Of a virtual environment on PATH, --system-site-packages would show those of the Python below it.
see_image() {
  local place other
  if [[ $base ]]; then
    place=$("$new/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
      </dev/null)
    "$base" -c '
import site, sys
if sys.prefix != sys.base_prefix:
    for place in site.getsitepackages():
        print(f"import site; site.addsitedir({place!r})")' </dev/null >"$place/skyward_image.pth"
    return
  fi
  other=$(version_of python)
  other=${other:-$(version_of python3)}
  if [[ $other ]]; then
    tell "the Python of the machine's image is $other, and tasks need $python:" \
      "they do not see the image's packages"
  fi
}

for package in "${programs[@]}"; do
  command -v "$package" >/dev/null || packages+=("$package")
done
install_packages "${packages[@]}"
step apt

if [[ ! $ready ]]; then
  trap 'rm -rf -- "$new" "$new.link" || true' EXIT
  flags=()
  if [[ $visible && $base ]]; then flags=(--system-site-packages); fi
  if [[ $base ]] && makes_environments "$base"; then
    "$base" -m venv "${flags[@]}" --without-pip -- "$new" </dev/null
  elif ! "$uv" venv --quiet --no-project "${flags[@]}" --python "${base:-$python}" -- "$new" \
    </dev/null; then
    say "could not create an environment with Python $python; see uv's output above"
    exit 1
  fi
  if [[ $visible ]]; then see_image; fi
  if ! install_requirements "$uv" "$new" "${options[@]}"; then
    say "could not install the image's packages; see uv's output above"
    exit 1
  fi
else
  exec 9>&- # who needs this environment, too, need not wait for our volumes
fi
step deps
)bash";

constexpr std::string_view kModules = R"bash(
declare -A unpacked=()
for name in "${archives[@]}"; do
  if [[ -d $root/archives/$name ]]; then continue; fi
  unpacked[$name]=$(mktemp -d "$root/archives/new-XXXXXXXX")
  tar -xf "$root/files/$name" -C "${unpacked[$name]}"
  chmod 755 "${unpacked[$name]}"
  touch -- "${unpacked[$name]}"
done
# The environment, too, is there but for its marker.
if [[ ! $ready || ${#unpacked[@]} -gt 0 ]]; then to_disk "$root"; fi
for name in "${!unpacked[@]}"; do
  mv -T -- "${unpacked[$name]}" "$root/archives/$name" 2>/dev/null ||
    rm -rf -- "${unpacked[$name]}"
done
for name in "${archives[@]}"; do
  touch -c -- "$root/archives/$name" || true
done
# What no pool has asked for in a month makes room, and after a week what is not among the newest
# twenty, unless a process uses it. Machines that share a home do not see each other's processes.
make_room() {
  local old rank=0 days=30 most=30
  case $(stat -f -c %T -- "$root" 2>/dev/null) in
    ext* | xfs | btrfs | zfs | tmpfs | overlay*) most=7 ;; # no other machine has processes here
  esac
  if [[ ! $(find "$@" -maxdepth 0 -mtime +7 2>/dev/null) ]]; then return; fi
  stat -c '%Y %n' -- "$@" 2>/dev/null | sort -rn |
    while read -r _ old; do
      rank=$((rank + 1))
      if [[ $rank -gt 20 ]]; then days=$most; fi
      [[ $(find "$old" -maxdepth 0 -mtime +$days 2>/dev/null) ]] || continue
      old=${old%/skyward-agent}
      grep -qsF -- "${old##*/}" /proc/[0-9]*/environ /proc/[0-9]*/cmdline || rm -rf -- "$old"
    done || true
}
if [[ -d /proc/self ]]; then
  make_room "$root"/files/*
  make_room "$root"/archives/*
  make_room "$root"/agents/*/skyward-agent # its time is that of the last pool
fi
if [[ ! $ready ]]; then
  if [[ ${#archives[@]} -gt 0 ]]; then
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/archives/${archives[0]} \
      "$new/bin/python" -c 'import cloudpickle' </dev/null
  fi
  # Another machine may have been faster, where locks do not reach it.
  if is_ready; then
    rm -rf -- "$new"
  else
    touch -- "$new/skyward-ready"
    ln -s -- "${new##*/}" "$new.link"
    touch -c -- "$environment" || true # what is replaced stays for a day: workers may use it
    mv -T -- "$new.link" "$environment"
  fi
  trap - EXIT
fi
# What was killed while it built, and what was replaced.
linked=' '
for link in "$root"/environments/*; do
  if [[ -L $link ]]; then linked+="$(readlink -- "$link") "; fi
done
find "$root/environments" -mindepth 1 -maxdepth 1 -type d -name '*.??????????' -mmin +1440 |
  while IFS= read -r old; do
    [[ $linked == *" ${old##*/} "* ]] || rm -rf -- "$old"
  done || true
step skyward
)bash";

bool is_address(std::string_view value) {
  return value.contains("://") && !value.starts_with("file:");
}

// Those of --find-links that a node can reach.
std::string addresses_in(std::string_view links) {
  std::string found;
  while (!links.empty()) {
    const std::size_t end = std::min(links.find(','), links.size());
    const std::string_view link = trimmed(links.substr(0, end));
    links.remove_prefix(std::min(end + 1, links.size()));
    if (is_address(link)) found += (found.empty() ? "" : ",") + std::string(link);
  }
  return found;
}

// Variables of the client that mean the same on a node.
constexpr std::array kForwarded = {
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_INDEX_STRATEGY",
    "UV_INSECURE_HOST",
    "UV_HTTP_TIMEOUT",
    "UV_PYTHON_INSTALL_MIRROR",
    "UV_PYTHON_PREFERENCE",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_TRUSTED_HOST",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
};

bool is_proxy(std::string_view variable) { return lower(variable).ends_with("_proxy"); }

// Nodes would look for such a proxy on themselves, and lose their own.
bool has_own_proxy(const Variable& variable) {
  return std::ranges::any_of(kForwarded, [&](const char* name) {
    return is_proxy(name) && lower(name) != "no_proxy" && is_own_proxy(variable(name).value_or(""));
  });
}

// The names of the variables in which uv finds the credentials of the named indexes ("name=URL")
// that a text lists.
std::vector<std::string> credentials_of(std::string_view indexes) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < indexes.size();) {
    const std::size_t end = std::min(indexes.find_first_of(kBlanks, begin), indexes.size());
    const std::string_view word = indexes.substr(begin, end - begin);
    begin = end + 1;
    const std::string_view name = word.substr(0, word.find('='));
    if (name.size() == word.size() || is_address(name)) continue;
    std::string variable = "UV_INDEX_" + upper(name);
    std::ranges::replace_if(variable, [](char c) { return !is_alphanumeric(c); }, '_');
    names.push_back(variable + "_USERNAME");
    names.push_back(variable + "_PASSWORD");
  }
  return names;
}

// The client's own variables and, where they do not overrule it, what its files of uv say.
Variable with_uv_config(const Variable& own, std::map<std::string, std::string> config) {
  if (own("UV_DEFAULT_INDEX") || own("UV_INDEX_URL")) config.erase("UV_DEFAULT_INDEX");
  return [own, config](const char* name) -> std::optional<std::string> {
    std::optional<std::string> set = own(name);
    const auto found = config.find(name);
    if (found == config.end()) return set;
    if (!set) return found->second;
    const std::string_view separator = uv_separator(name);
    return separator.empty() ? *set : *set + std::string(separator) + found->second;
  };
}

std::string list_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : " ") + shell_quote(word);
  return list;
}

Result<Upload> upload_of(const std::string& path) {
  auto file = io::open_file(path);
  const auto bytes =
      file ? io::read_file(*file, path, std::numeric_limits<std::size_t>::max()) : fail(file);
  if (!bytes || bytes->empty()) {
    return fail(ErrorKind::invalid, fmt::format("the file {} cannot be read", path),
                "nodes need it: check that it is there and not empty, or install skyward again");
  }
  return Upload{.path = path,
                .sha256 = to_hex(sha256(as_bytes(*bytes))),
                .size = bytes->size(),
                .file = std::make_shared<const io::FileDescriptor>(*std::move(file))};
}

// The command that succeeds on nodes to which uv need not be sent: nothing is to be installed, and
// they have the Python that is asked for, or a uv. Empty: it is sent to all.
std::string enough_without_uv(const EnvironmentRequest& request) {
  if (!request.pip.empty()) return "";
  if (minor_version(request.python) != request.python) return "uv --version";
  return fmt::format("{{ python{} -ISc \"import venv\" || uv --version; }}", request.python);
}

// What a node finds under the hashes of its uploads.
struct SentFiles {
  std::vector<std::string> archives{};
  std::string uv{};
  std::string program{};
};

Result<SentFiles> add_uploads(std::vector<Upload>& uploads, const PoolSpec& spec,
                              const EnvironmentRequest& request, const std::string& architecture) {
  SentFiles files;
  const auto send = [&](const std::string& path) -> Result<std::string> {
    Result<Upload> upload = upload_of(path);
    if (!upload) return fail(upload);
    uploads.push_back(*upload);
    return upload->sha256;
  };
  for (const std::string& path : spec.runtime.archives) {
    const Result<std::string> name = send(path);
    if (!name) return fail(name);
    files.archives.push_back(*name);
  }
  const bool has_python = !spec.runtime.python.empty();
  const bool is_other = !architecture.empty() && architecture != own_architecture();
  const Result<std::string> uv =
      has_python && is_other ? fetch_uv(spec.runtime.python, architecture) : spec.runtime.uv;
  if (!uv) return fail(uv);
  if (has_python && !uv->empty()) {
    const Result<std::string> name = send(*uv);
    if (!name) return fail(name);
    files.uv = *name;
    uploads.back().unless = enough_without_uv(request);
  }
  if (!has_python && spec.runtime.command[0] != kAgentWord) {  // a C++ worker is the program itself
    const Result<std::string> name = send(spec.runtime.command[0]);
    if (!name) return fail(name);
    files.program = *name;
  }
  return files;
}

EnvironmentRequest request_of(const PoolSpec& spec, const std::vector<DiskPackage>& packages) {
  EnvironmentRequest request;
  request.pip = spec.image.pip;
  for (const DiskPackage& package : packages) request.contents.push_back(package.look);
  request.extra_index = spec.image.pip_extra_index_url;
  request.index_project = index_project(spec.image);
  request.python = spec.image.python;
  const auto client = spec.runtime.environment.find("SKYWARD_CLIENT_PYTHON");
  if (client != spec.runtime.environment.end() &&
      (request.python.empty() || request.python == "auto")) {
    request.python = client->second;
  }
  request.variables = steering_variables(spec);
  if (!request.pip.empty()) request.image_variables = spec.image.env;
  return request;
}

// What uv and pip read on the node while they install the packages. `no_index` as the settings of
// uv or pip here say; where the nodes would then find nothing, it fails.
Result<UvSettings> install_settings(const PoolSpec& spec, const EnvironmentRequest& request,
                                    const Variable& variable, Proxies proxies) {
  const std::map<std::string, std::string> own_proxies = variables_of(spec, &is_proxy);
  const bool keeps_proxies = proxies == Proxies::given || has_own_proxy(variable);
  const Variable own = [&](const char* name) -> std::optional<std::string> {
    const auto given = request.variables.find(name);
    if (given != request.variables.end()) return given->second;
    if (is_proxy(name)) {
      const auto proxy = own_proxies.find(name);
      if (proxy != own_proxies.end()) return proxy->second;
      // HTTP_PROXY and http_proxy are one setting: the node gets no second value for it.
      const bool is_given = std::ranges::any_of(
          own_proxies, [&](const auto& one) { return lower(one.first) == lower(name); });
      if (is_given || keeps_proxies) return std::nullopt;
    }
    std::optional<std::string> here = variable(name);
    if (here && std::string_view(name) == "UV_FIND_LINKS") here = addresses_in(*here);
    return here && here->empty() ? std::nullopt : here;
  };
  const bool has_python = !spec.runtime.python.empty();
  std::map<std::string, std::string> pip;
  UvConfig uv;
  if (has_python && !spec.image.pip.empty()) {
    auto said = pip_config(spec.runtime.python);
    if (!said) return fail(said);
    pip = *std::move(said);
    if (proxies == Proxies::given || is_own_proxy(value_at(pip, "proxy"))) pip.erase("proxy");
    Result<UvConfig> read = read_uv_config(uv_config_files(own));
    if (!read) return fail(read);
    uv = *std::move(read);
    const auto links = uv.variables.find("UV_FIND_LINKS");
    if (links != uv.variables.end()) links->second = addresses_in(links->second);
    std::erase_if(uv.variables, [](const auto& pair) { return pair.second.empty(); });
  }
  const Variable all = with_uv_config(own, uv.variables);
  UvSettings settings = uv_settings(pip, request.extra_index, all);
  std::vector<std::pair<std::string, std::string>>& environment = settings.environment;
  environment = index_environment(settings, all);
  if (uv.no_index) settings.no_index = *uv.no_index;
  const bool has_links = std::ranges::any_of(
      environment, [](const auto& pair) { return pair.first == "UV_FIND_LINKS"; });
  if (settings.no_index && !has_links) {
    const bool is_of_uv = uv.no_index.has_value();
    return fail(
        ErrorKind::invalid,
        fmt::format("the configuration of {} forbids indexes (no-index), and its packages are in "
                    "folders of this computer, which nodes do not have; nothing was started",
                    is_of_uv ? "uv" : "pip"),
        fmt::format("set {}UV_DEFAULT_INDEX to an index that the nodes can reach",
                    is_of_uv ? "UV_NO_CONFIG to 1 and " : ""));
  }
  if (has_python && !request.index_project.empty()) {
    environment.emplace_back(kIndexProject, request.index_project);
  }
  for (const auto& [name, value] : request.variables) {
    const auto same = [&](const auto& pair) { return pair.first == name; };
    if (std::ranges::none_of(environment, same)) environment.emplace_back(name, value);
  }
  return settings;
}

std::map<std::string, std::string> indexes_in(const UvSettings& settings) {
  std::map<std::string, std::string> indexes;
  for (const auto& [name, value] : settings.environment) {
    if (std::ranges::find(kIndexVariables, name) != kIndexVariables.end()) indexes[name] = value;
  }
  if (settings.no_index) indexes["PIP_NO_INDEX"] = "1";
  return indexes;
}

// A worker is started by sh, which knows where things are on its machine.
std::vector<std::string> worker_command(const PoolSpec& spec, const std::string& key,
                                        const std::vector<std::string>& archives,
                                        const std::string& program) {
  std::string line(kRoot);
  constexpr std::string_view kPython = "{python}";
  if (std::ranges::find(spec.runtime.command, kPython) != spec.runtime.command.end()) {
    line += kSystem;
    line += fmt::format("environment=$root/environments/{}-$system\n", key);
    line +=
        "[ -x \"$environment/bin/python\" ] || environment=$environment-$(command -p uname -n)\n";
  }
  std::string path;
  for (const std::string& archive : archives) {
    path += (path.empty() ? "" : ":") + fmt::format("$root/archives/{}", archive);
  }
  if (!path.empty()) line += fmt::format("export SKYWARD_SYS_PATH=\"{}\"\n", path);
  line += "exec";
  constexpr std::string_view kArchive = "{archive}";
  for (std::size_t i = 0; i < spec.runtime.command.size(); ++i) {
    const std::string& word = spec.runtime.command[i];
    if (i == 0 && word == kAgentWord) {
      line += " \"/proc/$PPID/exe\"";  // what has started this shell
    } else if (i == 0 && !program.empty()) {
      line += fmt::format(" \"$root/files/{}\"", program);
    } else if (word == kPython) {
      line += " \"$environment/bin/python\"";
    } else if (word.starts_with(kArchive) && !archives.empty()) {
      line += fmt::format(" \"$root/archives/{}\"{}", archives[0],
                          shell_quote(word.substr(kArchive.size())));
    } else {
      line += " " + shell_quote(word);
    }
  }
  return {"/bin/sh", "-c", line};
}

}  // namespace

std::vector<std::pair<std::string, std::string>> index_environment(const UvSettings& settings,
                                                                   const Variable& variable) {
  std::map<std::string, std::string> found;
  for (const char* name : kForwarded) {
    if (const auto value = variable(name)) found[name] = *value;
  }
  for (const char* list : {"UV_INDEX", "UV_DEFAULT_INDEX"}) {
    for (const std::string& name : credentials_of(value_at(found, list))) {
      if (const auto value = variable(name.c_str())) found[name] = *value;
    }
  }
  for (const auto& [name, value] : settings.environment) {
    if (name == "SSL_CERT_FILE") continue;  // a file
    const std::string there = name == "UV_FIND_LINKS" ? addresses_in(value) : value;
    if (!there.empty()) found[name] = there;
  }
  return {found.begin(), found.end()};
}

bool names_image(const ProviderSpec& provider) {
  const ProviderSheet* sheet = find_provider_sheet(provider.name);
  return sheet != nullptr && std::ranges::any_of(sheet->settings, [&](const ProviderSetting& one) {
           return one.names_image && !provider.setting(std::string(one.name)).empty();
         });
}

Status check_agent(const PoolSpec& spec) {
  if (io::is_program(spec.agent_path)) return {};
  return fail(ErrorKind::invalid,
              fmt::format("the agent program {} cannot be run", spec.agent_path),
              "install skyward again, or give the path of a skyward-agent that you built");
}

Status check_packages(const Image& image) {
  for (const std::string& package : image.pip) {
    const std::string path = disk_path_of(package);
    std::error_code error;
    const bool is_here = !path.empty() && std::filesystem::exists(path, error);
    if (!is_here && !path.starts_with('.')) continue;
    return fail(ErrorKind::invalid,
                fmt::format("Image(pip=[{}]) is on this computer, but the machines of the pool do "
                            "not have its files; nothing was started",
                            json_string(package)),
                "send a package's source with Image(includes=[…]), or publish it to an index");
  }
  return {};
}

Result<RemoteImage> plan_remote_image(const PoolSpec& spec, const Variable& variable,
                                      const RemoteMachines& machines) {
  const std::vector<DiskPackage> packages = packages_on_disk(spec.image.pip);
  EnvironmentRequest request = request_of(spec, packages);
  const bool has_python = !spec.runtime.python.empty();
  request.sees_image = has_python && machines.image_is_named;
  RemoteImage image;
  const auto files =
      add_uploads(image.uploads, spec, request,
                  machines.architecture.empty() ? spec.architecture : machines.architecture);
  if (!files) return fail(files);

  auto installing = install_settings(spec, request, variable, machines.proxies);
  if (!installing) return fail(installing);
  if (!request.pip.empty()) request.indexes = indexes_in(*installing);
  const std::string key = environment_key(request);
  std::vector<std::string> on_disk;
  for (const DiskPackage& package : packages) on_disk.push_back(package.path);
  const VolumeScripts volumes = volume_scripts(spec, variable);
  image.bootstrap.script = fmt::format(
      "set -euo pipefail\ncd "
      "/\n{}{}{}key={}\npython={}\nminor={}\nvisible={}\nuv_file={}\nrequirements=({})\n"
      "on_disk=({})\noptions=({})\n{}packages=({})\nprograms=({})\narchives=({})\n{}{}{}{}{}{}{}",
      volumes.begin, kRoot, kSystem, key, has_python ? shell_quote(request.python) : "",
      shell_quote(minor_version(request.python)), request.sees_image ? "yes" : "", files->uv,
      list_of(spec.image.pip), list_of(on_disk), installing->no_index ? "--no-index" : "",
      refresh_line(request), list_of(spec.image.apt), list_of(volumes.packages),
      list_of(files->archives), kInstallRequirements, kInstallPackages, kVersionOf, kToDisk,
      kUntilPackages, volumes.mount, kModules);
  image.bootstrap.end_script = volumes.unmount;
  image.bootstrap.environment = std::move(installing->environment);
  add_image_variables(image.bootstrap.environment, spec.image);
  for (const auto& credential : volumes.environment) {
    image.bootstrap.environment.push_back(credential);
  }
  image.bootstrap.worker_command = worker_command(spec, key, files->archives, files->program);
  return image;
}

}  // namespace skyward::provider
