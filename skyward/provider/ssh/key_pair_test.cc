#include "skyward/provider/ssh/key_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "skyward/provider/world_fixture.h"

namespace skyward::provider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(KeyPair, AUserWithoutAnEntryIsToldSo) {
  WorldFixture fixture;
  fixture.world.run = [](const io::SpawnOptions&, Duration) -> Result<io::CommandResult> {
    return io::CommandResult{
        .status = {.code = 255}, .out = "", .err = "No user exists for uid 10001\r\n"};
  };
  const Error unknown = make_key_pair(fixture.world, "/s/login").error();
  EXPECT_EQ(unknown.kind, ErrorKind::unsupported) << "no retry would help";
  EXPECT_THAT(unknown.message, HasSubstr("No user exists for uid 10001"));
  EXPECT_THAT(unknown.hint, HasSubstr("no entry in /etc/passwd"));
}

TEST(KeyPair, OnlyAMissingProgramIsToBeInstalled) {
  WorldFixture fixture;
  fixture.world.run = [](const io::SpawnOptions&, Duration) -> Result<io::CommandResult> {
    return fail(ErrorKind::invalid, "there is no such program on PATH");
  };
  const Error missing = make_key_pair(fixture.world, "/s/login").error();
  EXPECT_THAT(missing.hint, HasSubstr("openssh-client"));
  EXPECT_EQ(missing.kind, ErrorKind::unsupported);

  fixture.world.run = [](const io::SpawnOptions&, Duration) -> Result<io::CommandResult> {
    return io::CommandResult{.status = {.code = 1},
                             .out = "",
                             .err = "Saving key \"/s/login\" failed: No space left on device\n"};
  };
  const Error full = make_key_pair(fixture.world, "/s/login").error();
  EXPECT_EQ(full.message,
            "ssh-keygen cannot create a key: Saving key \"/s/login\" failed: No space left on "
            "device");
  EXPECT_EQ(full.kind, ErrorKind::unavailable);
  EXPECT_THAT(full.hint, Not(HasSubstr("install")));
  EXPECT_THAT(full.hint, HasSubstr("the disk of /s is full"));

  fixture.world.run = [](const io::SpawnOptions&, Duration) -> Result<io::CommandResult> {
    return fail(ErrorKind::exhausted, "cannot start 'ssh-keygen': cannot create a process");
  };
  EXPECT_EQ(make_key_pair(fixture.world, "/s/login").error().kind, ErrorKind::unavailable)
      << "the cloud has capacity";
}

}  // namespace
}  // namespace skyward::provider
