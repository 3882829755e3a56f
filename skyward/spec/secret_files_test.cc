#include "skyward/spec/secret_files.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

TEST(SecretFiles, AreKnownByTheirNames) {
  for (const char* path : {".env", "a/.env.local", "prod.env", "a.b/id_ed25519", "server.pem",
                           "tls.key", ".netrc", "sub/credentials.json"}) {
    EXPECT_TRUE(may_be_secret(path)) << path;
  }
  for (const char* path : {"a.py", "id_rsa.pub", "environment", "keys.py", "a.env/b.txt"}) {
    EXPECT_FALSE(may_be_secret(path)) << path;
  }
}

}  // namespace
}  // namespace skyward
