#include "skyward/provider/volume_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "skyward/provider/aws/partition.h"
#include "skyward/spec/image.h"

namespace skyward::provider {

namespace {

// What both scripts know. A path as /proc/self/mounts spells it has no blanks, and no links. What
// this agent has mounted, and who serves it, is noted in the agent's directory: only that is let
// go.
constexpr std::string_view kCommon = R"bash(
places=${SKYWARD_NODE_DIRECTORY:?}/volumes
servers=${SKYWARD_NODE_DIRECTORY:?}/servers
as_root=()
[[ $(id -u) == 0 ]] || as_root=(sudo -n)
is_mounted() {
  local _ at spelled=${1// /\\040}
  while read -r _ at _; do [[ $at == "$spelled" ]] && return 0; done </proc/self/mounts
  return 1
}
# Processes that serve file systems (FUSE) on this machine: their numbers, sorted as text.
list_servers() {
  { "${as_root[@]}" find /proc/[0-9]*/fd -lname /dev/fuse 2>/dev/null || true; } |
    cut -d/ -f3 | LC_ALL=C sort -u
}
)bash";

constexpr std::string_view kMount = R"bash(
step "begin volumes"
told() { printf 'skyward: %s\n' "$*" >&2; }

# The client's proxies, which sudo would drop. The machine's role is not behind them.
keep_proxies() {
  local name names=
  for name in {http,https,all}_proxy {HTTP,HTTPS,ALL}_PROXY; do
    if [[ ${!name:-} ]]; then names+=$name,; fi
  done
  [[ $names ]] || return 0
  no_proxy=${no_proxy:-${NO_PROXY:-}}
  export no_proxy=${no_proxy:+$no_proxy,}169.254.169.254
  if [[ ${#as_root[@]} -gt 0 ]]; then as_root+=("--preserve-env=${names}no_proxy"); fi
}
keep_proxies

is_of_another_pool() {
  grep -qzxF -- "$1" "$SKYWARD_NODE_DIRECTORY"/../*/volumes 2>/dev/null
}

# Sets `path`, the directory that is meant.
make_place() {
  local why
  path=$(realpath -m -- "$1")
  if is_mounted "$path"; then
    # Even root may not look into some file systems of users: those stand, too.
    why=$("${as_root[@]}" env LC_ALL=C stat -- "$path/." 2>&1 >/dev/null) || true
    if [[ $why != *"Transport endpoint is not connected"* ]]; then
      if is_of_another_pool "$path"; then
        told "another pool on this machine has a volume at $path: choose another mount_path"
      else
        told "something is mounted at $path already: unmount it there, or choose another mount_path"
      fi
      exit 1
    fi
    "${as_root[@]}" umount -l -- "$path"  # left by a killed s3fs
  fi
  printf '%s\0' "$path" >>"$places"
  if ! "${as_root[@]}" mkdir -p -- "$path"; then
    told "the directory $1 of a volume cannot be created: log in as root, allow sudo without a" \
      "password, or create it yourself"
    exit 1
  fi
}

# Whether the agent, which has started this script, is above the process: it adopts all daemons.
is_below_agent() {
  local process=$1 facts
  while ((process > 1)); do
    if ((process == PPID)); then return 0; fi
    facts=$(cat "/proc/$process/stat" 2>/dev/null) || return 1
    read -r _ process _ <<<"${facts##*) }"
  done
  return 1
}

# The file system stands: who serves it is below the agent. Other pools' servers are not.
note_servers() {
  local process
  for process in $(list_servers); do
    if is_below_agent "$process"; then printf '%s\n' "$process"; fi
  done >>"$servers"
}

# Keys for s3fs, in a file without a name: this process holds it open, and s3fs reads it there. So
# it goes with this process, however that ends. s3fs knows no file for keys with a session token: it
# gets those in its environment, from ours.
s3_keys=
s3_start=()
forget_keys() { exec 8>&-; }
keep_keys() {
  local place=/dev/shm file
  [[ ${AWS_ACCESS_KEY_ID:-} ]] || return 0
  [[ -w $place ]] || place=${TMPDIR:-/tmp}
  file=$(mktemp "$place/skyward-s3-XXXXXXXX")
  exec 8>"$file"
  rm -f -- "$file"
  file=/proc/$$/fd/8
  if [[ ${AWS_SESSION_TOKEN:-} ]]; then
    export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN  # for what reads this file
    declare -p AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN >&8
    s3_start=(bash -c 'source "$1"; shift; exec "$@"' bash "$file")
  else
    printf '%s:%s\n' "$AWS_ACCESS_KEY_ID" "${AWS_SECRET_ACCESS_KEY:-}" >&8
    s3_keys=,passwd_file=$file
  fi
  unset AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
}

# The machine's role by its name: s3fs 1.90 asks for that without a token, which machines that we
# rent refuse. Method, path, header.
ask_machine() {
  local line
  exec 4<>/dev/tcp/169.254.169.254/80
  printf '%s /latest/%s HTTP/1.0\r\nHost: 169.254.169.254\r\n%s\r\n\r\n' "$@" >&4
  read -r _ line _ <&4
  [[ $line == 200 ]] || return 1
  while read -r line && [[ $line != $'\r' ]]; do :; done <&4
  IFS= read -r line <&4 || [[ $line ]]
  printf %s "$line"
}
find_role() {
  local token role
  export -f ask_machine
  if ! token=$(timeout 5 bash -c 'ask_machine "$@"' bash PUT api/token \
    "X-aws-ec2-metadata-token-ttl-seconds: 60") ||
    ! role=$(timeout 5 bash -c 'read -r token; ask_machine "$@$token"' bash GET \
      meta-data/iam/security-credentials/ "X-aws-ec2-metadata-token: " <<<"$token"); then
    told "this machine has no role for its volumes: give the provider the instance_profile_arn" \
      "of one that has, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    exit 1
  fi
  s3_keys=,iam_role=$role
}

# Options of newer versions of s3fs. From 1.92 on, it shows no folder that has no object of its own,
# as those of other programs, and remembers for minutes that a file was not there.
s3_newer_options() {
  local known option
  known=$(s3fs --help 2>&1 || true)
  for option in compat_dir disable_noobj_cache; do
    if grep -qw -- "$option" <<<"$known"; then printf ,%s "$option"; fi
  done
}

# What the log of s3fs means. Its advice is about options that users do not have.
why_not_mounted() {
  local denied='invalid credentials|InvalidAccessKeyId|AccessDenied|SignatureDoesNotMatch'
  if grep -qiE 'NoSuchBucket|NoSuchKey|bucket or (key|directory).* not found' "$1"; then
    echo "there is no such bucket, or nothing at that prefix."
  elif grep -qiE 'AuthorizationHeaderMalformed|PermanentRedirect|bucket region is not' "$1"; then
    echo "the bucket is in another region: set AWS_REGION to that region."
  elif grep -qiE 'ExpiredToken|InvalidToken' "$1"; then
    echo "the keys in AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN have expired: get new ones."
  elif grep -qiE "$denied|code=40[13]" "$1"; then
    echo "the store refuses $s3_who."
  elif grep -qiE 'directory .* is not empty' "$1"; then
    echo "the directory is not empty: choose another mount_path, or move its files away."
  elif grep -qiE 'fuse: (device|mount failed|failed to open)' "$1"; then
    echo "this machine may not mount with FUSE, as in most containers."
  else
    echo "check that the store exists, has the bucket, and lets $s3_who read it."
  fi
}

# One that takes long to list is not empty.
has_files() {
  local found
  found=$(timeout 10 find "$1" -mindepth 1 -maxdepth 1 -print -quit 2>/dev/null) || return 0
  [[ $found ]]
}

# Path, bucket, options. s3fs mounts any prefix, and shows a wrong one as an empty directory.
mount_bucket() {
  local path what="the bucket $2 at $s3_endpoint" log process tries
  make_place "$1"
  log=$(mktemp)
  setsid "${as_root[@]}" "${s3_start[@]}" s3fs "$2" "$path" -f \
    -o "$3$s3_keys$(s3_newer_options),uid=$(id -u),gid=$(id -g)" \
    >"$log" 2>&1 </dev/null 3>&- 8>&- 9>&- &
  process=$!
  for ((tries = 0; tries < 600; tries++)); do
    if is_mounted "$path" && stat -- "$path/." >/dev/null 2>&1; then
      rm -f -- "$log"
      note_servers
      if [[ $2 == *:/* && $3, == *,ro,* ]] && ! has_files "$path"; then
        told "$what has nothing at that prefix: check the prefix of the volume at $1"
        exit 1
      fi
      return
    fi
    "${as_root[@]}" kill -0 $process 2>/dev/null || break
    sleep 0.1
  done
  "${as_root[@]}" kill $process 2>/dev/null || true
  told "$what cannot be mounted at $path: $(why_not_mounted "$log") s3fs says:"
  grep -v ' \[INF\] ' "$log" | cut -c1-300 | tail -n 10 >&2 || true
  rm -f -- "$log"
  exit 1
}

# Path, and lines of the user's own. They run in the node's directory, which goes with the pool.
mount_own() {
  local path line
  make_place "$1"
  shift
  cd -- "$SKYWARD_NODE_DIRECTORY"
  for line in "$@"; do "${as_root[@]}" bash -c "$line" </dev/null 3>&- 8>&- 9>&-; done
  cd /
  note_servers
}
)bash";

// A busy volume is let go when it is not. umount waits for the kernel alone; what was written is
// with the store when the process that serves it has ended. The last one goes first.
constexpr std::string_view kUnmount = R"bash(
release() {
  is_mounted "$1" || return 0
  "${as_root[@]}" sync -f -- "$1" 2>/dev/null || true
  "${as_root[@]}" umount -- "$1" || "${as_root[@]}" umount -l -- "$1" || true
}
lives() {
  local facts
  { facts=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
  facts=${facts##*) }
  [[ $facts != [ZX]* ]]
}
[[ -e $places ]] || exit 0
touch -- "$servers"
serving=$(LC_ALL=C comm -12 <(LC_ALL=C sort -u "$servers") <(list_servers))
mapfile -d '' -t mounted <"$places"
for ((nth = ${#mounted[@]} - 1; nth >= 0; nth--)); do release "${mounted[nth]}"; done
for process in $serving; do
  while lives "$process"; do sleep 0.1; done
done
rm -f -- "$places" "$servers"
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

// Of the buckets at Amazon. That of the pool counts if it is one of Amazon's.
std::string region_of(const ProviderSpec& provider, const Variable& variable) {
  std::string here = provider.name == "aws" ? provider.setting("region") : "";
  if (here.empty()) here = "us-east-1";
  return first_of(variable, {"AWS_REGION", "AWS_DEFAULT_REGION"}, std::move(here));
}

// Whether a role of the machines is for longer than the client's keys: those with a session token
// expire. A role that Session Manager needs may be for that alone.
bool outlives_keys(const ProviderSpec& provider, const Variable& variable) {
  return variable("AWS_SESSION_TOKEN").has_value() && provider.setting("use_ssm") != "true";
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += " " + shell_quote(word);
  return list;
}

// Where the bucket is a part of the path, and not of the host's name: a certificate of Amazon's
// covers no name with a dot before its own.
constexpr const char* kBucketInPath = ",use_path_request_style";

// How long a node remembers what it has seen of a file, in seconds, where other nodes write files;
// 15 minutes otherwise.
constexpr const char* kSharedByNodes = ",stat_cache_expire=10";

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
  const std::string region = region_of(spec.provider, variable);
  const std::string own_endpoint =
      first_of(variable, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, "");
  const std::string endpoint = own_endpoint.empty() ? fmt::format("https://s3.{}.{}", region,
                                                                  aws::partition_of(region).domain)
                                                    : own_endpoint;
  const bool buckets = std::ranges::any_of(spec.volumes, is_bucket);
  const bool has_role = spec.provider.settings.contains("instance_profile_arn");
  const bool by_keys = buckets && !(has_role && outlives_keys(spec.provider, variable));
  for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}) {
    auto value = by_keys ? variable(name) : std::nullopt;
    if (value) scripts.environment.emplace_back(name, *std::move(value));
  }
  for (const auto& [name, value] : scripts.environment) {
    scripts.begin += (scripts.begin.empty() ? "export -n " : " ") + name;
  }
  if (!scripts.begin.empty()) scripts.begin += '\n';
  // A comma would begin another option; none of these is the user's to spell freely but the
  // endpoint.
  std::string options =
      fmt::format("url={},endpoint={},sigv4,allow_other,umask=077,mp_umask=077,connect_timeout=5",
                  endpoint, region);
  if (!own_endpoint.empty()) options += kBucketInPath;
  std::string prepare = buckets ? "keep_keys" : "";
  std::string who = "the keys in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  if (buckets && scripts.environment.empty()) {
    if (!has_role) options += ",public_bucket=1";
    prepare = has_role ? "find_role" : "";
    who = has_role ? "the role of the machine" : "anonymous users (AWS_ACCESS_KEY_ID is not set)";
  }
  std::string mounts = fmt::format("s3_endpoint={}\ns3_who={}\n{}\n", shell_quote(endpoint),
                                   shell_quote(who), prepare);
  for (const Volume& volume : spec.volumes) {
    const std::string path = shell_quote(volume.mount_path);
    if (is_bucket(volume)) {
      const bool dotted = own_endpoint.empty() && volume.bucket.contains('.');
      const std::string all =
          options + (dotted ? kBucketInPath : "") + (volume.read_only ? ",ro" : kSharedByNodes);
      mounts += fmt::format("mount_bucket {} {} {}\n", path, shell_quote(source_of(volume)),
                            shell_quote(all));
    } else {
      mounts += fmt::format("mount_own {}{}{}\n", path, quoted_list(volume.install_commands),
                            quoted_list(volume.mount_commands));
    }
  }
  if (buckets) scripts.packages = {"s3fs"};
  scripts.mount = fmt::format("{}{}{}forget_keys\nstep volumes\n", kCommon, kMount, mounts);
  scripts.unmount = fmt::format("{}{}", kCommon, kUnmount);
  return scripts;
}

}  // namespace skyward::provider
