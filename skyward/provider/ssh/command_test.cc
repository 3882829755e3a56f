#include "skyward/provider/ssh/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "skyward/io/process.h"

namespace skyward::provider {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SshTarget, IsReadAndWritten) {
  const auto parsed = [](const char* text) {
    const Result<SshTarget> target = parse_ssh_target(text);
    EXPECT_TRUE(target) << text << ": " << target.error().message;
    return target.value_or(SshTarget{});
  };
  EXPECT_EQ(parsed("w1"), (SshTarget{.host = "w1"}));
  EXPECT_EQ(parsed("me@w1:2222"), (SshTarget{.host = "w1", .user = "me", .port = 2222}));
  EXPECT_EQ(parsed("CORP\\me@w1"), (SshTarget{.host = "w1", .user = "CORP\\me"}));
  EXPECT_EQ(parsed("ssh://me@w1"), (SshTarget{.host = "w1", .user = "me"}));
  EXPECT_EQ(parsed("fe80::1"), (SshTarget{.host = "fe80::1"}));
  EXPECT_EQ(parsed("[fe80::1]:22"), (SshTarget{.host = "fe80::1", .port = 22}));
  for (const char* text : {"w1", "me@w1", "me@w1:2222", "[fe80::1]:22", "me@[fe80::1]:22"}) {
    EXPECT_EQ(parsed(text).text(), text);
  }
}

TEST(SshTarget, WhatCouldBeAnOptionOrACommandIsRefused) {
  for (const char* text :
       {"", "@w1", "-oProxyCommand=evil", "me@-oProxyCommand=evil", "-l@w1", "w1;reboot", "w 1",
        "w1:", "w1:0", "w1:65536", "w1:x", "[::1", "[::1]x", "$(reboot)", "a/b", "%h", "w1\n"}) {
    const Result<SshTarget> target = parse_ssh_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(target.error().kind, ErrorKind::invalid);
    EXPECT_THAT(target.error().hint, HasSubstr("user@host:port"));
  }
}

TEST(SshCommand, AlwaysVerifiesAndNeverAsks) {
  const SshOptions plain;
  const SshOptions full{.identity_file = "/k/id", .known_hosts_file = "/k/known", .program = "ssh"};
  for (const SshOptions& options : {plain, full}) {
    const auto words = ssh_command({.host = "w1", .user = "me", .port = 2222}, options);
    EXPECT_EQ(words.front(), "ssh");
    EXPECT_THAT(words, Contains("BatchMode=yes"));
    EXPECT_THAT(words, Contains("StrictHostKeyChecking=yes"));
    EXPECT_THAT(words, Contains("NoHostAuthenticationForLocalhost=no"));
    EXPECT_EQ(words.back(), "w1");
    EXPECT_EQ(words[words.size() - 2], "--");
  }
  EXPECT_THAT(ssh_command({.host = "w1"}, plain), Not(Contains(HasSubstr("KnownHosts"))));
  EXPECT_THAT(ssh_command({.host = "w1"}, full), Contains("GlobalKnownHostsFile=/dev/null"));
  EXPECT_THAT(ssh_command({.host = "w1"}, full), Contains("IdentitiesOnly=yes"));
}

TEST(SshCommand, UsesAMasterConnectionWhereTheUsersFilesDecide) {
  for (const SshOptions& options :
       {SshOptions{.known_hosts_file = "/k/known"}, SshOptions{.identity_file = "/k/id"}}) {
    const auto words = ssh_command({.host = "w1"}, options);
    EXPECT_THAT(words, Contains("ControlMaster=no"));
    EXPECT_THAT(words, Contains("ControlPath=none"));
  }
  const auto words = ssh_command({.host = "w1"}, {.jumps = {{.host = "outer"}}});
  EXPECT_THAT(words, Contains("ControlMaster=no"));
  EXPECT_THAT(words, Not(Contains(HasSubstr("ControlPath"))));
}

TEST(SshError, ASocketThatADeadMasterHasLeftIsNoReason) {
  const std::string stale = "Control socket connect(/run/me/m-1): Connection refused\r\n";
  EXPECT_EQ(without_stale_master(stale), "");
  EXPECT_EQ(without_stale_master("it wrote: " + stale + "other\n" + stale), "it wrote: other\n");
  const Error told = explain_ssh_error(
      {.host = "w1"}, {},
      {ErrorKind::lost, stale + "ssh: connect to host w1 port 22: Connection timed out", {}});
  EXPECT_THAT(told.message, HasSubstr("w1 does not answer"));
}

TEST(SshError, WhoeverAsksForACodeIsLoggedInToByHand) {
  const Error refusal{
      ErrorKind::lost, "me@w1: Permission denied (publickey,keyboard-interactive).", {}};
  EXPECT_THAT(explain_ssh_error({.host = "w1"}, {}, refusal).hint, HasSubstr("ControlMaster"));
  EXPECT_THAT(explain_ssh_error({.host = "w1"}, {.identity_file = "/k/id"}, refusal).hint,
              Not(HasSubstr("ControlMaster")));
}

