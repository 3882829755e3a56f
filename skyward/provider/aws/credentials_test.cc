#include "skyward/provider/aws/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "skyward/base/hash.h"
#include "skyward/base/utc.h"
#include "skyward/io/machine.h"
#include "skyward/provider/aws/credentials_sources.h"
#include "skyward/provider/aws/own_machine.h"
#include "skyward/provider/aws/published_data_fixture.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider::aws {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A request that a published case expects, and what it answers.
struct Exchange {
  std::string method;
  std::string url;
  std::string action;  // of a form: "AssumeRole"
  io::HttpReply reply;
};

std::deque<Exchange> read_traffic(const fs::path& path) {
  std::deque<Exchange> exchanges;
  if (!fs::exists(path)) return exchanges;
  const json traffic = json::parse(slurp(path));
  for (const auto& event : traffic.at("events")) {
    const auto& action = event.at("action");
    if (action.contains("Request")) {
      const auto& request = action["Request"].at("request");
      exchanges.push_back(
          {.method = request.at("method"), .url = request.at("uri"), .action = {}, .reply = {}});
    } else if (action.contains("Response")) {
      exchanges.back().reply.status = action["Response"].at("response").at("Ok").at("status");
    } else if (action.contains("Data")) {
      const std::string text = action["Data"].at("data").value("Utf8", "");
      if (action["Data"].at("direction") == "Response") {
        exchanges.back().reply.body += text;
      } else if (text.starts_with("Action=")) {
        exchanges.back().action = text.substr(0, text.find('&'));
      }
    }
  }
  return exchanges;
}

// The parameters of a query in one order.
std::string sorted_query(const std::string& url) {
  const std::size_t question = url.find('?');
  std::vector<std::string> parts;
  std::istringstream query(question == std::string::npos ? "" : url.substr(question + 1));
  for (std::string part; std::getline(query, part, '&');) parts.push_back(part);
  std::ranges::sort(parts);
  std::string out = url.substr(0, question);
  if (out.ends_with('/')) out.pop_back();
  for (const std::string& part : parts) out += "&" + part;
  return out;
}

class PublishedCase {
 public:
  explicit PublishedCase(const fs::path& folder)
      : expected_(json::parse(slurp(folder / "test-case.json")).at("result")),
        traffic_(read_traffic(folder / "http-traffic.json")) {
    fixture_.variables =
        json::parse(slurp(folder / "env.json")).get<std::map<std::string, std::string>>();
    if (fs::is_directory(folder / "fs")) {
      for (const auto& entry : fs::recursive_directory_iterator(folder / "fs")) {
        if (!entry.is_regular_file()) continue;
        fixture_.files["/" + fs::relative(entry.path(), folder / "fs").string()] =
            slurp(entry.path());
      }
    }
    fixture_.wall_s = 1'632'197'000;
    fixture_.files["/sys/class/dmi/id/sys_vendor"] = "Amazon EC2\n";
    fixture_.http->answer = [this](const io::HttpRequest& request) -> Result<io::HttpReply> {
      if (traffic_.empty()) {
        ADD_FAILURE() << "unexpected request: " << request.method << " " << request.url;
        return fail(ErrorKind::unavailable, "no traffic left");
      }
      const Exchange exchange = traffic_.front();
      // The last reply of a case stands for all that follow: how often to try is up to each tool.
      if (traffic_.size() > 1 || exchange.reply.status < 500) traffic_.pop_front();
      EXPECT_EQ(request.method, exchange.method);
      EXPECT_EQ(sorted_query(request.url), sorted_query(exchange.url));
      EXPECT_THAT(request.body, ::testing::StartsWith(exchange.action));
      return exchange.reply;
    };
  }

  Result<Credentials> find() const {
    const auto configuration = load_configuration(fixture_.world, "");
    if (!configuration) return fail(configuration);
    return find_credentials(fixture_.world, *configuration,
                            find_region(fixture_.world, *configuration, ""), kNever);
  }

