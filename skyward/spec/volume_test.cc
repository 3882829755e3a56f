#include "skyward/spec/volume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "skyward/spec/memory_size.h"

namespace skyward {
namespace {

using testing::HasSubstr;

std::string refusal(Volume volume) {
  const Status status = validate(std::vector{std::move(volume)});
  return status ? "accepted" : status.error().message;
}

TEST(Volume, Addresses) {
  const Volume volume = parse_volume("/data", "s3://my-bucket/a/b").value();
  EXPECT_EQ(volume, (Volume{.mount_path = "/data", .bucket = "my-bucket", .prefix = "a/b"}));
  EXPECT_EQ(parse_volume("/data", "s3://my-bucket")->prefix, "");
  EXPECT_THAT(parse_volume("/data", "gs://my-bucket").error().message, HasSubstr("gs://"));
  EXPECT_FALSE(parse_volume("/data", "s3:///x"));
}

TEST(Volume, Refusals) {
  EXPECT_EQ(refusal({.mount_path = "/data", .bucket = "abc"}), "accepted");
  const std::string root = "/root";
  const std::string home = std::string("/home") + "/me";
  const std::vector<std::string> hiding = {
      "/",         "//",        "/opt",   "/opt/skyward/", "/opt/skyward/env",
      root,        "/tmp",      "/etc",   "//etc",         "/etc/ssh",
      "/home",     home + "/",  "/var",   "/var/lib",      "/var/run/x",
      "/run/user", "/boot/efi", "/sbin",  "/lib64",        "/usr/local/data",
      "/dev/shm",  "/proc/1",   "/sys/fs"};
  for (const std::string& path : hiding)
    EXPECT_THAT(refusal({.mount_path = path, .bucket = "abc"}), HasSubstr("hide")) << path;
  const std::vector<std::string> own = {
      "/var/data", home + "/data", root + "/data", "/tmp/data",         "/opt/data",
      "/mnt",      "/srv",         "/etcetera",    "/opt/skyward-data", "/workspace"};
  for (const std::string& path : own)
    EXPECT_EQ(refusal({.mount_path = path, .bucket = "abc"}), "accepted") << path;
  for (const char* path : {"", "data", "/a/../etc", "/a\n", "/data/."})
    EXPECT_THAT(refusal({.mount_path = path, .bucket = "abc"}), HasSubstr("absolute")) << path;
  EXPECT_EQ(refusal({.mount_path = "/data", .bucket = "my_bucket"}), "accepted")
      << "stores other than Amazon's have such names";
  for (const char* bucket : {"", "a", "UPPER", "a b"})
    EXPECT_THAT(refusal({.mount_path = "/data", .bucket = bucket}), HasSubstr("bucket")) << bucket;
  EXPECT_THAT(refusal({.mount_path = "/data", .bucket = "abc", .prefix = "/x"}),
              HasSubstr("slash"));
  const Volume volume{.mount_path = "/data", .bucket = "abc"};
  Volume same = volume;
  same.mount_path = "/data/";
  EXPECT_THAT(validate(std::vector{volume, same}).error().message, HasSubstr("two"));
  same.mount_path = "//data";
  EXPECT_THAT(validate(std::vector{volume, same}).error().message, HasSubstr("two"));
  Volume inner = volume;
  inner.mount_path = "/data/out/";
  const std::string nested = "\"/data/out\" is inside \"/data\"";
  EXPECT_THAT(validate(std::vector{volume, inner}).error().message, HasSubstr(nested));
  EXPECT_THAT(validate(std::vector{inner, volume}).error().message, HasSubstr(nested));
  inner.mount_path = "/database";
  EXPECT_TRUE(validate(std::vector{volume, inner}));
  EXPECT_EQ(refusal({.mount_path = "/own", .mount_commands = {"mount x"}}), "accepted");
}

TEST(MemorySize, Units) {
  EXPECT_EQ(parse_memory_mb("32GB").value(), 32768);
  EXPECT_EQ(parse_memory_mb("1.5 g").value(), 1536);
  EXPECT_EQ(parse_memory_mb("512MiB").value(), 512);
  EXPECT_EQ(parse_memory_mb("2TB").value(), 2097152);
  for (const char* text :
       {"", "GB", "-1GB", "0", "1e3GB", "12 parsecs", "nan", "inf", "99999999TB"})
    EXPECT_FALSE(parse_memory_mb(text)) << text;
  EXPECT_EQ(parse_memory_mb("32").error().message, "memory=\"32\" has no unit");
  EXPECT_EQ(parse_memory_mb("32").error().hint, "write \"32GB\" or \"32MB\"");
}

}  // namespace
}  // namespace skyward
