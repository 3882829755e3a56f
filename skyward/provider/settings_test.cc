#include "skyward/provider/settings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "skyward/provider/trust.h"
#include "skyward/provider/world_fixture.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kUserFile = "/h/.config/skyward/config.toml";
constexpr const char* kProjectFile = "/h/project/skyward.toml";

class Settings : public testing::Test {
 protected:
  Settings() {
    fixture_.variables["HOME"] = "/h";
    fixture_.directory = "/h/project";
  }
  // "VALUE from ORIGIN", or what is wrong.
  std::string find(const char* provider, const char* name,
                   const std::map<std::string, std::string>& said = {}) {
    const auto files = read_settings(fixture_.world);
    if (!files) return files.error().message + " | " + files.error().hint;
    const auto settings = settings_of(fixture_.world, *files, provider, said);
    if (!settings) return settings.error().message + " | " + settings.error().hint;
    for (const SettingOrigin& one : *settings) {
      if (one.name == name) return one.value + " from " + one.origin;
    }
    return "nothing";
  }
  std::string find_provider() {
    const auto files = read_settings(fixture_.world);
    if (!files) return files.error().message;
    const auto found = default_provider(fixture_.world, *files);
    return found ? found->value + " from " + found->origin : found.error().message;
  }
  void project_says(const std::string& text) {
    fixture_.files[kProjectFile] = text;
    const auto file = parse_settings_file(text, kProjectFile, "/h");
    ASSERT_TRUE(trust_file(fixture_.world, kProjectFile, text,
                           file ? files_named_in(*file) : std::vector<std::string>()));
  }
  void stranger_says(const std::string& text) { fixture_.files[kProjectFile] = text; }
  // What is wrong with a pool of this provider; empty: nothing.
  std::string refusal(const char* provider, const std::map<std::string, std::string>& said = {}) {
    const auto spec = with_settings(fixture_.world, {.name = provider, .settings = said});
    return spec ? "" : spec.error().message + " | " + spec.error().hint;
  }

  WorldFixture fixture_;
};

TEST_F(Settings, TheLaterWins) {
  EXPECT_EQ(find("aws", "region"), "us-east-1 from default");
  fixture_.files["/h/.aws/config"] = "[default]\nregion = ap-south-1\n";
  EXPECT_EQ(find("aws", "region"), "ap-south-1 from profile \"default\"");
  fixture_.files[kUserFile] = "[providers.aws]\nregion = \"eu-north-1\"\n";
  EXPECT_EQ(find("aws", "region"), "eu-north-1 from /h/.config/skyward/config.toml:2");
  project_says("# ours\n\n[providers.aws]\nregion = \"eu-west-1\"\n");
  EXPECT_EQ(find("aws", "region"), "eu-west-1 from /h/project/skyward.toml:4");
  fixture_.variables["AWS_REGION"] = "us-west-1";
  EXPECT_EQ(find("aws", "region"), "us-west-1 from $AWS_REGION");
  fixture_.variables["SKYWARD_AWS_REGION"] = "us-west-2";
  EXPECT_EQ(find("aws", "region"), "us-west-2 from $SKYWARD_AWS_REGION");
  EXPECT_EQ(find("aws", "region", {{"region", "us-east-2"}}), "us-east-2 from code");
}

