#include "skyward/provider/first_boot.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "skyward/spec/image.h"

namespace skyward::provider {

namespace {

// $root, $expires, $lifetime, $unclaimed, $silences, $look, $end_first and $end_mode are set before
// it. A file's moment is only compared with itself, and silence is counted in looks: neither cares
// about a clock that is set.
constexpr const char* kScript = R"sh(
end=$root/usr/local/sbin/skyward-end
watch=$root/usr/local/sbin/skyward-watch
asked_for=$root/run/skyward-over
mkdir -p "$root/usr/local/sbin" "$root/run/skyward"
chmod 1777 "$root/run/skyward"
cat >"$end" <<END
#!/bin/sh
# Ends this machine, and with it what it costs. The watch asks again until it is off.
# Not ':', a special builtin: when the disk is full, the shell would exit there.
true >"$asked_for"
$end_first
shutdown -P now || systemctl poweroff --force || poweroff -f
END
cat >"$watch" <<WATCH
#!/bin/sh
# Ends this machine when its time is over, when nobody has begun to use it, and when its agent is
# gone: an agent touches the file while it lives.
silent=0 asked=0 seen=
while [ -d "$root/" ]; do
  read -r up rest </proc/uptime
  up=\$((\${up%%.*} - $booted))
  over=
  if [ "\$(date +%s)" -ge $expires ] || [ "\$up" -ge $lifetime ]; then over=yes; fi
  if [ -e "$asked_for" ]; then over=yes; fi
  claim=\$(stat -c %y "$root/run/skyward/claimed" 2>/dev/null)
  if [ -z "\$claim\$seen" ]; then
    if [ "\$up" -ge $unclaimed ]; then over=yes; fi
  elif [ "\$claim" = "\$seen" ] || [ -z "\$claim" ]; then
    silent=\$((silent + 1))
    if [ $silences -gt 0 ] && [ \$silent -ge $silences ]; then over=yes; fi
  else
    silent=0 seen=\$claim
  fi
  if [ "\$over" ]; then
    asked=\$((asked + 1))
    # It hangs while it shuts down.
    if [ \$asked -gt 30 ] && [ -z "$root" ]; then poweroff -f; fi
    "$end"
  fi
  sleep $look
done
WATCH
chmod $end_mode "$end"
chmod 755 "$watch"
# This early in the boot, a unit must not wait for others: they wait for us.
if [ -n "$root" ] || ! systemd-run --quiet --no-block --unit=skyward-watch \
    --property=DefaultDependencies=no --property=Restart=always "$watch"; then
  setsid "$watch" </dev/null >/dev/null 2>&1 &
fi
)sh";

std::int64_t whole_seconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

}  // namespace

std::string end_timer_script(const EndTimer& end_timer) {
  // Under test, and under a container, the machine booted long ago.
  const char* booted = end_timer.root.empty() && !end_timer.container
                           ? "booted=0"
                           : "read -r booted rest </proc/uptime; booted=${booted%%.*}";
  const std::int64_t silences =
      end_timer.lease > Duration{} ? end_timer.lease / end_timer.look_every + 1 : 0;
  return fmt::format(
      "root='{}'\nexpires={}\nlifetime={}\nunclaimed={}\nsilences={}\nlook={}\n{}\n"
      "end_first={}\nend_mode={}\n{}",
      end_timer.root, end_timer.expires_s, whole_seconds(end_timer.lifetime),
      whole_seconds(end_timer.unclaimed), silences, seconds(end_timer.look_every), booted,
      shell_quote(end_timer.end_first), end_timer.end_first.empty() ? "755" : "700", kScript + 1);
}

std::string user_data(const FirstBoot& boot) {
  // JSON is YAML, too.
  nlohmann::ordered_json document = {
      {"bootcmd", {{"/bin/sh", "-c", end_timer_script(boot.end_timer)}}},
      {"ssh_deletekeys", true},
      {"ssh_keys", {{"ed25519_private", boot.host_key}, {"ed25519_public", boot.host_key_public}}},
      {"ssh_authorized_keys", nlohmann::ordered_json::array({boot.login_key})},
      {"ssh_pwauth", false},
      {"package_update", false},
  };
  if (boot.root_login) document["disable_root"] = false;
  if (!boot.new_user.empty()) {
    const nlohmann::ordered_json user = {
        {"name", boot.new_user},
        {"shell", "/bin/bash"},
        {"sudo", "ALL=(ALL) NOPASSWD:ALL"},
        {"ssh_authorized_keys", nlohmann::ordered_json::array({boot.login_key})}};
    document["users"] = nlohmann::ordered_json::array({"default", user});
  }
  return "#cloud-config\n" + document.dump(1) + "\n";
}

std::string boot_script(const FirstBoot& boot) {
  const bool install_curl = !boot.end_timer.end_first.empty();
  std::string install;
  if (boot.install_sshd || install_curl) {
    install =
        "add() { apt-get -qq update\n"
        "  DEBIAN_FRONTEND=noninteractive apt-get -qq install -y $*; } >/dev/null 2>&1\n";
  }
  if (boot.install_sshd) install += "[ -x /usr/sbin/sshd ] || add openssh-server\n";
  // Last, so that a slow mirror does not delay the way in; and at boot, while the disk is empty:
  // tasks may fill it before the machine ends itself.
  const char* last = install_curl ? "command -v curl >/dev/null || add curl ca-certificates\n" : "";
  std::string key = boot.host_key;
  if (!key.ends_with('\n')) key += '\n';
  return fmt::format(
      "#!/bin/sh\n"
      "{}\n"
      "{}"
      "umask 077\n"
      // cloud-init must not make other host keys at a later boot.
      "[ ! -d /etc/cloud/cloud.cfg.d ] ||\n"
      "  echo 'ssh_deletekeys: false' >/etc/cloud/cloud.cfg.d/99-skyward.cfg\n"
      "cat >/etc/ssh/skyward_host_key <<'KEY'\n"
      "{}"
      "KEY\n"
      "rm -f /etc/ssh/ssh_host_*\n"
      "mv /etc/ssh/skyward_host_key /etc/ssh/ssh_host_ed25519_key\n"
      "echo '{}' >/etc/ssh/ssh_host_ed25519_key.pub\n"
      "mkdir -p ~root/.ssh\n"
      "echo '{}' >>~root/.ssh/authorized_keys\n"
      // sshd refuses keys in files that others may write.
      "chown root:root ~root ~root/.ssh ~root/.ssh/authorized_keys && chmod 700 ~root ~root/.ssh\n"
      "chmod 600 ~root/.ssh/authorized_keys\n"
      // sshd may have been started too often while it had no key.
      "systemctl reset-failed ssh.service ssh.socket sshd.service 2>/dev/null\n"
      "systemctl restart ssh || service ssh restart || service sshd restart\n"
      "{}",
      end_timer_script(boot.end_timer), install, key, boot.host_key_public, boot.login_key, last);
}

}  // namespace skyward::provider
