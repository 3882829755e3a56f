#pragma once

// What our TLS is: one version, one cipher suite, one group for the exchange of keys.
//
// OpenSSL's static library brings much more, tables of curves above all, which no program gets rid
// of by not calling it. Whoever links this file links none of what the choice rules out.

#include <openssl/ssl.h>

namespace skyward::io {

// False, with OpenSSL's errors, if it lacks one of them.
bool choose_tls(SSL_CTX* context);

}  // namespace skyward::io
