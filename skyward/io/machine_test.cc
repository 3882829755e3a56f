#include "skyward/io/machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

namespace skyward::io {
namespace {

TEST(Machine, VariablesThatAreEmptyCountAsNotSet) {
  ASSERT_EQ(::setenv("SKYWARD_MACHINE_TEST", "x y", 1), 0);
  EXPECT_EQ(environment_variable("SKYWARD_MACHINE_TEST"), "x y");
  ASSERT_EQ(::setenv("SKYWARD_MACHINE_TEST", "", 1), 0);
  EXPECT_EQ(environment_variable("SKYWARD_MACHINE_TEST"), std::nullopt);
  ASSERT_EQ(::unsetenv("SKYWARD_MACHINE_TEST"), 0);
  EXPECT_EQ(environment_variable("SKYWARD_MACHINE_TEST"), std::nullopt);
}

TEST(Machine, HasProcessorsAndMemory) {
  EXPECT_GE(cpu_count(), 1);
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_LE(usable_cpus(), cpu_count());
  EXPECT_GE(current_core(), 0);
  EXPECT_GT(memory_gib(), 0.01);
}

TEST(Machine, PortsAreOnesThatAProgramMayBind) {
  const Result<int> port = free_tcp_port();
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_GE(*port, 20000);  // from 32768 on kernels give them to connections
  EXPECT_LT(*port, 32000);
}

TEST(Machine, AnAddressIsItsOwnName) {
  EXPECT_EQ(address_of_name("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(address_of_name("::1"), "::1");
  EXPECT_EQ(address_of_name("not a name"), std::nullopt);
}

// Debian gives a computer's own name 127.0.1.1.
TEST(Machine, AHostIsReachedAtAnAddressThatIsNotEachMachinesOwn) {
  EXPECT_EQ(best_address({"127.0.1.1", "2001:db8::1", "192.0.2.7", "192.0.2.8"}), "192.0.2.7");
  EXPECT_EQ(best_address({"::1", "2001:db8::1"}), "2001:db8::1");
  EXPECT_EQ(best_address({"127.0.1.1"}), "127.0.1.1");
  EXPECT_EQ(best_address({}), std::nullopt);
}

TEST(Machine, RandomHexIsHexAndRandom) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    const std::string text = random_hex(8);
    EXPECT_EQ(text.size(), 8u);
    EXPECT_EQ(text.find_first_not_of("0123456789abcdef"), std::string::npos) << text;
    seen.insert(text);
  }
  EXPECT_GT(seen.size(), 95u);
  EXPECT_EQ(random_hex(0), "");
  EXPECT_EQ(random_hex(5).size(), 5u);
}

TEST(Machine, KnowsAProgramWhenItSeesOne) {
  EXPECT_TRUE(is_program("/bin/sh"));
  EXPECT_FALSE(is_program("/bin"));
  EXPECT_FALSE(is_program("/etc/passwd"));
  EXPECT_FALSE(is_program("/no/such/program"));
}

TEST(Machine, FindsAProgramWhereTheVariableSays) {
  EXPECT_EQ(program_paths("sh", ":/bin"), (std::vector<std::string>{"./sh", "/bin/sh"}));
  EXPECT_EQ(find_program("sh", "/no/such/folder:/bin"), "/bin/sh");
  EXPECT_EQ(find_program("sh", "/no/such/folder"), std::nullopt);
  EXPECT_EQ(find_program("passwd", "/etc"), std::nullopt) << "a file that nobody may run";
  EXPECT_EQ(find_program("/bin/sh", ""), "/bin/sh");
  EXPECT_TRUE(find_program("sh", std::nullopt));
}

}  // namespace
}  // namespace skyward::io
