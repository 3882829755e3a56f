#include "skyward/provider/ssh/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "skyward/base/text.h"
#include "skyward/spec/image.h"

namespace skyward::provider {

namespace {

bool is_plain(std::string_view text) {
  return !text.empty() && text.front() != '-' && std::ranges::all_of(text, [](unsigned char c) {
    return c > ' ' && c < 0x7F && !std::string_view("'\"`$\\;&|<>()*?!#~{}%").contains(char(c));
  });
}

std::unexpected<Error> bad_target(std::string_view text, std::string_view why) {
  return fail(ErrorKind::invalid, fmt::format("\"{}\" is not a host: {}", text, why),
              "write host, user@host or user@host:port; the host may be a Host of ~/.ssh/config");
}

void option(std::vector<std::string>& words, std::string text) {
  words.emplace_back("-o");
  words.push_back(std::move(text));
}

// What a configuration file says with quotes around it stays one word there.
std::string quoted_path(std::string_view path) {
  std::string out = "\"";
  for (const char c : path) {
    if (c == '%') out += '%';  // ssh replaces %h and the like
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

// Whether a master connection of the user's may carry the sessions: somebody has logged in there by
// hand, with a second factor, say. Its host key and its login were checked by the user's files.
bool uses_masters(const SshOptions& options) {
  return options.known_hosts_file.empty() && options.identity_file.empty();
}

std::vector<std::string> options_of(const SshTarget& target, const SshOptions& options) {
  std::vector<std::string> words{options.program};
  if (!options.configuration_file.empty()) {
    words.insert(words.end(), {"-F", options.configuration_file});
  }
  for (const char* fixed : {
           "BatchMode=yes",                        // ask nobody
           "StrictHostKeyChecking=yes",            // an unknown key is refused
           "NoHostAuthenticationForLocalhost=no",  //
           "UpdateHostKeys=no",                    // the files are the user's to change
           "LogLevel=ERROR",                       // no greetings
           "ConnectTimeout=10",                    //
           "ServerAliveInterval=5",                //
           "ServerAliveCountMax=12",               // until a login is over, servers do not answer
           "ControlMaster=no",                     // ours serves nobody else
           "ClearAllForwardings=yes",              //
           "ForwardAgent=no",
           "ForwardX11=no",  //
           "RequestTTY=no",
           "RemoteCommand=none",  //
           "PermitLocalCommand=no",
           "EscapeChar=none",
       }) {
    option(words, fixed);
  }
  if (!uses_masters(options)) option(words, "ControlPath=none");
  if (!options.known_hosts_file.empty()) {
    option(words, "UserKnownHostsFile=" + quoted_path(options.known_hosts_file));
    option(words, "GlobalKnownHostsFile=/dev/null");
    option(words, "VerifyHostKeyDNS=no");
    if (options.pinned) option(words, "HostKeyAlias=" + target.place());
  }
  if (!options.identity_file.empty()) {
    option(words, "IdentitiesOnly=yes");
    option(words, "IdentityFile=" + quoted_path(options.identity_file));
  }
  if (!target.user.empty()) words.insert(words.end(), {"-l", target.user});
  if (target.port != 0) words.insert(words.end(), {"-p", std::to_string(target.port)});
  return words;
}

// The command that ssh runs instead of a TCP connection: another ssh, with the same rules.
// ssh's own ProxyJump would start one without them.
std::string proxy_command(std::vector<SshTarget> jumps, const SshOptions& options) {
  const SshTarget last = jumps.back();
  jumps.pop_back();
  std::vector<std::string> words = options_of(last, options);
  if (!jumps.empty()) option(words, "ProxyCommand=" + proxy_command(jumps, options));
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    for (const char c : shell_quote(word)) line += c == '%' ? "%%" : std::string(1, c);
  }
  return line + " -W '[%h]:%p' -- " + shell_quote(last.host);
}

// The rest of the first line that holds `mark`, behind it.
std::optional<std::string> after(std::string_view text, std::string_view mark) {
  const std::size_t found = text.find(mark);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(found + mark.size());
  return std::string(rest.substr(0, rest.find_first_of("\r\n")));
}

std::string where_known(const SshOptions& options) {
  return options.known_hosts_file.empty() ? "~/.ssh/known_hosts" : options.known_hosts_file;
}

Error changed_key(const SshTarget& target, const SshOptions& options, const std::string& words) {
  // "Offending ED25519 key in /path:12"
  std::string place = after(words, "Offending ").value_or("");
  const std::size_t in = place.find(" key in ");
  place = in == std::string::npos ? where_known(options) : place.substr(in + 8);
  const std::string file = place.substr(0, place.rfind(':'));
  std::string print = after(words, "key sent by the remote host is\n").value_or("");
  if (!print.empty()) print = " (" + print.substr(0, print.find_last_not_of(". ") + 1) + ")";
  return {.kind = ErrorKind::denied,
          .message = fmt::format("the host key of {} has changed: the machine shows a key{} that "
                                 "differs from the one in {}. Nothing was sent to it",
                                 target.text(), print, place),
          .hint = fmt::format(
              "this may be an attack. If the machine was reinstalled, compare the key "
              "with what 'ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub' shows on the machine "
              "itself, then replace that line of {}",
              file)};
}

Error unknown_key(const SshTarget& target, const SshOptions& options) {
  const std::string port = target.port == 0 ? "" : fmt::format("-p {} ", target.port);
  return {
      .kind = ErrorKind::denied,
      .message = fmt::format("the host key of {} is unknown, so Skyward cannot verify the machine",
                             target.text()),
      .hint = fmt::format(
          "'ssh-keyscan {}{}' shows its key; compare the fingerprint with what the machine itself "
          "shows, then add the line to {} or give it as host_keys=",
          port, target.host, where_known(options))};
}

// As people type it into a shell.
std::string typed_login(const SshTarget& target) {
  if (target.user.empty()) return target.host;
  std::string login;
  for (const char c : target.user) login += c == '\\' ? "\\\\" : std::string(1, c);
  return login + "@" + target.host;
}

Error refused_login(const SshTarget& target, const SshOptions& options, bool asks) {
  const std::string_view by_hand =
      asks && uses_masters(options)
          ? "; if the machine asks for a code or a password, log in with ControlMaster and "
            "ControlPath in your ~/.ssh/config first: Skyward uses that connection"
          : "";
  const std::string key = options.identity_file.empty()
                              ? "your keys and your ssh agent"
                              : fmt::format("the key {}", options.identity_file);
  return {.kind = ErrorKind::denied,
          .message = fmt::format("{} refused the login for this user with {}", target.text(), key),
          .hint = fmt::format("try 'ssh {}{}' by hand; set user=, identity_file= or your "
                              "~/.ssh/config, or add your public key to ~/.ssh/authorized_keys of "
                              "that machine{}",
                              target.port == 0 ? "" : fmt::format("-p {} ", target.port),
                              typed_login(target), by_hand)};
}

}  // namespace

std::string SshTarget::place() const {
  return lower(SshTarget{.host = host, .user = {}, .port = port}.text());
}

std::string SshTarget::text() const {
  std::string out = host;
  if (port != 0)
    out =
        host.contains(':') ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
  return user.empty() ? out : user + "@" + out;
}

bool is_ssh_user(std::string_view name) {
  if (name.ends_with('\\')) return false;  // so does OpenSSH
  std::string rest(name);
  std::erase(rest, '\\');  // of a Windows domain: ssh gets the name as its own word, or quoted
  return is_plain(rest);
}

Result<SshTarget> parse_ssh_target(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with("ssh://")) rest.remove_prefix(6);
  SshTarget target;
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    target.user = rest.substr(0, at);
    if (!is_ssh_user(target.user)) return bad_target(text, "that is not a valid user name");
    rest.remove_prefix(at + 1);
  }
  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return bad_target(text, "a ] is missing");
    target.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && rest.front() != ':')
      return bad_target(text, "what follows ] is not a port");
    port = rest;
  } else if (std::ranges::count(rest, ':') == 1) {
    target.host = rest.substr(0, rest.find(':'));
    port = rest.substr(rest.find(':'));
  } else {  // no port, or a bare IPv6 address
    target.host = rest;
  }
  if (!is_plain(target.host) || target.host.contains('/')) {
    return bad_target(text, "that is not a name or address");
  }
  if (port.empty()) return target;
  port.remove_prefix(1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), target.port);
  if (error != std::errc{} || end != port.data() + port.size() || target.port < 1 ||
      target.port > 65535) {
    return bad_target(text, fmt::format("\"{}\" is not a port", port));
  }
  return target;
}