  void run() const {
    const Result<Credentials> found = find();
    if (expected_.contains("ErrorContains")) {
      ASSERT_FALSE(found) << found->source;
      EXPECT_NE(found.error().message, "");
      return;
    }
    ASSERT_TRUE(found) << found.error().message;
    const json& want = expected_.at("Ok");
    EXPECT_EQ(found->keys.access_key_id, want.at("access_key_id").get<std::string>());
    EXPECT_EQ(found->keys.secret_access_key, want.at("secret_access_key").get<std::string>());
    EXPECT_EQ(found->keys.session_token, want.value("session_token", ""));
    EXPECT_EQ(found->account_id, want.value("account_id", ""));
    EXPECT_EQ(found->expires_s.value_or(0), want.value("expiry", 0));
    EXPECT_THAT(found->source, Not(HasSubstr(found->keys.secret_access_key)));
    EXPECT_TRUE(traffic_.empty()) << traffic_.size() << " expected requests were not made";
  }

  WorldFixture fixture_;

 private:
  json expected_;
  std::deque<Exchange> traffic_;
};

TEST(Credentials, AmazonsPublishedChain) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's credential cases are not on this machine";
  int count = 0;
  for (const char* part : {"default-credential-provider-chain", "profile-provider"}) {
    for (const auto& entry : fs::directory_iterator(data + "/test-data/credential-chain/" + part)) {
      SCOPED_TRACE(entry.path().filename().string());
      PublishedCase one(entry.path());
      // Those cases are about the profile alone.
      if (part == std::string("profile-provider")) {
        one.fixture_.variables["AWS_EC2_METADATA_DISABLED"] = "true";
        one.fixture_.variables.erase("AWS_ACCESS_KEY_ID");
      }
      ++count;
      // Its endpoint is another computer, without TLS: Skyward sends no key there.
      if (entry.path().filename() == "sso_override_global_env_url") {
        const auto found = one.find();
        ASSERT_FALSE(found);
        EXPECT_THAT(found.error().message, HasSubstr("would send the account's key unencrypted"));
        continue;
      }
      one.run();
    }
  }
  EXPECT_EQ(count, 47);
}

TEST(Credentials, AmazonsPublishedRoles) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's role cases are not on this machine";
  const json cases =
      json::parse(slurp(data + "/test-data/credential-chain/assume-role-tests.json"));
  for (const auto& one : cases) {
    SCOPED_TRACE(one.at("docs").get<std::string>());
    const auto& input = one.at("input");
    WorldFixture fixture;
    fixture.variables = {{"HOME", "/home"}, {"AWS_EC2_METADATA_DISABLED", "true"}};
    fixture.files["/var/token.jwt"] = "token";
    Configuration configuration;
    configuration.files.profiles = input.at("profiles").get<std::map<std::string, Section>>();
    if (input.contains("sso_sessions")) {
      configuration.files.sso_sessions =
          input["sso_sessions"].get<std::map<std::string, Section>>();
    }
    configuration.profile = input.at("selected_profile");
    std::vector<std::string> roles;
    fixture.http->answer = [&](const io::HttpRequest& request) -> Result<io::HttpReply> {
      if (request.url.contains("sts")) {
        const std::size_t at = request.body.find("RoleArn=") + 8;
        roles.push_back(request.body.substr(at, request.body.find('&', at) - at));
        const std::string action = request.body.substr(7, request.body.find('&') - 7);
        return io::HttpReply{.status = 200,
                             .headers = {},
                             .body = "<R><" + action +
                                     "Result><Credentials><AccessKeyId>ROLE</AccessKeyId>"
                                     "<SecretAccessKey>S</SecretAccessKey></Credentials></" +
                                     action + "Result></R>"};
      }
      return io::HttpReply{.status = 404, .headers = {}, .body = "none"};
    };
    const auto found = find_credentials(fixture.world, configuration, "us-east-1", kNever);
    const auto& output = one.at("output");
    if (output.contains("Error")) {
      ASSERT_FALSE(found);
      continue;
    }
    // Named sources and single sign-on fail here for want of a service; roles are what counts.
    std::vector<std::string> wanted;
    bool offline = false;
    for (const auto& step : output.at("ProfileChain")) {
      offline = offline || step.contains("NamedSource") || step.contains("Sso");
      for (const char* kind : {"AssumeRole", "WebIdentityToken"}) {
        if (step.contains(kind)) {
          wanted.push_back(io::percent_encode(step[kind].at("role_arn").get<std::string>()));
        }
      }
    }
    if (offline) continue;
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(roles, wanted);
  }
}