// find_secret() reads the variable.
TEST_F(Settings, AVariableOfTheCloudWinsOverAKeyInAFile) {
  fixture_.files[kUserFile] =
      "[providers.runpod]\napi_key = \"file\"\n"
      "[providers.digital_ocean]\ntoken = \"file\"\nssh_key_fingerprint = \"1\"\n";
  EXPECT_EQ(find("runpod", "api_key"), "file from /h/.config/skyward/config.toml:2");
  fixture_.variables["RUNPOD_API_KEY"] = "mine";
  EXPECT_EQ(find("runpod", "api_key"), "nothing");
  EXPECT_FALSE(with_readable_settings(fixture_.world, "runpod").settings.contains("api_key"));
  EXPECT_EQ(find("digital_ocean", "token"), "file from /h/.config/skyward/config.toml:4");
  fixture_.variables["DIGITALOCEAN_ACCESS_TOKEN"] = "mine";
  EXPECT_EQ(find("digital_ocean", "token"), "nothing");
  fixture_.variables["DIGITALOCEAN_SSH_KEY_FINGERPRINT"] = "2";
  EXPECT_EQ(find("digital_ocean", "ssh_key_fingerprint"),
            "2 from $DIGITALOCEAN_SSH_KEY_FINGERPRINT");
  fixture_.variables["SKYWARD_RUNPOD_API_KEY"] = "ours";
  EXPECT_EQ(find("runpod", "api_key"), "ours from $SKYWARD_RUNPOD_API_KEY");
}

TEST_F(Settings, AnIdAndItsSecretComeFromTheSamePlace) {
  fixture_.files[kUserFile] = "[providers.verda]\nclient_id = \"i\"\nclient_secret = \"s\"\n";
  EXPECT_EQ(find("verda", "client_secret"), "s from /h/.config/skyward/config.toml:3");
  EXPECT_EQ(find("verda", "client_secret", {{"client_id", "another"}}), "nothing");
  for (const char* variable : {"VERDA_CLIENT_ID", "SKYWARD_VERDA_CLIENT_ID"}) {
    fixture_.variables[variable] = "another";
    EXPECT_EQ(find("verda", "client_secret"), "nothing") << variable;
    fixture_.variables.erase(variable);
  }
}

TEST_F(Settings, EachSettingIsSoughtForItself) {
  fixture_.files[kUserFile] = "[providers.aws]\nregion = \"eu-north-1\"\nami = \"ami-1\"\n";
  project_says("providers.aws.region = \"eu-west-1\"");
  EXPECT_EQ(find("aws", "region"), "eu-west-1 from /h/project/skyward.toml:1");
  EXPECT_EQ(find("aws", "ami"), "ami-1 from /h/.config/skyward/config.toml:3");
  EXPECT_EQ(find("aws", "use_ssm"), "false from default");
  EXPECT_EQ(find("aws", "subnet_id"), "nothing");
}

TEST_F(Settings, TheProviderOfPoolsThatNameNone) {
  EXPECT_EQ(find_provider(), "local from default");
  fixture_.files[kUserFile] = "provider = \"ssh\"";
  EXPECT_EQ(find_provider(), "ssh from /h/.config/skyward/config.toml:1");
  project_says("\nprovider = \"aws\"");
  EXPECT_EQ(find_provider(), "aws from /h/project/skyward.toml:2");
  EXPECT_EQ(provider_to_take(fixture_.world, ""), "aws");
  EXPECT_EQ(provider_to_take(fixture_.world, "runpod"), "runpod");
  fixture_.variables["SKYWARD_PROVIDER"] = "local";
  EXPECT_EQ(find_provider(), "local from $SKYWARD_PROVIDER");
  EXPECT_EQ(provider_to_take(fixture_.world, "runpod"), "local") << "instead of every cloud";
  EXPECT_EQ(provider_to_take(fixture_.world, "ssh"), "ssh");
  fixture_.variables["SKYWARD_PROVIDER"] = "azure";
  EXPECT_EQ(find_provider(), "SKYWARD_PROVIDER: there is no provider \"azure\"");
}

TEST_F(Settings, FilesAreSoughtUpwardToTheRepositoryOrHome) {
  fixture_.files["/skyward.toml"] = "provider = \"aws\"";
  fixture_.files["/h/skyward.toml"] = "provider = \"verda\"";
  fixture_.directory = "/h/project/part";
  EXPECT_EQ(find_provider(), "verda from /h/skyward.toml:1");
  fixture_.files["/h/project/.git"] = "gitdir";
  EXPECT_EQ(find_provider(), "local from default") << "what is above is another project's";
  project_says("provider = \"ssh\"");
  EXPECT_EQ(find_provider(), "ssh from /h/project/skyward.toml:1");
  fixture_.directory = "/srv/work";
  EXPECT_EQ(find_provider(), "aws from /skyward.toml:1");
  fixture_.directory = "";  // it was removed
  EXPECT_EQ(find_provider(), "local from default");
}

