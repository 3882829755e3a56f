#include "skyward/provider/rest/rest_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <optional>
#include <string>

#include "skyward/provider/rest/oauth2.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

std::optional<ApiError> read_error(const io::HttpReply& reply, const nlohmann::json& json) {
  const bool fault = json_at(json, "errors/0").is_null() && !json_at(json, "errors").is_null();
  if (reply.status < 300 && !fault) return std::nullopt;
  ApiError error;
  error.status = reply.status;
  error.code = json_text(json, "id");
  error.message = json_text(json, "message");
  if (!error.code.empty()) error.heard = Heard::answered;
  error.refusal = Refusal::invalid;
  if (reply.status == 429) error.refusal = Refusal::rate_limited;
  if (reply.status >= 500) error.refusal = Refusal::transient;
  if (reply.status == 401) error.refusal = Refusal::auth;
  if (reply.status == 404) error.refusal = Refusal::not_found;
  if (reply.status < 300) {
    error.refusal = Refusal::capacity;
    error.heard = Heard::answered;
  }
  return error;
}

class RestTest : public ::testing::Test {
 protected:
  RestTest() {
    fixture_.http->answer = [this](const io::HttpRequest&) -> Result<io::HttpReply> {
      if (answers_.empty()) return io::HttpReply{.status = 200, .headers = {}, .body = "{}"};
      auto next = answers_.front();
      answers_.pop_front();
      return next;
    };
  }

  void answer(int status, std::string body, io::HttpHeaders headers = {}) {
    answers_.emplace_back(
        io::HttpReply{.status = status, .headers = std::move(headers), .body = std::move(body)});
  }
  void silence(ErrorKind kind) { answers_.emplace_back(fail(kind, "nobody answered")); }
  const std::vector<io::HttpRequest>& sent() const { return fixture_.http->requests; }

  RestAccount account() {
    return {.base_url = "https://api.example.com",
            .authorization = [this](bool renew, Time) -> Result<std::string> {
              if (renew) ++renewals_;
              if (no_token_ && (renew || !had_token_)) return std::unexpected(*no_token_);
              had_token_ = true;
              return renewals_ == 0 ? "Bearer old" : "Bearer new";
            },
            .read_error = read_error};
  }

  WorldFixture fixture_;
  std::deque<Result<io::HttpReply>> answers_;
  int renewals_ = 0;
  std::optional<Error> no_token_;
  bool had_token_ = false;
  RestClient client_{fixture_.world, account()};
};

TEST_F(RestTest, SendsJsonWithTheAccountsKey) {
  answer(202, R"({"droplet":{"id":7}})");
  const auto made = client_.send({.method = "POST",
                                  .path = "/v2/droplets",
                                  .query = {{"a b", "c&d"}},
                                  .body = nlohmann::json{{"name", "x"}}},
                                 kNever);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->status, 202);
  EXPECT_EQ(json_whole(made->json, "droplet/id"), 7);
  ASSERT_THAT(sent(), SizeIs(1));
  EXPECT_EQ(sent()[0].url, "https://api.example.com/v2/droplets?a%20b=c%26d");
  EXPECT_EQ(sent()[0].body, R"({"name":"x"})");
  EXPECT_THAT(sent()[0].headers, Contains(Pair("Authorization", "Bearer old")));
}

TEST_F(RestTest, TextThatIsNoJsonArrivesAsText) {
  answer(200, "0f2c-id");
  const auto told = client_.send({.path = "/x"}, kNever);
  ASSERT_TRUE(told);
  EXPECT_TRUE(told->json.is_null());
  EXPECT_EQ(told->text, "0f2c-id");
}

TEST_F(RestTest, ATokenThatIsRefusedIsRenewedOnce) {
  answer(401, R"({"id":"unauthorized"})");
  answer(200, "{}");
  EXPECT_TRUE(client_.send({.path = "/x"}, kNever));
  EXPECT_THAT(sent()[1].headers, Contains(Pair("Authorization", "Bearer new")));
  answer(401, R"({"id":"unauthorized"})");
  answer(401, R"({"id":"unauthorized"})");
  const auto refused = client_.send({.path = "/x"}, kNever);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::denied);
  EXPECT_EQ(renewals_, 2);
  EXPECT_THAT(sent(), SizeIs(3)) << "the renewed token is the same: it would be refused again";
}