// Where 'aws login' keeps its sessions, and an AWS CLI that renews them.
class LoginSessions : public ::testing::Test {
 protected:
  LoginSessions() {
    fs::create_directories(programs_);
    fixture_.variables["PATH"] = programs_;
    fixture_.world.run = [this](const io::SpawnOptions& options,
                                Duration) -> Result<io::CommandResult> {
      commands_.push_back(options.command);
      return io::CommandResult{.status = {.code = renewed_.empty() ? 255 : 0},
                               .out = renewed_,
                               .err = "the session has ended"};
    };
  }
  ~LoginSessions() override { fs::remove_all(programs_); }

  void install_aws() {
    std::ofstream(programs_ + "/aws") << "#!/bin/sh\n";
    fs::permissions(programs_ + "/aws", fs::perms::owner_all);
  }
  void keep(const std::string& session, const std::string& text) {
    fixture_.files["/home/.aws/login/cache/" + to_hex(sha256(as_bytes(session))) + ".json"] = text;
  }
  Result<Credentials> find() {
    const auto configuration = load_configuration(fixture_.world, "");
    if (!configuration) return fail(configuration);
    return find_credentials(fixture_.world, *configuration, "us-east-1", kNever);
  }

  WorldFixture fixture_;
  const std::string programs_ = ::testing::TempDir() + "login-" + io::random_hex(8);
  std::string renewed_;  // what the AWS CLI prints; empty: it fails
  std::vector<std::vector<std::string>> commands_;
};

TEST_F(LoginSessions, AreRenewedByTheAwsCli) {
  fixture_.files["/home/.aws/config"] = "[default]\nlogin_session = me\n";
  const auto expires = [&](std::int64_t left_s) {
    keep("me", json{{"accessToken",
                     {{"accessKeyId", "OLD"},
                      {"secretAccessKey", "s"},
                      {"sessionToken", "t"},
                      {"accountId", "12"},
                      {"expiresAt", utc_moment(fixture_.wall_s + left_s)}}}}
                   .dump());
  };
  expires(900);
  EXPECT_EQ(find().value().keys.access_key_id, "OLD");
  expires(-1);
  EXPECT_THAT(find().error().message, HasSubstr("the program aws, which renews them"));
  install_aws();
  EXPECT_THAT(find().error().message, HasSubstr("the session has ended"));
  EXPECT_THAT(find().error().hint, HasSubstr("aws login"));
  expires(30);
  EXPECT_EQ(find().value().keys.access_key_id, "OLD") << "they are good for a while";
  renewed_ = R"({"Version":1,"AccessKeyId":"NEW","SecretAccessKey":"s","SessionToken":"t",)"
             R"("Expiration":"2023-11-14T22:28:20+00:00"})";
  const auto renewed = find();
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_EQ(renewed->keys.access_key_id, "NEW");
  EXPECT_EQ(renewed->account_id, "12");
  EXPECT_EQ(renewed->expires_s, fixture_.wall_s + 900);
  EXPECT_EQ(renewed->source, "profile \"default\", aws login");
  EXPECT_THAT(commands_.back(), ElementsAre(programs_ + "/aws", "configure", "export-credentials",
                                            "--format", "process", "--profile", "default"));
}

