#include "skyward/io/shared_library.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace skyward::io {
namespace {

TEST(SharedLibrary, TakesTheFirstThatTheSystemHas) {
  const SharedLibrary found = load_library({"libnowhere.so.9", "libm.so.6"});
  ASSERT_NE(found.handle, nullptr);
  EXPECT_FALSE(found.shipped);
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(find_symbol(found.handle, "cos", cosine));
  EXPECT_EQ(cosine(0), 1);
  EXPECT_FALSE(find_symbol(found.handle, "no_such_function", cosine));
  EXPECT_EQ(load_library({"libnowhere.so.9"}).handle, nullptr);
}

TEST(SharedLibrary, TakesOneThatCameWithTheProgramBeforeTheSystems) {
  namespace fs = std::filesystem;
  Dl_info math{};
  ASSERT_NE(::dladdr(::dlsym(load_library({"libm.so.6"}).handle, "cos"), &math), 0);
  const fs::path own = fs::canonical("/proc/self/exe").parent_path();
  const fs::path copy = own / "libskyward_io_test.so.1";
  fs::copy_file(fs::canonical(math.dli_fname), copy, fs::copy_options::overwrite_existing);
  const SharedLibrary found = load_library({"libm.so.6", "libskyward_io_test.so.1"});
  fs::remove(copy);
  ASSERT_NE(found.handle, nullptr);
  EXPECT_TRUE(found.shipped);
}

}  // namespace
}  // namespace skyward::io
