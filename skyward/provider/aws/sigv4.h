#pragma once

// Amazon's request signature, version 4, in the Authorization header. Pure: the time is an
// argument. Tested with the signing suite that Amazon publishes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/io/http.h"

namespace skyward::provider::aws {

// An access key. `session_token` is empty for permanent ones.
struct Keys {
  std::string access_key_id{};
  std::string secret_access_key{};
  std::string session_token{};

  bool operator==(const Keys&) const = default;
};

// The part of a request that is signed.
struct Signable {
  std::string method = "GET";
  std::string path = "/";  // as sent
  std::string query{};     // as sent, without the '?'
  io::HttpHeaders headers{};
  std::string body{};
};

struct SigningScope {
  std::string region{};
  std::string service{};
  std::int64_t time_s = 0;  // seconds since 1970
};

// The signature, with the intermediate results that Amazon documents.
struct Signature {
  std::string canonical_request{};
  std::string string_to_sign{};
  std::string signature{};
  io::HttpHeaders headers{};  // the request's, with X-Amz-Date and Authorization
};

// Not for S3, which has its own rules for paths and for the hash of the body.
Signature sign(const Signable& request, const Keys& keys, const SigningScope& scope);

}  // namespace skyward::provider::aws
