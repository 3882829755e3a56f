#include "skyward/spec/apt_script.h"

namespace skyward {

// apt-get reads proxies in lower case alone. It waits for the locks of dpkg, but not for that of
// the lists, which a machine's own updates hold after its first boot.
const std::string_view kInstallPackages = R"bash(
install_packages() {
  local package found said status end missing=() as_root=() options=()
  local -x DEBIAN_FRONTEND=noninteractive LC_ALL=C
  local -x http_proxy=${http_proxy:-${HTTP_PROXY:-${all_proxy:-${ALL_PROXY:-}}}}
  local -x https_proxy=${https_proxy:-${HTTPS_PROXY:-${all_proxy:-${ALL_PROXY:-}}}}
  local -x no_proxy=${no_proxy:-${NO_PROXY:-}}
  [[ $http_proxy ]] || unset http_proxy
  [[ $https_proxy ]] || unset https_proxy
  [[ $no_proxy ]] || unset no_proxy
  for package in "$@"; do
    found=$(dpkg-query -W -f '${db:Status-Status} ${Version}\n' "${package%%[=/]*}" 2>/dev/null ||
      true)
    case $package in
      */*) # only apt knows the versions of a release
        said=$(apt-get -qs --allow-downgrades install -- "$package" </dev/null 2>/dev/null) ||
          said='Inst '
        [[ $'\n'$said == *$'\nInst '* ]] || continue
        ;;
      *=*) [[ $'\n'$found$'\n' != *$'\n'"installed ${package#*=}"$'\n'* ]] || continue ;;
      *) [[ $'\n'$found != *$'\ninstalled '* ]] || continue ;;
    esac
    missing+=("$package")
    [[ $package != *[=/]* ]] || options=(--allow-downgrades)
  done
  if [[ ${#missing[@]} -eq 0 ]]; then return 0; fi
  if [[ $(id -u) != 0 ]]; then
    if ! sudo -n true; then
      printf 'skyward: %s\n' "the system packages ${missing[*]} are missing, and only root can \
install them: log in as root, allow sudo without a password, or install them yourself" >&2
      return 1
    fi
    as_root=(sudo -n "--preserve-env=http_proxy,https_proxy,no_proxy,DEBIAN_FRONTEND,LC_ALL")
  fi
  end=$((SECONDS + 300))
  while true; do
    status=0
    said=$("${as_root[@]}" apt-get -q update </dev/null 2>&1) || status=$?
    [[ $status -ne 0 && $said == *'Could not get lock'* && $SECONDS -lt $end ]] || break
    sleep 2
  done
  printf '%s\n' "$said" >&2
  if [[ $status -ne 0 ]]; then return "$status"; fi
  "${as_root[@]}" apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends \
    "${options[@]}" -- "${missing[@]}" </dev/null
}
)bash";

}  // namespace skyward
