#include "skyward/provider/aws/login.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "skyward/base/text.h"
#include "skyward/io/machine.h"
#include "skyward/provider/aws/market.h"
#include "skyward/spec/image.h"

namespace skyward::provider::aws {

namespace {

// What `aws ssm start-session` says, and what it means.
struct SessionError {
  const char* words;
  bool permanent;
  ErrorKind kind;
  const char* meaning;
  const char* hint;
};

constexpr SessionError kSessionErrors[] = {
    {"TargetNotConnected", false, ErrorKind::unreachable, "it has not reported to Session Manager",
     "the role of instance_profile_arn= needs the policy AmazonSSMManagedInstanceCore, the image "
     "Amazon's SSM agent (Ubuntu's and Amazon's own have it), and the subnet a route to Amazon's "
     "services"},
    {"AccessDenied", true, ErrorKind::denied, "these credentials may not open a session there",
     "allow them ssm:StartSession on the pool's machines and on the document AWS-StartSSHSession"},
    {"ExpiredToken", true, ErrorKind::denied, "the credentials are no longer valid",
     "renew the credentials, for example with 'aws sso login'"},
    {"Unable to locate credentials", true, ErrorKind::denied, "the AWS CLI finds no credentials",
     "'skyward providers check aws' shows which ones Skyward uses; the AWS CLI may be too old to "
     "know their source"},
    {"SessionManagerPlugin is not found", true, ErrorKind::unsupported,
     "the AWS CLI does not find its Session Manager plugin",
     "install session-manager-plugin in a directory on PATH"},
};

}  // namespace

Status check_session_manager(const World& world, const std::string& instance_profile) {
  std::vector<std::string> missing;
  for (const char* program : {"aws", "session-manager-plugin"}) {
    if (!io::find_program(program, world.variable("PATH"))) missing.emplace_back(program);
  }
  if (!missing.empty()) {
    return fail(ErrorKind::unsupported,
                fmt::format("use_ssm=True needs the program{} {} on this computer, not found on "
                            "PATH",
                            missing.size() == 1 ? "" : "s", fmt::join(missing, " and ")),
                "install the AWS CLI and its Session Manager plugin, or leave use_ssm out: then "
                "machines are reached by SSH, from this computer's address alone");
  }
  if (instance_profile.empty()) {
    return fail(ErrorKind::invalid,
                "use_ssm=True: only machines with a role can connect to Session Manager, but these "
                "would have none",
                "give instance_profile_arn= of a profile whose role has the policy "
                "AmazonSSMManagedInstanceCore");
  }
  return {};
}

std::string silent_hint(const ProviderSpec& settings) {
  std::string hint = settings.setting("security_group_id").empty()
                         ? "the pool's security group admits this computer by the address that it "
                           "had when the pool opened"
                         : "the group of security_group_id= must admit SSH from this computer";
  if (is_private(settings)) {
    hint =
        "private_addresses=True: this computer must have a route to the subnet, and the "
        "security group must admit it";
  } else if (!settings.setting("subnet_id").empty()) {
    hint += "; if the internet has no route to the subnet, set private_addresses=True";
  }
  return hint;
}

SshRoute route_by(const Login& login, const Instance& instance) {
  if (login.session_region.empty()) {
    return {
        .target = {.host = instance.public_ip.value_or(instance.private_ip), .user = login.user},
        .silent_hint = login.silent_hint};
  }
  // Session Manager knows machines by their ids.
  SshRoute route{.target = {.host = instance.id, .user = login.user}};
  route.proxy_command = fmt::format(
      "aws ssm start-session --target %h --document-name AWS-StartSSHSession "
      "--parameters portNumber=%p --region {}",
      shell_quote(login.session_region));
  for (const SessionError& known : kSessionErrors) {
    if (known.permanent) route.permanent_errors.emplace_back(known.words);
  }
  return route;
}

std::optional<Error> explain_session_error(const Login& login, const Instance& instance,
                                           const Error& error) {
  if (login.session_region.empty()) return std::nullopt;
  for (const SessionError& known : kSessionErrors) {
    if (!error.message.contains(known.words)) continue;
    return Error{
        .kind = known.kind,
        .message = fmt::format("{} in {} cannot be reached: {} ({})", instance.id,
                               login.session_region, known.meaning, trimmed(error.message)),
        .hint = known.hint};
  }
  return std::nullopt;
}

std::optional<Error> explain_refused_login(const Login& login, const Instance& instance,
                                           const Error& error) {
  if (!error.message.contains("Permission denied (")) return std::nullopt;
  return Error{.kind = ErrorKind::denied,
               .message = fmt::format("{} refuses the login as {}; its image is {} ({})",
                                      instance.id, login.user, login.image, trimmed(error.message)),
               .hint =
                   "give username= of the image's own user (ubuntu, ec2-user, rocky …); the "
                   "image needs cloud-init, which installs the pool's key"};
}

}  // namespace skyward::provider::aws