TEST_F(Settings, TheUsersFileMayLieElsewhere) {
  fixture_.variables["XDG_CONFIG_HOME"] = "/xdg";
  fixture_.files["/xdg/skyward/config.toml"] = "provider = \"ssh\"";
  EXPECT_EQ(find_provider(), "ssh from /xdg/skyward/config.toml:1");
  fixture_.variables["SKYWARD_CONFIG"] = "/mine.toml";
  EXPECT_EQ(find_provider(), "SKYWARD_CONFIG=/mine.toml: there is no such file");
  fixture_.files["/mine.toml"] = "provider = \"aws\"";
  EXPECT_EQ(find_provider(), "aws from /mine.toml:1");
}

TEST_F(Settings, AFileThatAnotherUserMayHaveWrittenIsNotRead) {
  stranger_says("provider = \"command\"");
  fixture_.unsafe.insert(kProjectFile);
  EXPECT_EQ(find_provider(), "/h/project/skyward.toml belongs to another user");
  EXPECT_EQ(provider_to_take(fixture_.world, "").error().kind, ErrorKind::invalid);
  EXPECT_THAT(refusal("local"), HasSubstr("set SKYWARD_CONFIG=/h/project/skyward.toml"));
  fixture_.writable.insert(kProjectFile);  // by which other users could change it
  EXPECT_THAT(refusal("local"), Not(HasSubstr("SKYWARD_CONFIG")));
  fixture_.variables["SKYWARD_CONFIG"] = "skyward.toml";
  EXPECT_EQ(refusal("local"), "others may write to /h/project/skyward.toml | ");
}

TEST_F(Settings, AProjectsFileThatTheUserNamesIsTheUsers) {
  stranger_says("[providers.ssh]\nhosts = [\"w1\"]\nidentity_file = \"id\"\n");
  fixture_.unsafe.insert(kProjectFile);
  for (const char* named : {"skyward.toml", kProjectFile, "~/project/../project/skyward.toml"}) {
    fixture_.variables["SKYWARD_CONFIG"] = named;
    EXPECT_EQ(refusal("ssh"), "") << "it may decide everything";
    EXPECT_EQ(find("ssh", "identity_file"), "/h/project/id from /h/project/skyward.toml:3");
  }
  fixture_.directory = "/h/project/part";
  EXPECT_EQ(refusal("ssh"), "");
  // Naming one file says nothing of others.
  fixture_.files["/h/mine.toml"] = "";
  fixture_.variables["SKYWARD_CONFIG"] = "/h/mine.toml";
  EXPECT_THAT(refusal("ssh"), HasSubstr("belongs to another user"));
}

TEST_F(Settings, AHomeOfAnotherUserHoldsNoFile) {
  fixture_.hidden.insert(kUserFile);
  EXPECT_EQ(refusal("local"), "");
  EXPECT_EQ(find_provider(), "local from default");
  fixture_.hidden.clear();
  fixture_.unreadable.insert(kUserFile);
  EXPECT_EQ(refusal("local"),
            std::string("cannot read ") + kUserFile +
                " | make it readable, or set HOME, XDG_CONFIG_HOME or SKYWARD_CONFIG to a place of "
                "your own");
}

TEST_F(Settings, WhatCannotBeSearchedHoldsNoFile) {
  fixture_.files["/h/skyward.toml"] = "provider = \"aws\"";
  fixture_.hidden.insert(kProjectFile);
  EXPECT_EQ(find_provider(), "aws from /h/skyward.toml:1");
}