TEST(SshError, AMasterWithoutAFreeSessionIsNamed) {
  const Error refusal{
      ErrorKind::lost,
      "mux_client_request_session: session request failed: Session open refused by peer\r\n"
      "me@w1: Permission denied (publickey,keyboard-interactive).",
      {}};
  EXPECT_THAT(explain_ssh_error({.host = "w1"}, {}, refusal).hint, HasSubstr("MaxSessions"));
}

std::string output_of(std::vector<std::string> words) {
  io::SpawnOptions spawn;
  spawn.command = std::move(words);
  const auto ran = io::run_command(spawn, std::chrono::seconds(20));
  EXPECT_TRUE(ran && ran->status.code == 0) << (ran ? ran->err : ran.error().message);
  return ran ? ran->out : "";
}

// What ssh itself makes of the options, without a connection.
std::string effective(std::vector<std::string> words) {
  words.insert(words.begin() + 1, "-G");
  return output_of(std::move(words));
}

TEST(SshCommand, IsUnderstoodBySsh) {
  const SshOptions options{.identity_file = "/a folder/i%d \"q\"",
                           .known_hosts_file = "/a folder/known",
                           .configuration_file = "/dev/null"};
  const std::string told =
      effective(ssh_command({.host = "10.0.0.7", .user = "me", .port = 2222}, options));
  EXPECT_THAT(told, HasSubstr("\nhostname 10.0.0.7\n"));
  EXPECT_THAT(told, HasSubstr("user me\n"));
  EXPECT_THAT(told, HasSubstr("port 2222\n"));
  EXPECT_THAT(told, HasSubstr("stricthostkeychecking true\n"));
  EXPECT_THAT(told, HasSubstr("batchmode yes\n"));
  EXPECT_THAT(told,
              AllOf(HasSubstr("serveraliveinterval 5\n"), HasSubstr("serveralivecountmax 12\n")))
      << "servers do not answer while PAM opens a session";
  EXPECT_THAT(told, HasSubstr("userknownhostsfile /a folder/known\n"));
  EXPECT_THAT(told, HasSubstr("identityfile /a folder/i"));
  EXPECT_THAT(told, HasSubstr("identitiesonly yes\n"));
}

TEST(SshCommand, JumpsKeepTheRules) {
  SshOptions options{.known_hosts_file = "/k/known", .configuration_file = "/dev/null"};
  options.jumps = {{.host = "outer", .user = "a"}, {.host = "inner", .port = 2200}};
  const auto words = ssh_command({.host = "10.0.0.7"}, options);
  const auto proxy = std::ranges::find_if(
      words, [](const std::string& word) { return word.starts_with("ProxyCommand="); });
  ASSERT_NE(proxy, words.end());
  EXPECT_THAT(*proxy, HasSubstr("-W '[%h]:%p' -- inner"));
  EXPECT_THAT(*proxy, HasSubstr(" StrictHostKeyChecking=yes"));
  EXPECT_THAT(*proxy, HasSubstr("[%%h]:%%p"));
  EXPECT_THAT(effective(words), HasSubstr("proxycommand ssh "));

  // The inner command, as the shell would run it, is one that ssh understands too.
  const std::string start = "ProxyCommand=ssh";
  ASSERT_TRUE(proxy->starts_with(start));
  std::string rest = proxy->substr(start.size());
  for (std::size_t at = 0; (at = rest.find("%%", at)) != std::string::npos; ++at) rest.erase(at, 1);
  rest.replace(rest.rfind("[%h]:%p"), 7, "10.0.0.7:22");  // as ssh does
  const std::string told = output_of({"sh", "-c", "exec ssh -G" + rest});
  EXPECT_THAT(told, HasSubstr("\nhostname inner\n"));
  EXPECT_THAT(told, HasSubstr("port 2200\n"));
  EXPECT_THAT(told, HasSubstr("stricthostkeychecking true\n"));
  EXPECT_THAT(told, HasSubstr("-W '[%h]:%p' -- outer"));
}

TEST(SshCommand, UsersOfAWindowsDomainLogIn) {
  const SshOptions options{.jumps = {{.host = "outer", .user = "CORP\\you"}},
                           .configuration_file = "/dev/null"};
  const auto words = ssh_command({.host = "w1", .user = "CORP\\me"}, options);
  EXPECT_THAT(words, Contains("CORP\\me"));
  EXPECT_THAT(words, Contains(HasSubstr(" -l 'CORP\\you' ")));
  EXPECT_THAT(effective(words), HasSubstr("user CORP\\me\n"));
  const Error told = explain_ssh_error({.host = "w1", .user = "CORP\\me"}, {},
                                       {.message = "CORP\\me@w1: Permission denied (publickey)."});
  EXPECT_THAT(told.hint, HasSubstr("try 'ssh CORP\\\\me@w1' by hand"));
  for (const char* text : {"\\-l@w1", "CORP\\@w1", "CORP\\$x@w1", "w1\\x"}) {
    EXPECT_FALSE(parse_ssh_target(text)) << text;
  }
}