TEST_F(RestTest, AFaultIsTriedAgainWhereThatDoesNoHarm) {
  answer(500, "oops");
  silence(ErrorKind::unavailable);
  answer(200, "{}");
  EXPECT_TRUE(client_.send({.path = "/x"}, kNever));
  EXPECT_THAT(sent(), SizeIs(3));
}

TEST_F(RestTest, ACreationIsNeverRepeatedBlindly) {
  const RestRequest create{.method = "POST", .path = "/x"};
  for (const int status : {500, 502, 504}) {
    answer(status, "oops");
    const auto made = client_.send(create, kNever);
    ASSERT_FALSE(made);
    EXPECT_TRUE(made.error().maybe_done);
    EXPECT_FALSE(is_certain(made.error()));
  }
  for (const ErrorKind kind : {ErrorKind::unavailable, ErrorKind::timeout}) {
    silence(kind);
    const auto made = client_.send(create, kNever);
    ASSERT_FALSE(made);
    EXPECT_TRUE(made.error().maybe_done);
  }
  EXPECT_THAT(sent(), SizeIs(5));
}

TEST_F(RestTest, ACreationUsesNoConnectionThatWasKept) {
  ASSERT_TRUE(client_.send({.path = "/x"}, kNever));
  EXPECT_FALSE(sent().back().fresh_connection);
  ASSERT_TRUE(client_.send({.method = "POST", .path = "/x"}, kNever));
  EXPECT_TRUE(sent().back().fresh_connection) << "libcurl would repeat it by itself";
}

TEST_F(RestTest, ACreationThatCameTooFastIsSentAgain) {
  answer(429, R"({"id":"too_many_requests"})", {{"Retry-After", "7"}});
  answer(202, "{}");
  const Time before = fixture_.now;
  EXPECT_TRUE(client_.send({.method = "POST", .path = "/x"}, kNever));
  EXPECT_GE(fixture_.now - before, 7s);
  EXPECT_THAT(sent(), SizeIs(2));
}

TEST_F(RestTest, WhoeverSaysThatARequestCameTooFastItDidNothing) {
  answer(429, "error code: 1015");
  answer(202, "{}");
  EXPECT_TRUE(client_.send({.method = "POST", .path = "/x"}, kNever));
  EXPECT_THAT(sent(), SizeIs(2));
  for (int i = 0; i < 40; ++i) answer(429, "<html>Too Many Requests</html>");
  const auto refused = client_.send({.method = "POST", .path = "/x"}, fixture_.now + 30s);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(is_certain(refused.error()));
}

TEST_F(RestTest, ARefusalIsCertainAndAProxysIsNot) {
  answer(422, R"({"id":"unprocessable_entity","message":"no such size"})");
  const auto refused = client_.send({.path = "/x"}, kNever);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(is_certain(refused.error()));
  EXPECT_EQ(to_error(refused.error(), "Droplets").message,
            "Droplets: no such size (unprocessable_entity)");
  answer(403, "<html>your company's proxy</html>");
  EXPECT_FALSE(is_certain(client_.send({.path = "/x"}, kNever).error()));
}

TEST_F(RestTest, OnlyTheCloudSaysThatSomethingIsGone) {
  answer(404, "<html>no such site</html>");
  answer(404, R"({"id":"not_found","message":"no such droplet"})");
  const auto gone = client_.send({.method = "DELETE", .path = "/x"}, kNever);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().refusal, Refusal::not_found);
  EXPECT_THAT(sent(), SizeIs(2));
  for (int i = 0; i < 20; ++i) answer(404, "<html>no such site</html>");
  const auto unknown = client_.send({.method = "DELETE", .path = "/x"}, kNever);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind(), ErrorKind::unavailable);
}

TEST_F(RestTest, RequestsUnderALimitKeepApart) {
  const RestRequest slow{.path = "/slow", .limits = {{.name = "slow", .gap = 1500ms}}};
  const Time before = fixture_.now;
  ASSERT_TRUE(client_.send(slow, kNever));
  EXPECT_EQ(fixture_.now, before);
  ASSERT_TRUE(client_.send(slow, kNever));
  ASSERT_TRUE(client_.send(slow, kNever));
  EXPECT_EQ(fixture_.now - before, 3s);
  ASSERT_TRUE(client_.send({.path = "/other"}, kNever));
  EXPECT_EQ(fixture_.now - before, 3s) << "others do not wait for it";
  const auto late = client_.send(slow, fixture_.now + 1s);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind(), ErrorKind::timeout);
  EXPECT_THAT(sent(), SizeIs(4)) << "what cannot be sent in time is not sent";
  EXPECT_TRUE(is_certain(late.error()));
}