TEST_F(Settings, CommandsOfAStrangersFileDoNotRun) {
  stranger_says("provider = \"command\"\n[providers.command]\ncommands = [[\"sh\", \"-c\"]]\n");
  EXPECT_EQ(find_provider(), "command from /h/project/skyward.toml:1");
  EXPECT_EQ(
      refusal("command"),
      "/h/project/skyward.toml sets commands in [providers.command], but you have not trusted "
      "this file | such settings decide what runs on this computer, or which machines and "
      "accounts get your programs: read the file, then run 'skyward config trust "
      "/h/project/skyward.toml'");
  EXPECT_EQ(refusal("command", {{"commands", "[[\"sh\"]]"}}), "") << "the program's own count";
  EXPECT_EQ(refusal("local"), "");
  EXPECT_THAT(find("command", "commands"), HasSubstr("skyward.toml:3 (not trusted)"));
}

TEST_F(Settings, TrustIsForAPathAndItsContent) {
  const std::string hosts = "[providers.ssh]\nhosts = [\"w1\"]\n";
  project_says(hosts);
  EXPECT_EQ(refusal("ssh"), "");
  stranger_says(hosts + "# and more\n");
  EXPECT_THAT(refusal("ssh"), HasSubstr("has changed since you trusted it"));
  stranger_says(hosts);
  EXPECT_EQ(refusal("ssh"), "");
  // The same text elsewhere is not what was trusted.
  fixture_.files["/h/other/skyward.toml"] = hosts;
  fixture_.directory = "/h/other";
  EXPECT_THAT(refusal("ssh"), HasSubstr("you have not trusted this file"));
  // Nor does a record count that somebody else may have written.
  fixture_.directory = "/h/project";
  fixture_.unsafe.insert(trust_record(fixture_.world, kProjectFile));
  EXPECT_THAT(refusal("ssh"), HasSubstr("you have not trusted this file"));
  fixture_.variables.erase("HOME");
  EXPECT_THAT(refusal("ssh"), HasSubstr("you have not trusted this file"));
}

// A later version of the project may leave the settings as they are, and change what they name.
TEST_F(Settings, TrustIsForTheFilesThatItNames) {
  fixture_.files["/h/project/ssh_config"] = "Host w1\n";
  fixture_.files["/h/known"] = "w1 ssh-ed25519 A\n";
  project_says(
      "[providers.ssh]\nhosts = [\"w1\"]\nconfig = \"ssh_config\"\nhost_keys = \"~/known\"\n");
  EXPECT_EQ(refusal("ssh"), "");
  fixture_.files["/h/known"] = "w1 ssh-ed25519 B\n";  // a path may lead back to the project
  EXPECT_THAT(refusal("ssh"), HasSubstr("has changed since you trusted it"));
  fixture_.files["/h/known"] = "w1 ssh-ed25519 A\n";
  EXPECT_EQ(refusal("ssh"), "");
  project_says("[providers.ssh]\nhosts = [\"w1\"]\nhost_keys = \"~/.ssh/known_hosts\"\n");
  fixture_.files["/h/.ssh/known_hosts"] = "w1 ssh-ed25519 B\n";
  EXPECT_EQ(refusal("ssh"), "") << "it is the user's own";
  project_says(
      "[providers.ssh]\nhosts = [\"w1\"]\nconfig = \"ssh_config\"\nhost_keys = \"~/known\"\n");
  fixture_.files["/h/project/ssh_config"] = "Host w1\nProxyCommand evil\n";
  EXPECT_THAT(refusal("ssh"), HasSubstr("has changed since you trusted it"));
  fixture_.files.erase("/h/project/ssh_config");
  EXPECT_THAT(refusal("ssh"), HasSubstr("has changed since you trusted it"));
}

