#pragma once

// Amazon's request signature, version 4, in the Authorization header. Pure: the time is an
// argument. Held to the signing suite that Amazon publishes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/io/http.h"

namespace skyward::provider::aws {

// What proves who asks. `session_token` is empty for permanent keys.
struct Keys {
  std::string access_key_id{};
  std::string secret_access_key{};
  std::string session_token{};

  bool operator==(const Keys&) const = default;
};

// The part of a request that is signed.
struct Signable {
  std::string method = "GET";
  std::string path = "/";  // as it is sent
  std::string query{};     // as it is sent, without the '?'
  io::HttpHeaders headers{};
  std::string body{};
};

struct SigningScope {
  std::string region{};
  std::string service{};
  std::int64_t time_s = 0;  // seconds since 1970
};

struct SigningOptions {
  bool normalize_path = true;  // S3 alone takes paths as they are
  bool sign_body = false;      // adds x-amz-content-sha256, as S3 demands
  bool sign_session_token = true;
};

// What was signed, and with what result: the steps that Amazon documents.
struct Signature {
  std::string canonical_request{};
  std::string string_to_sign{};
  std::string signature{};
  io::HttpHeaders headers{};  // of the request, X-Amz-Date and Authorization among them
};

Signature sign(const Signable& request, const Keys& keys, const SigningScope& scope,
               const SigningOptions& options = {});

}  // namespace skyward::provider::aws