std::vector<std::string> ssh_command(const SshTarget& target, const SshOptions& options) {
  std::vector<std::string> words = options_of(target, options);
  if (!options.proxy_command.empty()) {
    option(words, "ProxyCommand=" + options.proxy_command);
  } else if (!options.jumps.empty()) {
    option(words, "ProxyCommand=" + proxy_command(options.jumps, options));
  }
  words.insert(words.end(), {"-T", "--", target.host});
  return words;
}

std::vector<std::string> permanent_ssh_errors() {
  return {
      "Host key verification failed",          "Permission denied (",
      "Too many authentication failures",      "Bad configuration option",
      "Bad owner or permissions on",           "no matching host key type found",
      "no matching key exchange method found", "This account is currently not available",
  };
}

std::vector<std::string> hopeless_ssh_errors() {
  return {"Name or service not known", "Connection refused", std::string(kUnknownUser)};
}

std::string without_stale_master(std::string words) {
  constexpr std::string_view kStale = "Control socket connect(";
  for (std::size_t at = 0; (at = words.find(kStale, at)) != std::string::npos;) {
    words.erase(at, std::min(words.find('\n', at), words.size() - 1) - at + 1);
  }
  return words;
}

Error explain_ssh_error(const SshTarget& wanted, const SshOptions& options, Error error) {
  const std::string words = without_stale_master(error.message);
  SshTarget target = wanted;
  // Of a jump that is silent, the last ssh says no more than that; of a host behind it, it does.
  const bool is_lost_on_the_way =
      !options.jumps.empty() && !words.contains("stdio forwarding failed") &&
      (words.contains("UNKNOWN port") || words.contains("during banner exchange"));
  bool blames_one = words.contains(wanted.host);
  for (const SshTarget& jump : options.jumps) {
    blames_one = blames_one || words.contains(jump.host);
    if (words.contains(jump.host) && !words.contains(wanted.host)) target = jump;
  }
  const auto says = [&](std::string_view text) { return words.contains(text); };
  Error told;
  if (says(kUnknownUser)) {
    told = {.kind = ErrorKind::unsupported,
            .message = fmt::format("ssh to {} cannot start", target.text()),
            .hint = kUnknownUserHint};
  } else if (says("HOST IDENTIFICATION HAS CHANGED") || says("POSSIBLE DNS SPOOFING DETECTED")) {
    told = changed_key(target, options, words);
  } else if (says("host key is known for") || says("Host key verification failed")) {
    told = unknown_key(target, options);
  } else if (says("Permission denied (") || says("Too many authentication failures")) {
    told = refused_login(target, options, says("keyboard-interactive"));
    if (says("Session open refused by peer")) {
      told.hint =
          "your master connection has no free session (MaxSessions of its sshd, often ten): ask "
          "for "
          "fewer nodes, or run your program on that machine";
    }
  } else if (says("This account is currently not available")) {
    told = {.kind = ErrorKind::denied,
            .message = fmt::format("{} allows this user no commands: its login shell is nologin",
                                   target.text()),
            .hint = "set user= to another user, or give this one a shell there: 'chsh -s /bin/sh'"};
  } else if (is_lost_on_the_way && !blames_one) {
    told = {.kind = ErrorKind::unreachable,
            .message = fmt::format("{} is not reached through the jump host {}", target.text(),
                                   options.jumps.back().text()),
            .hint = "check that the jump host is on, and its address: see jump="};
  } else if (says("Could not resolve hostname")) {
    told = {.kind = ErrorKind::invalid,
            .message = fmt::format("cannot resolve the name {}", target.host),
            .hint = "check its spelling, the name servers, and the Hosts of ~/.ssh/config"};
  } else if (says("Connection refused")) {
    told = {.kind = ErrorKind::unreachable,
            .message = fmt::format("{} refuses the connection", target.text()),
            .hint = "check that sshd runs there and listens on that port"};
  } else if (says("Connection timed out") || says("No route to host") ||
             says("Network is unreachable")) {
    told = {.kind = ErrorKind::unreachable,
            .message = fmt::format("{} does not answer", target.text()),
            .hint = "check that the machine is on, its address, and the firewalls on the way"};
  } else {
    return error;
  }
  const std::string_view blank = " \r\n";
  const std::size_t end = words.find_last_not_of(blank);
  told.message += fmt::format(" ({})", words.substr(0, end == std::string::npos ? 0 : end + 1));
  return told;
}

}  // namespace skyward::provider