TEST_F(RestTest, NobodyAsksBeforeTheTimeThatTheCloudNamed) {
  answer(429, R"({"id":"too_many_requests"})", {{"Retry-After", "60"}});
  const Time before = fixture_.now;
  EXPECT_FALSE(client_.send({.path = "/x"}, fixture_.now + 30s)) << "not in its time";
  EXPECT_TRUE(client_.send({.path = "/x"}, kNever));
  EXPECT_GE(fixture_.now - before, 60s);
  EXPECT_THAT(sent(), SizeIs(2));
}

TEST_F(RestTest, APauseIsASpanOrADate) {
  const auto pause = [&](io::HttpHeaders headers) {
    return asked_pause(fixture_.world, {.status = 429, .headers = std::move(headers), .body = ""});
  };
  EXPECT_EQ(pause({}), 0s);
  EXPECT_EQ(pause({{"retry-after", "12"}}), 12s);
  EXPECT_EQ(pause({{"retry-after", "1.5"}}), 2s) << "never too early";
  EXPECT_EQ(pause({{"retry-after", "-3"}}), 0s);
  EXPECT_EQ(pause({{"retry-after", "soon"}}), 0s);
  EXPECT_EQ(pause({{"retry-after", "9999999999"}}), 60s);
  // The fixture's clock says 22:13:20; the cloud's is an hour ahead.
  EXPECT_EQ(pause({{"retry-after", "Tue, 14 Nov 2023 22:14:20 GMT"}}), 60s);
  EXPECT_EQ(pause({{"date", "Tue, 14 Nov 2023 23:13:20 GMT"},
                   {"retry-after", "Tue, 14 Nov 2023 23:13:50 GMT"}}),
            30s);
}

TEST_F(RestTest, ListsAreReadToTheirEnd) {
  answer(200, R"({"items":[1,2],"next":"p2"})");
  answer(200, R"({"items":[3]})");
  const auto take =
      [](const nlohmann::json& page,
         std::vector<nlohmann::json>& items) -> ApiResult<std::optional<RestRequest>> {
    if (!json_at(page, "items").is_array()) return std::unexpected(broken_page("no list"));
    for (const nlohmann::json* item : json_items(page, "items")) items.push_back(*item);
    const std::string next = json_text(page, "next");
    if (next.empty()) return std::nullopt;
    return RestRequest{.path = "/list", .query = {{"page", next}}};
  };
  const auto all = client_.list({.path = "/list"}, take, kNever);
  ASSERT_TRUE(all);
  EXPECT_THAT(*all, ElementsAre(1, 2, 3));
  EXPECT_THAT(sent()[1].url, HasSubstr("page=p2"));

  fixture_.http->answer = [](const io::HttpRequest&) -> Result<io::HttpReply> {
    return io::HttpReply{.status = 200, .headers = {}, .body = R"({"items":[],"next":"again"})"};
  };
  const auto endless = client_.list({.path = "/list"}, take, kNever);
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().kind(), ErrorKind::unavailable);
}

TEST_F(RestTest, WhatIsNoListIsNotAnEmptyOne) {
  const auto take = [](const nlohmann::json& page,
                       std::vector<nlohmann::json>&) -> ApiResult<std::optional<RestRequest>> {
    if (!json_at(page, "items").is_array()) return std::unexpected(broken_page("no list"));
    return std::nullopt;
  };
  for (const char* page : {"<html>sign in to this network</html>", "", "{}", R"({"items":null})"}) {
    answer(200, page);
    const auto told = client_.list({.path = "/list"}, take, kNever);
    ASSERT_FALSE(told) << page;
    EXPECT_EQ(told.error().kind(), ErrorKind::unavailable);
  }
}

TEST_F(RestTest, ARefusalMayComeWithAStatusOf200) {
  answer(200, R"({"errors":[{"message":"none available"}]})");
  const auto refused = client_.send({.method = "POST", .path = "/graphql"}, kNever);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().refusal, Refusal::capacity);
  EXPECT_TRUE(is_certain(refused.error()));
}

TEST_F(RestTest, WithoutATokenNothingIsSent) {
  no_token_ = Error{ErrorKind::denied, "the secret is wrong", "check it"};
  const auto refused = client_.send({.method = "POST", .path = "/x"}, kNever);
  ASSERT_FALSE(refused);
  EXPECT_THAT(sent(), IsEmpty());
  EXPECT_TRUE(is_certain(refused.error()));
  EXPECT_EQ(refused.error().refusal, Refusal::auth);
  EXPECT_EQ(to_error(refused.error(), "Create").hint, "check it");
}