// Their requests are the AWS CLI's.
TEST_F(LoginSessions, AsAmazonsPublishedCasesHaveThem) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's cases of logins are not on this machine";
  install_aws();
  int count = 0;
  for (const auto& one :
       json::parse(slurp(data + "/test-data/credential-chain/login-provider-test-cases.json"))) {
    SCOPED_TRACE(one.at("documentation").get<std::string>());
    fixture_.files.clear();
    fixture_.files["/home/.aws/config"] = one.at("configContents").get<std::string>();
    for (const auto& [name, content] : one.at("cacheContents").items()) {
      fixture_.files["/home/.aws/login/cache/" + name] = content.dump();
    }
    fixture_.variables["AWS_PROFILE"] = "signin";
    const auto& outcome = one.at("outcomes").at(0);
    const bool found = outcome.at("result") == "credentials";
    renewed_.clear();
    if (found && one.contains("mockApiCalls")) {
      renewed_ = json{{"Version", 1},
                      {"AccessKeyId", outcome.at("accessKeyId")},
                      {"SecretAccessKey", outcome.at("secretAccessKey")},
                      {"SessionToken", outcome.at("sessionToken")},
                      {"Expiration", outcome.at("expiresAt")}}
                     .dump();
    }
    const auto credentials = find();
    ASSERT_EQ(credentials.has_value(), found);
    ++count;
    if (!found) continue;
    EXPECT_EQ(credentials->keys.access_key_id, outcome.at("accessKeyId").get<std::string>());
    EXPECT_EQ(credentials->account_id, outcome.at("accountId").get<std::string>());
    EXPECT_EQ(credentials->expires_s, parse_moment(outcome.at("expiresAt").get<std::string>()));
  }
  EXPECT_EQ(count, 8);
}

TEST(Credentials, AmazonsPublishedContainerAndMetadataAddresses) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's address cases are not on this machine";
  const json addresses = json::parse(slurp(data + "/test-data/credential-chain/ecs-tests.json"));
  for (const auto& one : addresses.at("tests")) {
    SCOPED_TRACE(one.at("docs").get<std::string>());
    WorldFixture fixture;
    fixture.variables = one.at("env").get<std::map<std::string, std::string>>();
    const auto found = container_endpoint(fixture.world);
    if (one.at("result").contains("Ok")) {
      EXPECT_EQ(found.value_or("failed"), one["result"]["Ok"].get<std::string>());
    } else {
      EXPECT_TRUE(!found || found->empty());
    }
  }
  const auto cases =
      json::parse(slurp(data + "/test-data/credential-chain/imds-config/imds-endpoint-tests.json"));
  for (const auto& one : cases.at("tests")) {
    if (one.contains("endpoint_override") || one.contains("mode_override")) continue;
    SCOPED_TRACE(one.at("docs").get<std::string>());
    WorldFixture fixture;
    fixture.variables = one.at("env").get<std::map<std::string, std::string>>();
    fixture.files = one.at("fs").get<std::map<std::string, std::string>>();
    const auto found =
        metadata_endpoint(fixture.world, load_configuration(fixture.world, "").value());
    if (one.at("result").contains("Ok")) {
      ASSERT_TRUE(found) << found.error().message;
      EXPECT_EQ(*found + "/latest/api/token", one["result"]["Ok"].get<std::string>());
    } else {
      EXPECT_FALSE(found);
    }
  }
}

class Chain : public ::testing::Test {
 protected:
  Result<Credentials> find(const std::string& profile = "") {
    const auto configuration = load_configuration(fixture_.world, profile);
    if (!configuration) return fail(configuration);
    return find_credentials(fixture_.world, *configuration, "eu-west-1", kNever);
  }
  // As 'aws sso login' did, whose token has expired and can be renewed.
  void sign_on() {
    fixture_.files["/home/.aws/config"] =
        "[default]\nsso_session = dev\nsso_account_id = 1\nsso_role_name = R\n"
        "[sso-session dev]\nsso_region = eu-west-1\nsso_start_url = https://x\n";
    fixture_.files[session_file_] =
        R"({"accessToken":"old","expiresAt":"2020-01-01T00:00:00Z","refreshToken":"r",)"
        R"("clientId":"c","clientSecret":"s","registrationExpiresAt":"2099-01-01T00:00:00Z"})";
  }
  // A source that answers so, every time.
  Error error_for(const Result<io::HttpReply>& reply) {
    fixture_.http->answer = [reply](const io::HttpRequest&) { return reply; };
    const auto found = find();
    EXPECT_FALSE(found);
    return found ? Error{} : found.error();
  }
  static io::HttpReply status(int code) { return {.status = code, .headers = {}, .body = "x"}; }