// Each setting as a file may say it; expectations stand in the table itself.
std::string as_toml(const ProviderSetting& setting) {
  switch (setting.kind) {
    case SettingKind::flag:
      return "true";
    case SettingKind::whole:
    case SettingKind::number:
    case SettingKind::fraction:
      return "1";
    case SettingKind::json:
      return "[[\"sh\"]]";
    case SettingKind::list:
    case SettingKind::lines:
      return "[\"x\"]";
    case SettingKind::choice:
      return "\"" + std::string(setting.choices.substr(0, setting.choices.find('|'))) + "\"";
    default:
      return "\"x\"";
  }
}

// The sheets say what a project's file may say without being trusted.
TEST_F(Settings, WhatAStrangersFileMaySay) {
  for (const ProviderSheet& sheet : provider_sheets()) {
    for (const ProviderSetting& setting : sheet.settings) {
      const std::string name = fmt::format("{}.{}", sheet.name, setting.name);
      EXPECT_FALSE(setting.name.contains("endpoint") || setting.name.contains("url"))
          << name << ": where a cloud is, no file says";
      if (setting.kind == SettingKind::internal) continue;
      stranger_says(
          fmt::format("[providers.{}]\n{} = {}\n", sheet.name, setting.name, as_toml(setting)));
      const std::string refused = refusal(std::string(sheet.name).c_str());
      if (setting.from_project == FromProject::anybody) {
        EXPECT_EQ(refused, "") << name;
      } else {
        EXPECT_THAT(refused, HasSubstr(fmt::format("sets {} in", setting.name)));
      }
      project_says(fixture_.files[kProjectFile]);
      EXPECT_EQ(refusal(std::string(sheet.name).c_str()), "") << name;
      fixture_.files.erase(trust_record(fixture_.world, kProjectFile));
    }
  }
}

// A region becomes part of the address that gets the credentials.
TEST_F(Settings, ARegionIsANameAndNoHost) {
  for (const char* evil : {"evil.example/", "evil.example", "a@b", "a#", "-a", "a:1"}) {
    project_says(fmt::format("[providers.aws]\nregion = \"{}\"\n", evil));
    EXPECT_THAT(find("aws", "region"), HasSubstr("expected the name of a region")) << evil;
  }
  stranger_says("");
  fixture_.variables["SKYWARD_AWS_REGION"] = "evil.example/";
  EXPECT_THAT(find("aws", "region"), HasSubstr("expected the name of a region"));
}

TEST_F(Settings, AllTypes) {
  project_says(R"(
[providers.ssh]
hosts = ["w1", "me@w2:2222"]
user = "u"
port = 2200
identity_file = "keys/../id"
jump = "gate"
host_keys = "~/known"
config = "/etc/ssh_config"
preemption = "ec2"
[providers.command]
commands = [["podman", "exec", "-i", "c 1", "sh", "-c"], ["sh", "-c"]]
addresses = ["10.0.0.1", "10.0.0.2"]
[providers.vastai]
min_reliability = 0.5
min_cuda = 12
verified_only = false
api_key = "hush"
[providers.runpod]
ports = ["22/tcp", "80/http"]
)");
  ProviderSpec ssh = *with_settings(fixture_.world, {.name = "ssh"});
  EXPECT_EQ(ssh.settings, (std::map<std::string, std::string>{
                              {"hosts", "w1\nme@w2:2222"},
                              {"user", "u"},
                              {"port", "2200"},
                              {"identity_file", "/h/project/id"},
                              {"jump", "gate"},
                              {"host_keys", "/h/known"},
                              {"config", "/etc/ssh_config"},
                              {"preemption", "ec2"},
                          }));
  const ProviderSpec command = *with_settings(fixture_.world, {.name = "command"});
  EXPECT_EQ(command.settings.at("commands"),
            R"([["podman","exec","-i","c 1","sh","-c"],["sh","-c"]])");
  EXPECT_EQ(command.settings.at("addresses"), R"(["10.0.0.1","10.0.0.2"])");
  const ProviderSpec vast = *with_settings(fixture_.world, {.name = "vastai"});
  EXPECT_EQ(vast.settings.at("min_reliability"), "0.5");
  EXPECT_EQ(vast.settings.at("min_cuda"), "12");
  EXPECT_EQ(vast.settings.at("verified_only"), "false");
  EXPECT_EQ(vast.settings.at("api_key"), "hush");
  EXPECT_EQ(vast.settings.at("disk_gb"), "100");
  EXPECT_EQ(with_settings(fixture_.world, {.name = "runpod"})->settings.at("ports"),
            "22/tcp,80/http");

  project_says("[providers.ssh.host_keys]\nw1 = \"ssh-ed25519 A\"\n\"me@w2:2222\" = \"k B\"\n");
  EXPECT_EQ(find("ssh", "host_keys"),
            R"({"me@w2:2222":"k B","w1":"ssh-ed25519 A"} from /h/project/skyward.toml:1)");
  project_says("[providers.ssh]\nhost_keys = [\"w1 ssh-ed25519 A\", \"w2 ssh-ed25519 B\"]\n");
  EXPECT_EQ(with_settings(fixture_.world, {.name = "ssh"})->settings.at("host_keys"),
            "w1 ssh-ed25519 A\nw2 ssh-ed25519 B");
}

