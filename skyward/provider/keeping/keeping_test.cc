#include "skyward/provider/keeping/keeping.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "skyward/io/process.h"

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

// A computer that wakes up looks before the agent touches the file.
TEST(Keeper, EndsAfterTwoLooksWithoutAnAgent) {
  EXPECT_EQ(looks_of_keeper("\\n\\n"), 2);
  EXPECT_EQ(looks_of_keeper("here\\n\\nhere\\nhere\\n\\n\\nhere\\n"), 6) << "one look alone";
}

}  // namespace
}  // namespace skyward::provider