  WorldFixture fixture_;
  // printf dev | sha1sum
  const std::string session_file_ =
      "/home/.aws/sso/cache/34c6fceca75e456f25e7e99531e2425c6c1de443.json";
};

TEST_F(Chain, TheMetadataServiceIsNeverAskedWhenSwitchedOff) {
  fixture_.variables["AWS_EC2_METADATA_DISABLED"] = "TRUE";
  const auto none = find();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::denied);
  EXPECT_THAT(none.error().hint, HasSubstr("aws configure"));
  EXPECT_TRUE(fixture_.http->requests.empty());
}

// On any other network, whoever answers there is a stranger.
TEST_F(Chain, OnlyAMachineOfAmazonsAsksItsMetadataService) {
  const auto is_asked = [&] {
    fixture_.http->requests.clear();
    EXPECT_FALSE(find());
    return !fixture_.http->requests.empty();
  };
  EXPECT_FALSE(is_asked());
  fixture_.files["/sys/class/dmi/id/sys_vendor"] = "LENOVO\n";
  EXPECT_FALSE(is_asked());
  fixture_.files["/sys/class/dmi/id/sys_vendor"] = "Amazon EC2\n";
  EXPECT_TRUE(is_asked());
  fixture_.files.clear();
  fixture_.files["/sys/hypervisor/uuid"] = "ec2e1916-9099-7caf-fd21-012345abcdef\n";
  EXPECT_TRUE(is_asked());
  fixture_.files.clear();
  fixture_.variables["AWS_EC2_METADATA_DISABLED"] = "False";
  EXPECT_TRUE(is_asked()) << "the user says that there is one";
  fixture_.variables.erase("AWS_EC2_METADATA_DISABLED");
  fixture_.variables["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = "http://127.0.0.1:1338";
  EXPECT_TRUE(is_asked());
}

TEST(Credentials, ServicesThatMayBeAskedInClear) {
  for (const char* url : {"http://127.0.0.1/keys", "http://127.1.2.3:80/",
                          "http://localhost:51679/x", "http://localhost", "http://[::1]:8080/x",
                          "http://169.254.170.2/v2", "http://169.254.170.23/v1/credentials",
                          "http://[fd00:ec2::23]/v1", "https://keys.example/a?b=c"}) {
    EXPECT_TRUE(is_trusted_service(url)) << url;
  }
  for (const char* url : {"http://localhost:x@evil.example/",
                          "http://127.evil.example/",
                          "http://127.0.0.1@evil/",
                          "http://127.0.0.1.evil.example/",
                          "http://localhost.evil.example/",
                          "http://[::1].evil/",
                          "http://[::1",
                          "http://169.254.170.2.evil/",
                          "http://169.254.170.234/",
                          "http://127.1/",
                          "http://0177.0.0.1/",
                          "http://127.0.0.256/",
                          "http://127.0.0.1:80:90/",
                          "http://:80/",
                          "http://127.0.0.1:/",
                          "http://evil.example/127.0.0.1",
                          "http://evil#@127.0.0.1/",
                          "http://127.0.0.1\\@evil/",
                          "http://localhost%2eevil/",
                          "https://me:x@keys.example/",
                          "https:///x",
                          "HTTP://127.0.0.1/",
                          "ftp://127.0.0.1/",
                          "127.0.0.1",
                          ""}) {
    EXPECT_FALSE(is_trusted_service(url)) << url;
  }
}

TEST_F(Chain, TheMetadataServiceIsAskedDirectlyAndWithAShortLimit) {
  fixture_.files["/sys/class/dmi/id/sys_vendor"] = "Amazon EC2\n";
  EXPECT_FALSE(find());
  ASSERT_FALSE(fixture_.http->requests.empty());
  for (const io::HttpRequest& request : fixture_.http->requests) {
    EXPECT_EQ(request.url, "http://169.254.169.254/latest/api/token");
    EXPECT_TRUE(request.direct);
    EXPECT_LE(request.connect_timeout, std::chrono::seconds(1));
  }
}

TEST_F(Chain, AProfileNamedInCodeOutranksTheEnvironment) {
  fixture_.variables["AWS_ACCESS_KEY_ID"] = "ENV";
  fixture_.variables["AWS_SECRET_ACCESS_KEY"] = "s";
  fixture_.files["/home/.aws/credentials"] =
      "[work]\naws_access_key_id = WORK\naws_secret_access_key = s\n";
  EXPECT_EQ(find()->keys.access_key_id, "ENV");
  const auto named = find("work");
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(named->keys.access_key_id, "WORK");
  EXPECT_EQ(named->source, "profile \"work\"");
}

TEST_F(Chain, ARoleIsAskedForWithTheCertificatesOfTheUser) {
  fixture_.files["/home/.aws/config"] =
      "[default]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = base\nca_bundle = /ca.pem\n";
  fixture_.files["/home/.aws/credentials"] =
      "[base]\naws_access_key_id = A\naws_secret_access_key = s\n";
  EXPECT_FALSE(find());
  ASSERT_FALSE(fixture_.http->requests.empty());
  EXPECT_THAT(fixture_.http->requests.back().url, HasSubstr("sts"));
  EXPECT_EQ(fixture_.http->requests.back().ca_file, "/ca.pem");
}

TEST_F(Chain, ASessionThatIsOverIsRenewedAndKept) {
  fixture_.variables["AWS_CA_BUNDLE"] = "/ca.pem";
  sign_on();
  fixture_.http->answer = [](const io::HttpRequest& request) -> Result<io::HttpReply> {
    if (request.url == "https://oidc.eu-west-1.amazonaws.com/token") {
      EXPECT_EQ(json::parse(request.body).at("refreshToken"), "r");
      return io::HttpReply{
          .status = 200, .headers = {}, .body = R"({"accessToken":"new","expiresIn":600})"};
    }
    EXPECT_THAT(request.headers, ::testing::Contains(std::pair<std::string, std::string>(
                                     "x-amz-sso_bearer_token", "new")));
    return io::HttpReply{.status = 200,
                         .headers = {},
                         .body = R"({"roleCredentials":{"accessKeyId":"A","secretAccessKey":"S",)"
                                 R"("sessionToken":"T","expiration":1700000000000}})"};
  };
  const auto found = find();
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->keys.access_key_id, "A");
  const json kept = json::parse(fixture_.files[session_file_]);
  EXPECT_EQ(kept.at("accessToken"), "new");
  EXPECT_EQ(kept.at("expiresAt"), "2023-11-14T22:23:20Z");
  EXPECT_EQ(kept.at("refreshToken"), "r");
  EXPECT_EQ(fixture_.http->requests.size(), 2U);
  for (const io::HttpRequest& request : fixture_.http->requests) {
    EXPECT_EQ(request.ca_file, "/ca.pem") << request.url;
  }
}

