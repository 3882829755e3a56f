#include "skyward/provider/volume_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "skyward/spec/image.h"

namespace skyward::provider {

namespace {

// What both scripts know. A path as /proc/self/mounts spells it has no blanks.
constexpr std::string_view kCommon = R"bash(
as_root=()
if [[ $(id -u) != 0 ]]; then
  as_root=(sudo -n --preserve-env=AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY,AWS_SESSION_TOKEN)
fi
is_mounted() {
  local _ at spelled=${1// /\\040}
  while read -r _ at _; do [[ $at == "$spelled" ]] && return 0; done </proc/self/mounts
  return 1
}
)bash";

constexpr std::string_view kMount = R"bash(
step "begin volumes"
told() { printf 'skyward: %s\n' "$*" >&2; }

make_place() {
  if is_mounted "$1"; then
    if "${as_root[@]}" stat -- "$1/." >/dev/null 2>&1; then
      told "something is mounted at $1 already: unmount it there, or choose another mount_path"
      exit 1
    fi
    "${as_root[@]}" umount -l -- "$1"  # left by a killed s3fs
  fi
  if ! "${as_root[@]}" mkdir -p -- "$1"; then
    told "the directory $1 of a volume cannot be made: log in as root, allow sudo without a" \
      "password, or make it yourself"
    exit 1
  fi
}

# Path, bucket, options.
mount_bucket() {
  local path=$1 what="the bucket $2 at $s3_endpoint" log process tries
  make_place "$path"
  log=$(mktemp)
  setsid "${as_root[@]}" s3fs "$2" "$path" -f -o "$3,uid=$(id -u),gid=$(id -g)" >"$log" 2>&1 \
    </dev/null 3>&- 9>&- &
  process=$!
  for ((tries = 0; tries < 300; tries++)); do
    if is_mounted "$path" && stat -- "$path/." >/dev/null 2>&1; then
      rm -f -- "$log"
      return
    fi
    kill -0 $process 2>/dev/null || break
    sleep 0.1
  done
  kill $process 2>/dev/null || true
  told "$what cannot be mounted at $path: does it exist there, and may these credentials read it?" \
    "s3fs says:"
  grep -v ' \[INF\] ' "$log" | cut -c1-300 | tail -n 10 >&2 || true
  rm -f -- "$log"
  exit 1
}

# Path, and lines of the user's own.
mount_own() {
  local path=$1 line
  shift
  make_place "$path"
  for line in "$@"; do "${as_root[@]}" bash -c "$line" </dev/null 3>&- 9>&-; done
}
)bash";

// What was written is with the store when umount returns; a busy one is let go when it is not.
constexpr std::string_view kUnmount = R"bash(
release() {
  is_mounted "$1" || return 0
  "${as_root[@]}" sync -f -- "$1" 2>/dev/null || true
  "${as_root[@]}" umount -- "$1" || "${as_root[@]}" umount -l -- "$1" || true
}
)bash";

using Variable = std::function<std::optional<std::string>(const char*)>;

bool is_bucket(const Volume& volume) { return volume.mount_commands.empty(); }

std::string first_of(const Variable& variable, std::initializer_list<const char*> names,
                     std::string otherwise) {
  for (const char* name : names) {
    if (auto value = variable(name)) return *std::move(value);
  }
  return otherwise;
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += " " + shell_quote(word);
  return list;
}

// "bucket:/prefix", as s3fs names a part of a bucket.
std::string source_of(const Volume& volume) {
  std::string_view prefix = volume.prefix;
  while (prefix.ends_with('/')) prefix.remove_suffix(1);
  return prefix.empty() ? volume.bucket : fmt::format("{}:/{}", volume.bucket, prefix);
}

}  // namespace

VolumeScripts volume_scripts(const PoolSpec& spec, const Variable& variable) {
  VolumeScripts scripts;
  if (spec.volumes.empty()) return scripts;
  const std::string region = first_of(variable, {"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1");
  const std::string own_endpoint =
      first_of(variable, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "");
  const std::string endpoint =
      own_endpoint.empty() ? fmt::format("https://s3.{}.amazonaws.com", region) : own_endpoint;
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) {
    if (auto value = variable(name)) scripts.environment.emplace_back(name, *std::move(value));
  }
  // A comma would begin another option; none of these is the user's to spell freely but the
  // endpoint.
  std::string options = fmt::format(
      "url={},endpoint={},allow_other,umask=022,mp_umask=022,retries=3,connect_timeout=5", endpoint,
      region);
  if (!own_endpoint.empty()) options += ",use_path_request_style";
  if (scripts.environment.empty()) {
    const bool has_role = spec.provider.settings.contains("instance_profile_arn");
    options += has_role ? ",iam_role=auto" : ",public_bucket=1";
  }
  std::string mounts = fmt::format("s3_endpoint={}\n", shell_quote(endpoint));
  std::string releases;
  for (const Volume& volume : spec.volumes) {
    const std::string path = shell_quote(volume.mount_path);
    if (is_bucket(volume)) {
      mounts += fmt::format("mount_bucket {} {} {}\n", path, shell_quote(source_of(volume)),
                            shell_quote(options + (volume.read_only ? ",ro" : "")));
    } else {
      mounts += fmt::format("mount_own {}{}{}\n", path, quoted_list(volume.install_commands),
                            quoted_list(volume.mount_commands));
    }
    releases = fmt::format("release {}\n", path) + releases;  // the last one first
  }
  if (std::ranges::any_of(spec.volumes, is_bucket)) scripts.packages = {"s3fs"};
  scripts.mount = fmt::format("{}{}{}step volumes\n", kCommon, kMount, mounts);
  scripts.unmount = fmt::format("{}{}{}", kCommon, kUnmount, releases);
  return scripts;
}

}  // namespace skyward::provider
