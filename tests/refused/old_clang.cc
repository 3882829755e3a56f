// Must not compile, and say why: clang 17 and 18, which have these concepts, get no std::expected
// from libstdc++.
#undef __cpp_concepts
#define __cpp_concepts 201907L
#include "skyward/skyward.h"
