#include "skyward/spec/shortage.h"

#include <gtest/gtest.h>

namespace skyward {
namespace {

TEST(Shortage, TravelsInsideAnErrorAndComesOutWhole) {
  const Shortage shortage{.kind = ShortageKind::spot_minimum,
                          .requested = 3,
                          .got = 1,
                          .region = "eu-west-1",
                          .regions = {"eu-west-1", "eu-west-2"},
                          .instance_type = "m5.large",
                          .offers = {"m5.large in eu-west-1, $0.1000 on demand"}};
  const Error error = with_shortage({ErrorKind::exhausted, "words", "hint"}, shortage);
  EXPECT_EQ(error.message, "words");
  EXPECT_EQ(shortage_of(error), shortage);
  const Shortage empty{.kind = ShortageKind::no_match};
  EXPECT_EQ(shortage_of(with_shortage(error, empty)), empty);
}

TEST(Shortage, OtherErrorsHaveNone) {
  EXPECT_EQ(shortage_of({ErrorKind::denied, "no", ""}), std::nullopt);
  EXPECT_EQ(shortage_of({ErrorKind::denied, "no", "", {{"shortage", "of words"}}}), std::nullopt);
}

}  // namespace
}  // namespace skyward
