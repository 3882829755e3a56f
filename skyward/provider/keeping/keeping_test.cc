#include "skyward/provider/keeping/keeping.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

#include "skyward/io/process.h"
#include "skyward/provider/keeping/commands.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;

// How often a keeper looks for the agent's last touch. `looks`: for each look a line, with a word
// where it finds a fresh one.
int looks_of_keeper(const std::string& looks) {
  const std::string script =
      "d=$(mktemp -d)\n"
      "find() { echo >>\"$d/looks\"; sed -n \"$(wc -l <\"$d/looks\")p\" \"$d/plan\"; }\n"
      "printf '" +
      looks + "' >\"$d/plan\"\nlimit=15 look=0.01\n" + kKeepWhileClaimed +
      "wc -l <\"$d/looks\"; rm -rf \"$d\"\n";
  const auto ran = io::run_command({.command = {"sh", "-c", script}}, 20s);
  EXPECT_TRUE(ran) << ran.error().message;
  return ran ? std::stoi(ran->out) : 0;
}

TEST(Keeper, WaitsForAsLongAsTheLeaseAndLongEnoughForAStart) {
  PoolSpec spec;
  spec.lease = 1min;
  EXPECT_EQ(keeper_terms(spec).limit, kUnclaimedKeeper);
  spec.lease = 1h;
  EXPECT_EQ(keeper_terms(spec).limit, 1h);
}

// A computer that wakes up looks before the agent touches the file.
TEST(Keeper, EndsAfterTwoLooksWithoutAnAgent) {
  EXPECT_EQ(looks_of_keeper("\\n\\n"), 2);
  EXPECT_EQ(looks_of_keeper("here\\n\\nhere\\nhere\\n\\n\\nhere\\n"), 6) << "one look alone";
}

// The first try may have been obeyed: what refuses the second one does not undo it.
TEST(RepeatedCommand, IsRefusedForCertainOnlyIfEveryTryWas) {
  const ApiError lost{.refusal = Refusal::transient, .heard = Heard::unknown};
  const ApiError refused{.refusal = Refusal::quota, .heard = Heard::answered};
  const CommandClock clock{.now = [] { return Time{}; }, .pause = [](Duration) {}};
  int tries = 0;
  const auto after_loss = repeat_command(
      clock, [&] { return std::optional(++tries == 1 ? lost : refused); }, Time{} + 1h);
  EXPECT_EQ(tries, 2);
  EXPECT_FALSE(is_certain(*after_loss));
  EXPECT_TRUE(
      is_certain(*repeat_command(clock, [&] { return std::optional(refused); }, Time{} + 1h)));
}

}  // namespace
}  // namespace skyward::provider
