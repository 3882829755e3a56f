#define OPENSSL_SUPPRESS_DEPRECATED  // EC_GFp_mont_method

#include "skyward/io/tls_choice.h"

#include <openssl/ec.h>

#include <cstdlib>

namespace skyward::io {

bool choose_tls(SSL_CTX* context) {
  return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
         SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
         SSL_CTX_set1_groups_list(context, "X25519") == 1;
}

}  // namespace skyward::io

// In front of OpenSSL's own functions of these names, and for whoever reads the files of a static
// library, in place of them (docs/decisions/0011). Weak: where another version of OpenSSL needs
// such a file for something else, its functions count.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {

// The NIST curves work without their own arithmetic and tables, but slower.
[[gnu::weak]] const EC_METHOD* EC_GFp_nistz256_method() { return EC_GFp_mont_method(); }
[[gnu::weak]] const EC_METHOD* EC_GFp_nistp224_method() { return EC_GFp_mont_method(); }
[[gnu::weak]] const EC_METHOD* EC_GFp_nistp256_method() { return EC_GFp_mont_method(); }
[[gnu::weak]] const EC_METHOD* EC_GFp_nistp521_method() { return EC_GFp_mont_method(); }
// Of tables that there are not, therefore.
[[gnu::weak]] void EC_nistz256_pre_comp_dup() { std::abort(); }
[[gnu::weak]] void EC_nistz256_pre_comp_free() { std::abort(); }
[[gnu::weak]] void EC_nistp224_pre_comp_dup() { std::abort(); }
[[gnu::weak]] void EC_nistp224_pre_comp_free() { std::abort(); }
[[gnu::weak]] void EC_nistp256_pre_comp_dup() { std::abort(); }
[[gnu::weak]] void EC_nistp256_pre_comp_free() { std::abort(); }
[[gnu::weak]] void EC_nistp521_pre_comp_dup() { std::abort(); }
[[gnu::weak]] void EC_nistp521_pre_comp_free() { std::abort(); }

// X448 and Ed448.
[[gnu::weak]] void ossl_x448() { std::abort(); }
[[gnu::weak]] void ossl_x448_public_from_private() { std::abort(); }
[[gnu::weak]] void ossl_ed448_sign() { std::abort(); }
[[gnu::weak]] void ossl_ed448_verify() { std::abort(); }
[[gnu::weak]] void ossl_ed448_public_from_private() { std::abort(); }

// The tables by which ciphers and digests were found before OpenSSL 3. TLS asks its providers.
[[gnu::weak]] void openssl_add_all_ciphers_int() {}
[[gnu::weak]] void openssl_add_all_digests_int() {}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