// What OpenSSH 9 wrote, seen on hosts of the test bed.
constexpr const char* kChanged =
    "its agent ended (exit code 255); it wrote: @@@@@@@@@@@\r\n"
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n"
    "The fingerprint for the ED25519 key sent by the remote host is\n"
    "SHA256:NMhHdtLUDLV16jdCCancZjrUrzeQ/jbmqjC4MTiWAiE.\r\n"
    "Please contact your system administrator.\r\n"
    "Add correct host key in /h/known_hosts to get rid of this message.\r\n"
    "Offending ED25519 key in /h/known_hosts:4\r\n"
    "Host key for 10.77.0.13 has changed and you have requested strict checking.\r\n"
    "Host key verification failed.\r\n";

TEST(SshError, AChangedKeyNamesFileAndLine) {
  const Error told = explain_ssh_error({.host = "10.77.0.13"}, {}, {.message = kChanged});
  EXPECT_EQ(told.kind, ErrorKind::denied);
  EXPECT_THAT(told.message, HasSubstr("the host key of 10.77.0.13 has changed"));
  EXPECT_THAT(told.message, HasSubstr("differs from the one in /h/known_hosts:4"));
  EXPECT_THAT(told.message, HasSubstr("(SHA256:NMhHdtLUDLV16jdCCancZjrUrzeQ/jbmqjC4MTiWAiE)"));
  EXPECT_THAT(told.message, HasSubstr("Host key verification failed.)"));
  EXPECT_THAT(told.hint, HasSubstr("replace that line of /h/known_hosts"));
}

TEST(SshError, OthersSayWhatToDo) {
  struct Case {
    const char* words;
    ErrorKind kind;
    const char* message;
    const char* hint;
  };
  const SshOptions options{.identity_file = "/k/id", .known_hosts_file = "/k/known"};
  for (const Case& c : {
           Case{"No ED25519 host key is known for w1 and you have requested strict checking.\r\n"
                "Host key verification failed.\r\n",
                ErrorKind::denied, "the host key of me@w1:22 is unknown",
                "add the line to /k/known or give it as host_keys="},
           Case{"me@w1: Permission denied (publickey).\r\n", ErrorKind::denied,
                "refused the login for this user with the key /k/id",
                "try 'ssh -p 22 me@w1' by hand; set user=, identity_file="},
           Case{"No user exists for uid 10001\r\n", ErrorKind::unsupported,
                "ssh to me@w1:22 cannot start", "no entry in /etc/passwd"},
           Case{"This account is currently not available.\n", ErrorKind::denied,
                "me@w1:22 allows this user no commands", "chsh"},
           Case{"ssh: Could not resolve hostname w1: Name or service not known\r\n",
                ErrorKind::invalid, "cannot resolve the name w1", "~/.ssh/config"},
           Case{"ssh: connect to host w1 port 22: Connection refused\r\n", ErrorKind::unreachable,
                "me@w1:22 refuses the connection", "sshd"},
           Case{"ssh: connect to host w1 port 22: Connection timed out\r\n", ErrorKind::unreachable,
                "me@w1:22 does not answer", "firewalls"},
       }) {
    const Error told = explain_ssh_error({.host = "w1", .user = "me", .port = 22}, options,
                                         {.kind = ErrorKind::lost, .message = c.words});
    EXPECT_EQ(told.kind, c.kind) << c.words;
    EXPECT_THAT(told.message, HasSubstr(c.message));
    EXPECT_THAT(told.message, HasSubstr(std::string(c.words).substr(0, 20)));
    EXPECT_THAT(told.hint, HasSubstr(c.hint));
  }
}

TEST(SshError, AJumpHostIsBlamedForItsOwn) {
  const SshOptions options{.jumps = {{.host = "gate", .user = "j"}}};
  const Error told = explain_ssh_error(
      {.host = "w1"}, options,
      {.message = "No ED25519 host key is known for gate and you have requested strict checking.\n"
                  "Host key verification failed.\nConnection closed by UNKNOWN port 65535\n"});
  EXPECT_THAT(told.message, HasSubstr("the host key of j@gate is unknown"));
}

TEST(SshError, ASilentJumpHostIsNamed) {
  const SshOptions options{.jumps = {{.host = "gate", .user = "j"}}};
  const Error told = explain_ssh_error(
      {.host = "w1"}, options, {.message = "Connection timed out during banner exchange\r\n"});
  EXPECT_THAT(told.message, HasSubstr("w1 is not reached through the jump host j@gate"));
  const Error behind = explain_ssh_error(
      {.host = "w1"}, options,
      {.message = "channel 0: open failed: connect failed: No route to host\r\n"
                  "stdio forwarding failed\r\nConnection closed by UNKNOWN port 65535\r\n"});
  EXPECT_THAT(behind.message, HasSubstr("w1 does not answer"));
}

TEST(SshError, WhatIsNotOfSshStaysAsItIs) {
  const Error error{.kind = ErrorKind::lost, .message = "its agent sent nothing for 10 s"};
  EXPECT_EQ(explain_ssh_error({.host = "w1"}, {}, error), error);
}

}  // namespace
}  // namespace skyward::provider