TEST_F(RestTest, ATokenThatCannotBeRenewedIsTheTroubleNotTheOldOne) {
  ASSERT_TRUE(client_.send({.path = "/x"}, kNever));
  no_token_ = Error{ErrorKind::unavailable, "the token service does not answer", ""};
  answer(401, R"({"id":"unauthorized"})");
  const auto refused = client_.send({.path = "/x"}, kNever);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind(), ErrorKind::unavailable);
  EXPECT_EQ(refused.error().message, "the token service does not answer");
}

TEST_F(RestTest, APauseHoldsForTheWholeAccount) {
  answer(429, R"({"id":"too_many_requests"})", {{"Retry-After", "5"}});
  EXPECT_FALSE(client_.send({.path = "/droplets/1"}, fixture_.now + 1s));
  const Time before = fixture_.now;
  EXPECT_TRUE(client_.send({.path = "/droplets/2"}, kNever));
  EXPECT_GE(fixture_.now - before, 5s);
}

TEST_F(RestTest, WhereOnlyKindsOfRequestsHaveLimitsAPauseIsForItsKind) {
  const RestRequest search{.path = "/search", .limits = {{.name = "search", .gap = 1500ms}}};
  const RestRequest destroy{
      .method = "DELETE", .path = "/1", .limits = {{.name = "destroy", .gap = 3s}}};
  answer(429, R"({"id":"quota_exceeded"})", {{"Retry-After", "3600"}});
  const Time before = fixture_.now;
  EXPECT_FALSE(client_.send(search, before + 1s));
  EXPECT_TRUE(client_.send(destroy, kNever));
  EXPECT_EQ(fixture_.now, before);
  EXPECT_TRUE(client_.send(search, kNever));
  EXPECT_GE(fixture_.now - before, 60s);
}

// Else machines could not be terminated meanwhile.
TEST_F(RestTest, NoPauseLastsLong) {
  for (const auto& [status, page] :
       {std::pair(503, "<html>closed</html>"), std::pair(429, R"({"id":"too_many_requests"})")}) {
    answer(status, page, {{"Retry-After", "3600"}});
    const Time before = fixture_.now;
    EXPECT_FALSE(client_.send({.path = "/droplets/1"}, fixture_.now + 1s));
    EXPECT_TRUE(client_.send({.method = "DELETE", .path = "/droplets/1"}, fixture_.now + 300s));
    EXPECT_GE(fixture_.now - before, 30s);
  }
}

TEST_F(RestTest, WhereNoPauseIsNamedItIsASecondAtLeast) {
  answer(429, R"({"id":"too_many_requests"})");
  const Time before = fixture_.now;
  EXPECT_TRUE(client_.send({.path = "/x"}, kNever));
  EXPECT_GE(fixture_.now - before, 1s);
}

TEST_F(RestTest, AKeyForThisComputerPassesNoProxy) {
  RestAccount here = account();
  here.base_url = "http://127.0.0.1:8080";
  RestClient client(fixture_.world, here);
  ASSERT_TRUE(client.send({.path = "/x"}, kNever));
  EXPECT_TRUE(sent().back().direct);
  ASSERT_TRUE(client_.send({.path = "/x"}, kNever));
  EXPECT_FALSE(sent().back().direct);
}

TEST_F(RestTest, ACertificateThatIsNotTrustedMeansThatNothingWasSent) {
  answers_.emplace_back(fail(ErrorKind::denied, "x cannot be trusted", "install the certificates"));
  const auto refused = client_.send({.method = "POST", .path = "/x"}, kNever);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(is_certain(refused.error()));
  const Error told = to_error(refused.error(), "launching");
  EXPECT_EQ(told.kind, ErrorKind::unavailable) << "it may pass, as one of a hotel's network does";
  EXPECT_EQ(told.message, "launching: x cannot be trusted");
  EXPECT_EQ(told.hint, "install the certificates");
  silence(ErrorKind::exhausted);
  const auto too_large = client_.send({.method = "POST", .path = "/x"}, kNever);
  ASSERT_FALSE(too_large);
  EXPECT_FALSE(is_certain(too_large.error()));
  EXPECT_EQ(too_large.error().kind(), ErrorKind::unavailable) << "not: the cloud has none left";
}

