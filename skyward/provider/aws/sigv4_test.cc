#include "skyward/provider/aws/sigv4.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "skyward/provider/aws/published_data_fixture.h"

namespace skyward::provider::aws {
namespace {

namespace fs = std::filesystem;

// Seconds since 1970 of "2015-08-30T12:36:00Z".
std::int64_t moment(const std::string& text) {
  int year = 0;
  unsigned month = 0;
  unsigned day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  const int fields =
      std::sscanf(text.c_str(), "%d-%u-%uT%d:%d:%dZ", &year, &month, &day, &hour, &minute, &second);
  EXPECT_EQ(fields, 6);
  using namespace std::chrono;
  const sys_days date{std::chrono::year(year) / std::chrono::month(month) / std::chrono::day(day)};
  return duration_cast<std::chrono::seconds>(date.time_since_epoch()).count() + hour * 3600 +
         minute * 60 + second;
}

// The request of a case: a line, headers (continued by lines that begin with a blank), a body.
Signable parse_request(const std::string& text) {
  Signable request;
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(" HTTP/");
  request.method = line.substr(0, first);
  const std::string target = line.substr(first + 1, last - first - 1);
  const std::size_t question = target.find('?');
  request.path = target.substr(0, question);
  request.query = question == std::string::npos ? "" : target.substr(question + 1);
  while (std::getline(lines, line) && !line.empty()) {
    const std::size_t colon = line.find(':');
    if (line.starts_with(' ') && !request.headers.empty()) {
      request.headers.back().second += "\n" + line;
    } else {
      request.headers.emplace_back(line.substr(0, colon), line.substr(colon + 1));
    }
  }
  std::getline(lines, request.body, '\0');
  return request;
}

TEST(Sigv4, AmazonsPublishedSuite) {
  const std::string data = published_data();
  if (data.empty()) GTEST_SKIP() << "Amazon's signing suite is not on this machine";
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(data + "/test-data/sigv4")) {
    SCOPED_TRACE(entry.path().filename().string());
    const auto about = nlohmann::json::parse(slurp(entry.path() / "context.json"));
    const bool for_s3 = !about.at("normalize") || about.at("sign_body");
    if (for_s3 || about.value("omit_session_token", false)) continue;
    const auto& given = about.at("credentials");
    const Keys keys{.access_key_id = given.at("access_key_id"),
                    .secret_access_key = given.at("secret_access_key"),
                    .session_token = given.value("token", "")};
    const SigningScope scope{.region = about.at("region"),
                             .service = about.at("service"),
                             .time_s = moment(about.at("timestamp"))};
    const Signature made = sign(parse_request(slurp(entry.path() / "request.txt")), keys, scope);
    EXPECT_EQ(made.canonical_request, slurp(entry.path() / "header-canonical-request.txt"));
    EXPECT_EQ(made.string_to_sign, slurp(entry.path() / "header-string-to-sign.txt"));
    EXPECT_EQ(made.signature, slurp(entry.path() / "header-signature.txt"));
    ++cases;
  }
  EXPECT_EQ(cases, 28);
}

// Vectors of our own, computed once with Amazon's Python library (botocore) from the same inputs.
TEST(Sigv4, AFormAsItIsSentToEc2) {
  const Keys keys{"AKIAEXAMPLE", "abc/def+ghi", ""};
  Signable request{.method = "POST",
                   .path = "/",
                   .query = "",
                   .headers = {{"Host", "ec2.eu-west-1.amazonaws.com"},
                               {"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"},
                               {"User-Agent", "skyward"}},
                   .body = "Action=DescribeRegions&Version=2016-11-15"};
  const SigningScope scope{"eu-west-1", "ec2", 1'700'000'000};
  const Signature plain = sign(request, keys, scope);
  EXPECT_EQ(plain.headers.back().second,
            "AWS4-HMAC-SHA256 Credential=AKIAEXAMPLE/20231114/eu-west-1/ec2/aws4_request, "
            "SignedHeaders=content-type;host;x-amz-date, Signature="
            "faa919f6089329dfa68988443db382c983dc07ef40cb42165fb517d2018b33cf");

  Keys temporary = keys;
  temporary.session_token = "a token/with+signs==";
  const Signature with_token = sign(request, temporary, scope);
  EXPECT_EQ(with_token.signature,
            "60bde5c84d3da93bc214f95468cb12d5600d613c64714a0905b27a583edf6c91");
}

TEST(Sigv4, NeverSignsAPreviousSignature) {
  Signable request{.method = "GET", .headers = {{"Host", "h"}}};
  const Keys keys{"id", "secret", ""};
  const Signature once = sign(request, keys, {"r", "s", 0});
  request.headers = once.headers;
  const Signature twice = sign(request, keys, {"r", "s", 0});
  EXPECT_EQ(once.signature, twice.signature);
  EXPECT_EQ(once.headers.size(), twice.headers.size());
}

}  // namespace
}  // namespace skyward::provider::aws