// Providers whose settings are their own affair, and those of faces, stay as they are said.
TEST_F(Settings, WhatNoTableKnowsStaysAsItIs) {
  const ProviderSpec local{.name = "local", .settings = {{"python", "/p"}}};
  EXPECT_EQ(*with_settings(fixture_.world, local), local);
  fixture_.variables["SKYWARD_COMMAND_PYTHON"] = "/other";
  const ProviderSpec command{.name = "command", .settings = {{"commands", "[]"}, {"python", "/p"}}};
  EXPECT_EQ(*with_settings(fixture_.world, command), command);
}

TEST_F(Settings, VariablesAreCheckedAsFilesAre) {
  fixture_.variables["SKYWARD_AWS_USE_SSM"] = "perhaps";
  EXPECT_EQ(find("aws", "use_ssm"),
            "SKYWARD_AWS_USE_SSM=perhaps is not valid | expected true or false");
  fixture_.variables["SKYWARD_SSH_IDENTITY_FILE"] = "~/id";
  EXPECT_EQ(find("ssh", "identity_file"), "/h/id from $SKYWARD_SSH_IDENTITY_FILE");
  fixture_.variables["SKYWARD_SSH_HOST_KEYS"] = "known";
  EXPECT_EQ(find("ssh", "host_keys"), "/h/project/known from $SKYWARD_SSH_HOST_KEYS");
  fixture_.variables["SKYWARD_RUNPOD_API_KEY"] = "hush\nhush";
  EXPECT_THAT(find("runpod", "api_key"), HasSubstr("SKYWARD_RUNPOD_API_KEY=… is not valid"));
}

struct Wrong {
  const char* text;
  const char* says;
};