TEST(BaseUrl, CarriesKeysEncryptedOrNowhere) {
  for (const char* good : {"https://api.example.com", "https://api.example.com/v2",
                           "http://127.0.0.1:8080", "http://localhost:1", "http://[::1]:80"}) {
    EXPECT_TRUE(check_base_url(good, "$X")) << good;
  }
  for (const char* bad :
       {"", "api.example.com", "https://", "https://api.example.com/", "http://api.example.com",
        "http://127.0.0.1@evil.example", "http://localhost:x@evil.example",
        "http://127.evil.example", "http://localhost.evil.example", "https://a b", "ftp://x"}) {
    EXPECT_FALSE(check_base_url(bad, "$X")) << bad;
  }
  EXPECT_EQ(check_base_url("http://api.example.com", "$X").error().message,
            "$X: \"http://api.example.com\" would send the account's key unencrypted");
}

TEST(BaseUrl, IsTheVariablesWithoutItsLastSlash) {
  WorldFixture fixture;
  const auto url = [&] { return base_url_of(fixture.world, "X_URL", "https://x.example/v1"); };
  EXPECT_EQ(*url(), "https://x.example/v1");
  fixture.variables["X_URL"] = "https://y.example/v1/";
  EXPECT_EQ(*url(), "https://y.example/v1");
  fixture.variables["X_URL"] = "http://y.example/v1/";
  EXPECT_FALSE(url());
}

class TokenTest : public ::testing::Test {
 protected:
  TokenTest() {
    fixture_.http->answer = [this](const io::HttpRequest&) -> Result<io::HttpReply> {
      return io::HttpReply{.status = status_, .headers = {}, .body = body_};
    };
  }
  std::size_t asked() const { return fixture_.http->requests.size(); }

  WorldFixture fixture_;
  int status_ = 200;
  std::string body_ = R"({"access_token":"t1","expires_in":3600})";
  TokenSource tokens_{fixture_.world, {.token_url = "https://x/token", .id = "i", .secret = "s"}};
};

TEST_F(TokenTest, IsKeptUntilShortlyBeforeItExpires) {
  EXPECT_EQ(tokens_.authorization(false, kNever), "Bearer t1");
  fixture_.now += 3500s;
  EXPECT_EQ(tokens_.authorization(false, kNever), "Bearer t1");
  EXPECT_EQ(asked(), 1U);
  body_ = R"({"access_token":"t2","expires_in":3600})";
  fixture_.now += 75s;
  EXPECT_EQ(tokens_.authorization(false, kNever), "Bearer t2");
  EXPECT_EQ(asked(), 2U);
  (void)tokens_.authorization(true, kNever);
  EXPECT_EQ(asked(), 3U) << "a token that was refused is not used again";
}

TEST_F(TokenTest, AWrongSecretIsDeniedAndNotShown) {
  status_ = 401;
  body_ = R"({"code":"unauthorized_request","message":"Invalid client"})";
  const auto refused = tokens_.authorization(false, kNever);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::denied);
  EXPECT_EQ(refused.error().message,
            "the request for a token: Invalid client (unauthorized_request)");
  EXPECT_EQ(asked(), 1U);
}

TEST_F(TokenTest, AShortLifeIsUsedToItsHalf) {
  body_ = R"({"access_token":"t","expires_in":20})";
  EXPECT_TRUE(tokens_.authorization(false, kNever));
  fixture_.now += 5s;
  EXPECT_TRUE(tokens_.authorization(false, kNever));
  EXPECT_EQ(asked(), 1U);
  body_ = R"({"access_token":"t"})";
  fixture_.now += 6s;
  EXPECT_TRUE(tokens_.authorization(false, kNever));
  EXPECT_TRUE(tokens_.authorization(false, kNever));
  EXPECT_EQ(asked(), 2U) << "one that does not say how long it holds is kept for a while";
}

TEST_F(TokenTest, AProxysRefusalSaysNothingOfTheSecret) {
  status_ = 403;
  body_ = "<html>blocked</html>";
  const auto refused = tokens_.authorization(false, kNever);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
}

TEST_F(TokenTest, AReplyWithoutATokenIsAFault) {
  for (const char* body : {"", "[]", "{}", R"({"access_token":7})", R"({"access_token":""})"}) {
    body_ = body;
    const auto told = tokens_.authorization(false, kNever);
    ASSERT_FALSE(told) << body;
    EXPECT_EQ(told.error().kind, ErrorKind::unavailable);
  }
}

}  // namespace
}  // namespace skyward::provider