// Keys of a role last until 22:43:20 here, and the clock says 22:13:20.
TEST_F(Chain, SourcesWithoutNewKeysSayWhenTheyEnd) {
  sign_on();
  fixture_.http->answer = [](const io::HttpRequest&) {
    return io::HttpReply{.status = 200,
                         .headers = {},
                         .body = R"({"roleCredentials":{"accessKeyId":"A","secretAccessKey":"S",)"
                                 R"("sessionToken":"T","expiration":1700001800000}})"};
  };
  const auto ends_with = [&](const char* session) {
    fixture_.files[session_file_] = session;
    const auto found = find();
    EXPECT_TRUE(found) << found.error().message;
    return found ? found->ends_s : std::nullopt;
  };
  EXPECT_EQ(ends_with(R"({"accessToken":"t","expiresAt":"2023-11-14T23:13:20Z"})"), 1'700'003'600);
  EXPECT_EQ(ends_with(R"({"accessToken":"t","expiresAt":"2023-11-14T22:23:20Z"})"), 1'700'001'800)
      << "the last keys outlive the session";
  EXPECT_EQ(ends_with(R"({"accessToken":"t","expiresAt":"2023-11-14T23:13:20Z",)"
                      R"("refreshToken":"r"})"),
            std::nullopt);
}

TEST_F(Chain, ARoleEndsWithTheKeysOfTheEnvironment) {
  fixture_.files["/home/.aws/config"] =
      "[profile work]\nrole_arn = arn:aws:iam::1:role/r\ncredential_source = Environment\n";
  fixture_.variables.insert({{"AWS_ACCESS_KEY_ID", "A"},
                             {"AWS_SECRET_ACCESS_KEY", "s"},
                             {"AWS_CREDENTIAL_EXPIRATION", "2023-11-14T23:13:20Z"}});
  fixture_.http->answer = [](const io::HttpRequest&) {
    return io::HttpReply{
        .status = 200,
        .headers = {},
        .body =
            "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>B</AccessKeyId>"
            "<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
            "<Expiration>2023-11-14T22:43:20Z</Expiration></Credentials></AssumeRoleResult>"
            "</AssumeRoleResponse>"};
  };
  const auto found = find("work");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->expires_s, 1'700'001'800);
  EXPECT_EQ(found->ends_s, 1'700'003'600);
}

// The network is down, or the service is busy: what waits for keys goes on waiting.
TEST_F(Chain, ASessionThatCannotBeAskedForIsNotOver) {
  const auto no_network = fail(ErrorKind::unavailable, "Could not resolve host");
  const auto too_slow = fail(ErrorKind::timeout, "no answer in time");
  sign_on();
  for (const bool renewed : {false, true}) {
    if (renewed) {
      fixture_.files[session_file_] =
          R"({"accessToken":"good","expiresAt":"2099-01-01T00:00:00Z"})";
    }
    for (const Result<io::HttpReply>& reply :
         {Result<io::HttpReply>(no_network), Result<io::HttpReply>(too_slow),
          Result<io::HttpReply>(status(503)), Result<io::HttpReply>(status(429))}) {
      const Error error = error_for(reply);
      EXPECT_EQ(error.kind, !reply && reply.error().kind == ErrorKind::timeout
                                ? ErrorKind::timeout
                                : ErrorKind::unavailable)
          << error.message;
      EXPECT_THAT(error.message, HasSubstr("single sign-on"));
      EXPECT_THAT(error.message, HasSubstr(renewed ? "GetRoleCredentials" : "CreateToken"));
      EXPECT_THAT(error.hint, Not(HasSubstr("aws sso login")));
    }
    const Error refused = error_for(status(401));
    EXPECT_EQ(refused.kind, ErrorKind::denied);
    EXPECT_THAT(refused.hint, HasSubstr("aws sso login"));
  }
}

TEST_F(Chain, AServiceOfTheMachineThatIsBusyHasNotRefused) {
  const auto kind_for = [&](const Result<io::HttpReply>& reply) { return error_for(reply).kind; };
  fixture_.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://localhost/keys";
  EXPECT_EQ(kind_for(status(429)), ErrorKind::unavailable);
  EXPECT_EQ(kind_for(status(503)), ErrorKind::unavailable);
  EXPECT_EQ(kind_for(status(403)), ErrorKind::denied);
  fixture_.variables.erase("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  fixture_.files["/sys/class/dmi/id/sys_vendor"] = "Amazon EC2\n";
  EXPECT_EQ(kind_for(status(429)), ErrorKind::unavailable);
  EXPECT_EQ(kind_for(status(503)), ErrorKind::unavailable);
  const Error silent = error_for(fail(ErrorKind::timeout, "no answer in time"));
  EXPECT_EQ(silent.kind, ErrorKind::timeout);
  EXPECT_THAT(silent.message, HasSubstr("metadata service"));
  EXPECT_THAT(silent.hint, HasSubstr("hop limit"));
  EXPECT_EQ(kind_for(status(404)), ErrorKind::denied) << "there is none, nor other credentials";
}

}  // namespace
}  // namespace skyward::provider::aws
