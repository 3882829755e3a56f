#include "skyward/provider/volume_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "skyward/io/process.h"
#include "skyward/spec/image.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;

using Variables = std::map<std::string, std::string>;

VolumeScripts scripts_of(const PoolSpec& spec, const Variables& variables = {}) {
  return volume_scripts(spec, [&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

PoolSpec with(std::vector<Volume> volumes) {
  PoolSpec spec;
  spec.volumes = std::move(volumes);
  return spec;
}

TEST(VolumeScripts, NothingWithoutVolumes) {
  const VolumeScripts scripts = scripts_of(PoolSpec{}, {{"AWS_ACCESS_KEY_ID", "id"}});
  EXPECT_TRUE(scripts.mount.empty() && scripts.unmount.empty());
  EXPECT_THAT(scripts.packages, IsEmpty());
  EXPECT_THAT(scripts.environment, IsEmpty()) << "keys go nowhere without need";
}

TEST(VolumeScripts, ABucketAtAmazonWithKeys) {
  const VolumeScripts scripts =
      scripts_of(with({{.mount_path = "/my data", .bucket = "models", .prefix = "a/b/"},
                       {.mount_path = "/out", .bucket = "results", .read_only = false}}),
                 {{"AWS_ACCESS_KEY_ID", "CANARY-1"},
                  {"AWS_SECRET_ACCESS_KEY", "CANARY-2"},
                  {"AWS_REGION", "eu-west-1"}});
  EXPECT_THAT(scripts.mount,
              AllOf(HasSubstr("mount_bucket '/my data' models:/a/b "
                              "url=https://s3.eu-west-1.amazonaws.com,endpoint=eu-west-1,"),
                    HasSubstr("connect_timeout=5,ro\n"),
                    HasSubstr("connect_timeout=5,stat_cache_expire=10\n"), Not(HasSubstr("CANARY")),
                    Not(HasSubstr("public_bucket")), Not(HasSubstr("retries=")),
                    HasSubstr("keep_keys\nmount_bucket"), HasSubstr("ro\nmount_bucket")));
  EXPECT_TRUE(scripts.mount.ends_with("\nforget_keys\nstep volumes\n"))
      << "the keys are gone when all is mounted";
  EXPECT_THAT(scripts.unmount, AllOf(Not(HasSubstr("/out")), Not(HasSubstr("/my data"))))
      << "only what was noted as mounted is let go";
  EXPECT_THAT(scripts.packages, ElementsAre("s3fs"));
  EXPECT_THAT(scripts.environment, ElementsAre(Pair("AWS_ACCESS_KEY_ID", "CANARY-1"),
                                               Pair("AWS_SECRET_ACCESS_KEY", "CANARY-2")));
}

TEST(VolumeScripts, TheRegionIsThatOfTheVariablesOrOfThePool) {
  PoolSpec spec = with({{.mount_path = "/data", .bucket = "models"}});
  const auto mounts = [&](const Variables& variables, const std::string& options) {
    return scripts_of(spec, variables).mount.contains(options + ",sigv4");
  };
  EXPECT_TRUE(mounts({}, "url=https://s3.us-east-1.amazonaws.com,endpoint=us-east-1"));
  spec.provider = {.name = "digitalocean", .settings = {{"region", "nyc1"}}};
  EXPECT_TRUE(mounts({}, "url=https://s3.us-east-1.amazonaws.com,endpoint=us-east-1"));
  spec.provider = {.name = "aws", .settings = {{"region", "eu-west-1"}}};
  EXPECT_TRUE(mounts({}, "url=https://s3.eu-west-1.amazonaws.com,endpoint=eu-west-1"));
  EXPECT_TRUE(mounts({{"AWS_DEFAULT_REGION", "us-west-2"}},
                     "url=https://s3.us-west-2.amazonaws.com,endpoint=us-west-2"));
  EXPECT_TRUE(mounts({{"AWS_REGION", "cn-north-1"}},
                     "url=https://s3.cn-north-1.amazonaws.com.cn,endpoint=cn-north-1"));
}

TEST(VolumeScripts, ABucketWithADotIsAPartOfThePath) {
  const std::string mount = scripts_of(with({{.mount_path = "/a", .bucket = "data.example.org"},
                                             {.mount_path = "/b", .bucket = "data-example"}}))
                                .mount;
  EXPECT_THAT(mount, AllOf(HasSubstr("public_bucket=1,use_path_request_style,ro\nmount_bucket /b"),
                           HasSubstr("public_bucket=1,ro\nforget_keys")));
}

// What a function of the script prints, beside others that are defined first.
std::string output_of(const std::string& function, const std::string& others,
                      const std::string& line) {
  const std::string mount = scripts_of(with({{.mount_path = "/data", .bucket = "models"}})).mount;
  const std::size_t begin = mount.find("\n" + function + "() {");
  const std::string body = mount.substr(begin, mount.find("\n}\n", begin) + 3 - begin);
  const auto ran = io::run_command({.command = {"bash", "-euc", others + body + line}}, 10s);
  EXPECT_TRUE(ran);
  return ran ? ran->out : "";
}

// What happens to a mount that is there already, by what stat says.
std::string place_with(const std::string& stat) {
  return output_of("make_place",
                   "as_root=(env); places=/dev/null\n"
                   "is_mounted() { true; }; is_of_another_pool() { false; }; mkdir() { :; }\n"
                   "told() { echo \"$*\"; }\n"
                   "env() { if [[ $3 == stat ]]; then " +
                       stat + R"(; elif [[ $1 == umount ]]; then echo "$*"; fi; })",
                   "make_place /data");
}

TEST(VolumeScripts, OnlyAMountThatNobodyServesIsUnmounted) {
  const auto error = [](const std::string& why) {
    return "{ echo \"stat: cannot statx '/data/.': " + why + "\" >&2; return 1; }";
  };
  EXPECT_EQ(place_with(error("Transport endpoint is not connected")), "umount -l -- /data\n");
  EXPECT_THAT(place_with(error("Permission denied")), HasSubstr("mounted at /data already"))
      << "root may not look into a user's own file system";
  EXPECT_THAT(place_with("true"), HasSubstr("mounted at /data already"));
}

// What the script gives a version of s3fs besides, by what its help says.
std::string newer_options(const std::string& help) {
  return output_of("s3_newer_options", "s3fs() { echo " + shell_quote(help) + "; }",
                   "s3_newer_options");
}

TEST(VolumeScripts, OnlyServersBelowTheAgentAreWaitedFor) {
  const auto is_below = [](const std::string& process) {
    return output_of("is_below_agent", "",
                     "if is_below_agent " + process + "; then echo yes; else echo no; fi");
  };
  EXPECT_EQ(is_below("$$"), "yes\n");
  EXPECT_EQ(is_below("$BASHPID"), "yes\n");
  EXPECT_EQ(is_below("1"), "no\n");
  EXPECT_EQ(is_below("4194305"), "no\n") << "it has ended";
}

TEST(VolumeScripts, AReadOnlyPrefixWithoutFilesIsSeen) {
  const std::string line =
      "d=$(mktemp -d); see() { if has_files \"$1\"; then echo yes; else echo no; fi; }\n"
      "see $d; touch $d/.hidden; see $d; see $d/missing; rm -r $d";
  EXPECT_EQ(output_of("has_files", "", line), "no\nyes\nyes\n") << "the last is not known";
}

TEST(VolumeScripts, RootHasTheProxiesOfTheClient) {
  const auto root_with = [](const std::string& variables) {
    return output_of("keep_proxies",
                     "unset {http,https,all,no}_proxy {HTTP,HTTPS,ALL,NO}_PROXY\n" + variables,
                     "keep_proxies; echo \"${as_root[*]} ${no_proxy:-}\"");
  };
  EXPECT_EQ(root_with("as_root=(sudo -n)"), "sudo -n \n");
  EXPECT_EQ(root_with("as_root=(sudo -n); https_proxy=http://p:1; NO_PROXY=.here"),
            "sudo -n --preserve-env=https_proxy,no_proxy .here,169.254.169.254\n");
  EXPECT_EQ(root_with("as_root=(); HTTPS_PROXY=http://p:1"), " 169.254.169.254\n");
}

std::string reason_of(const std::string& log) {
  return output_of("why_not_mounted", "s3_who='the keys'\nlog=$(mktemp)",
                   "echo " + shell_quote(log) + " >$log; why_not_mounted $log; rm $log");
}

TEST(VolumeScripts, TheLogOfS3fsSaysWhyABucketIsNotMounted) {
  EXPECT_THAT(reason_of("[CRT] bucket or key not found(host=x) - result of checking service."),
              HasSubstr("no such bucket"));
  for (const char* log : {"<Code>AuthorizationHeaderMalformed</Code> expecting 'eu-west-1'",
                          "S3 service returned PermanentRedirect with endpoint: x",
                          "The bucket region is not 'us-east-1', it is correctly 'eu-west-1'."})
    EXPECT_THAT(reason_of(log), HasSubstr("set AWS_REGION")) << log;
  EXPECT_THAT(reason_of("<Code>ExpiredToken</Code>"), HasSubstr("have expired"));
  for (const char* log : {"invalid credentials(host=x) - result of checking service.",
                          "Invalid Credentials(host=x, message=InvalidAccessKeyId)",
                          "<Code>AccessDenied</Code>", "HTTP response code=403"})
    EXPECT_EQ(reason_of(log), "the store refuses the keys.\n") << log;
  EXPECT_THAT(reason_of("s3fs: MOUNTPOINT directory /data is not empty. if you are sure"),
              HasSubstr("choose another mount_path"));
  EXPECT_THAT(reason_of("fuse: device not found, try 'modprobe fuse' first"), HasSubstr("FUSE"));
  EXPECT_THAT(reason_of("fuse: mount failed: Operation not permitted"), HasSubstr("FUSE"));
  EXPECT_THAT(reason_of("curl error 7"), HasSubstr("check that the store exists"));
}

TEST(VolumeScripts, EachVersionOfS3fsGetsTheOptionsThatItKnows) {
  EXPECT_EQ(newer_options("   notsup_compat_dir (disable support of alternative names)"), "");
  EXPECT_EQ(newer_options("   compat_dir (enable it)\n   disable_noobj_cache (default is enable)"),
            ",compat_dir,disable_noobj_cache");
}

TEST(VolumeScripts, KeysAreForBucketsAlone) {
  const Variables keys{{"AWS_ACCESS_KEY_ID", "CANARY-1"}, {"AWS_SECRET_ACCESS_KEY", "CANARY-2"}};
  const VolumeScripts own =
      scripts_of(with({{.mount_path = "/own", .mount_commands = {"true"}}}), keys);
  EXPECT_THAT(own.environment, IsEmpty());
  EXPECT_TRUE(own.begin.empty());
  EXPECT_THAT(own.mount, Not(HasSubstr("\nkeep_keys\n")));
  PoolSpec with_role = with({{.mount_path = "/own", .mount_commands = {"true"}}});
  with_role.provider.settings["instance_profile_arn"] = "arn";
  EXPECT_THAT(scripts_of(with_role).mount, Not(HasSubstr("\nfind_role\n")));
  EXPECT_EQ(scripts_of(with({{.mount_path = "/data", .bucket = "models"}}), keys).begin,
            "export -n AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY\n");
}

TEST(VolumeScripts, AnotherStoreAndNoKeys) {
  PoolSpec spec = with({{.mount_path = "/data", .bucket = "models"}});
  const Variables own{{"AWS_ENDPOINT_URL", "http://10.0.0.1:9000"}};
  EXPECT_THAT(scripts_of(spec, own).mount,
              HasSubstr("url=http://10.0.0.1:9000,endpoint=us-east-1,sigv4,allow_other,umask=077,"
                        "mp_umask=077,connect_timeout=5,use_path_request_style,"
                        "public_bucket=1,ro\n"));
  spec.provider.settings["instance_profile_arn"] = "arn";
  EXPECT_THAT(scripts_of(spec).mount,
              AllOf(HasSubstr("\nfind_role\nmount_bucket"), Not(HasSubstr("public_bucket"))));
}

TEST(VolumeScripts, ARoleOutlivesTheKeysOfASession) {
  PoolSpec spec = with({{.mount_path = "/data", .bucket = "models"}});
  Variables keys{{"AWS_ACCESS_KEY_ID", "CANARY-1"}, {"AWS_SECRET_ACCESS_KEY", "CANARY-2"}};
  const auto is_by_role = [&] {
    const VolumeScripts scripts = scripts_of(spec, keys);
    const bool by_role = scripts.mount.contains("\nfind_role\nmount_bucket");
    EXPECT_EQ(scripts.environment.empty(), by_role);
    EXPECT_EQ(scripts.begin.empty(), by_role);
    return by_role;
  };
  spec.provider = {.name = "aws", .settings = {{"instance_profile_arn", "arn"}}};
  EXPECT_FALSE(is_by_role()) << "these keys do not expire";
  keys["AWS_SESSION_TOKEN"] = "CANARY-3";
  EXPECT_TRUE(is_by_role());
  spec.provider.settings["use_ssm"] = "true";
  EXPECT_FALSE(is_by_role()) << "the role may be for Session Manager alone";
  spec.provider.settings = {};
  EXPECT_FALSE(is_by_role()) << "there is no role";
}

TEST(VolumeScripts, AKindOfTheUsersOwn) {
  const VolumeScripts scripts =
      scripts_of(with({{.mount_path = "/own",
                        .install_commands = {"apt-get install -y nfs-common"},
                        .mount_commands = {"mount -t nfs 'host:/x' /own"}}}));
  EXPECT_THAT(scripts.mount, HasSubstr("mount_own /own 'apt-get install -y nfs-common' "
                                       "'mount -t nfs '\\''host:/x'\\'' /own'\n"));
  EXPECT_THAT(scripts.packages, IsEmpty());
}

}  // namespace
}  // namespace skyward::provider
