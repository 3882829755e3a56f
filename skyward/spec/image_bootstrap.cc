// The script that makes a bare machine into an image.

#include <fmt/format.h>

#include "skyward/base/check.h"
#include "skyward/spec/apt_script.h"
#include "skyward/spec/image.h"
#include "skyward/spec/pip_index.h"
#include "skyward/spec/to_disk.h"

namespace skyward {

namespace {

constexpr std::string_view kHead = R"bash(#!/bin/bash
# Prepares this machine for an image of skyward. Runs as root; on a prepared machine it only checks
# that everything is there. Progress: /opt/skyward/.step_NAME and .ready; a failure: .error.
# shellcheck disable=SC2016 # quoted values stand as they are
set -Eeuo pipefail
cd / # not where somebody may have left settings of a project
root=/opt/skyward
mkdir -p "$root"
exec >>"$root/bootstrap.log" 2>&1
failed() {
  {
    printf 'command: %s\nexit code: %s\n' "$2" "$1"
    tail -n 50 "$root/bootstrap.log"
  } >"$root/.error"
}
trap 'failed "$?" "$BASH_COMMAND"' ERR
exec 9>"$root/.lock"
flock 9
rm -f "$root/.error"
export HOME="${HOME:-/root}"
export PATH="$HOME/.local/bin:$PATH"
)bash";

// Follows the assignment of `ttl`. A timer that an earlier run left is replaced.
constexpr std::string_view kTimer = R"bash(
timer=$(cat "$root/.timer" 2>/dev/null || true)
if [[ -n $timer ]] && grep -qs skyward-timer "/proc/$timer/cmdline"; then
  kill -- "-$timer"
fi
setsid bash -c 'sleep "$1"; shutdown -h now || poweroff -f' skyward-timer "$ttl" \
  </dev/null >/dev/null 2>&1 9>&- &
echo "$!" >"$root/.timer"
)bash";

// Follows the assignments of `image`, `python`, `packages` and `requirements`.
constexpr std::string_view kSteps = R"bash(
done_with() { touch "$root/.step_$1"; }

if ! command -v uv >/dev/null; then
  install_packages curl ca-certificates
  curl -LsSf https://astral.sh/uv/install.sh | sh
fi
done_with uv

install_packages "${packages[@]}"
done_with apt

if [[ ! -x $root/.venv/bin/python || $(cat "$root/.image" 2>/dev/null || true) != "$image" ]]; then
  rm -rf "$root/.venv" "$root/.ready" "$root/.image"
  uv venv --quiet --no-project --python "$python" "$root/.venv" </dev/null
  install_requirements uv "$root/.venv"
  to_disk "$root"
  printf '%s\n' "$image" >"$root/.image"
fi
"$root/.venv/bin/python" -c 'import cloudpickle' </dev/null
done_with deps
touch "$root/.ready"
)bash";

std::string quoted_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) {
    if (!list.empty()) list += ' ';
    list += shell_quote(word);
  }
  return list;
}

}  // namespace

std::string Image::bootstrap(int ttl) const {
  SKYWARD_CHECK(ttl >= 0, "ttl {}", ttl);
  std::string script(kHead);
  if (ttl > 0) script += fmt::format("\nttl={}{}", ttl, kTimer);
  script += '\n';
  for (const auto& [name, value] : env) {
    script += fmt::format("export {}={}\n", name, shell_quote(value));
  }
  if (pip_extra_index_url) {
    script += fmt::format("export UV_EXTRA_INDEX_URL={}\n", shell_quote(*pip_extra_index_url));
    // As pip does it: the best version of all indexes.
    script += "export UV_INDEX_STRATEGY=unsafe-best-match\n";
  }
  if (const std::string project = index_project(*this); !project.empty()) {
    script += fmt::format("export {}={}\n", kIndexProject, shell_quote(project));
  }
  std::vector<std::string> packages = {"python3", "curl"};
  packages.insert(packages.end(), apt.begin(), apt.end());
  std::vector<std::string> requirements = {"cloudpickle"};
  requirements.insert(requirements.end(), pip.begin(), pip.end());
  script +=
      fmt::format("image={}\npython={}\npackages=({})\nrequirements=({})\n{}{}{}{}", content_hash(),
                  shell_quote(python), quoted_list(packages), quoted_list(requirements),
                  kInstallRequirements, kInstallPackages, kToDisk, kSteps);
  return script;
}

}  // namespace skyward