TEST_F(Settings, WhatIsWrongInAFileIsNamedWithItsLine) {
  for (const Wrong& wrong : {
           Wrong{"provider = ", ":1: not valid TOML: "},
           Wrong{"a\n[x", ":1: not valid TOML: "},
           Wrong{"\nprovider = 3",
                 ":2: provider = 3 is not valid | expected the name of a provider: "},
           Wrong{"[providers.aws]\nregion = eu-west-1\n", "| quote strings: region = "},
           Wrong{"[providers.aws]\nregion = \"a\"\nregion = \"b\"\n", "| correct that line"},
           Wrong{"[providers.aws\nregion = \"a\"\n", "| correct that line"},
           Wrong{"provider = \"asw\"", ":1: there is no provider \"asw\" | did you mean aws?"},
           Wrong{"[pools.big]\nnodes = 4", ":1: there is no setting or table pools | "},
           Wrong{"providers = 3", ":1: there is no setting or table providers"},
           Wrong{"providers.aws = 3", ":1: providers.aws is not a table | write [providers.aws]"},
           Wrong{"\n[providers.awss]", ":2: there is no provider \"awss\""},
           Wrong{
               "[providers.aws]\n\nregoin = \"x\"",
               ":3: [providers.aws] has no setting regoin | did you mean region? it has region, "},
           Wrong{"[providers.local]\nx = 1",
                 ":2: [providers.local] has no setting x | it has none"},
           Wrong{"[providers.command]\npython = \"p\"", "has no setting python"},
           Wrong{"[providers.aws]\nregion = 3",
                 ":2: [providers.aws] region = 3 is not valid | expected text"},
           Wrong{"[providers.aws]\nami = \"\"", "expected text that is not empty"},
           Wrong{"[providers.aws]\nami = \"a\\nb\"", "ami = \"a\\nb\" is not valid"},
           Wrong{"provider = \"x\\u001b]52;c;x\\u0007\\u009b\"", "\"x\\x1b]52;c;x\\x07\\x9b\" |"},
           Wrong{"[providers.aws]\n\"a\\nb\\u001b\" = 1", "has no setting a\\nb\\x1b | "},
           Wrong{"[providers.aws]\nuse_ssm = \"true\"", "expected true or false"},
           Wrong{"[providers.aws]\ninstance_timeout = 1.5", "expected a whole number"},
           Wrong{"[providers.aws]\ninstance_timeout = -1", "expected a whole number"},
           Wrong{"[providers.aws]\nallocation_strategy = \"best\"", "expected one of price-"},
           Wrong{"[providers.ssh]\nhosts = [\"a\", 3]", "expected a list of strings"},
           Wrong{"[providers.ssh]\nhosts = []", "expected a list of strings"},
           Wrong{"[providers.ssh]\njump = [\"a,b\"]", "expected a list of strings"},
           Wrong{"[providers.ssh]\nhost_keys = {w1 = 3}", "the path of a known_hosts file"},
           Wrong{"[providers.command]\ncommands = \"sh\"", "a list of strings, or of lists"},
       }) {
    project_says(wrong.text);
    EXPECT_THAT(find("aws", "region"),
                testing::AllOf(testing::StartsWith(kProjectFile), HasSubstr(wrong.says)))
        << wrong.text;
  }
  for (const char* secret : {"[\"hush\"]", "\"hush hush\"", "1234"}) {
    project_says(fmt::format("[providers.runpod]\napi_key = {}", secret));
    const std::string said = find("aws", "region");
    EXPECT_FALSE(said.contains("hush") || said.contains("1234")) << said;
  }
}

// For a sweep: what is wrong with one source keeps no machine running.
TEST_F(Settings, ReadableOnesAreThoseThatNothingIsWrongWith) {
  const auto region = [&] {
    const auto settings = with_readable_settings(fixture_.world, "aws").settings;
    return settings.contains("region") ? settings.at("region") : "nothing";
  };
  fixture_.files[kUserFile] = "[providers.aws]\nregion = \"eu-north-1\"\nami = \"ami-1\"\n";
  project_says("[providers.aws]\nregoin = \"eu-west-1\"\n");
  EXPECT_EQ(region(), "eu-north-1") << "the project's file has a mistake";
  stranger_says("[providers.aws]\nregion = \"eu-west-1\"\nami = \"ami-2\"\n");
  EXPECT_EQ(region(), "eu-west-1") << "anybody may say it";
  EXPECT_EQ(with_readable_settings(fixture_.world, "aws").settings.at("ami"), "ami-1");
  fixture_.variables["SKYWARD_AWS_INSTANCE_TIMEOUT"] = "soon";
  EXPECT_EQ(region(), "eu-west-1") << "another variable is not valid";
  fixture_.files[kUserFile] = "[providers.aws";
  EXPECT_EQ(region(), "eu-west-1") << "the user's file cannot be read";
  fixture_.files.erase(kProjectFile);
  EXPECT_EQ(region(), "us-east-1");
}

}  // namespace
}  // namespace skyward::provider
