#include "skyward/provider/shell_line.h"

#include <gtest/gtest.h>

#include <chrono>

#include "skyward/io/process.h"
#include "skyward/provider/keeping/commands.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;

std::string printed_by(const Words& command, std::string_view input = {}) {
  const auto ran = io::run_command({.command = command}, 5s, input);
  EXPECT_TRUE(ran) << ran.error().message;
  return ran ? ran->out + ran->err : "";
}

// What csh and fish find special between single quotes: line feeds and '!', backslashes.
bool is_for_any_shell(std::string_view line) {
  return line.find_first_of("!\n") == std::string_view::npos;
}

TEST(ShellLine, ShowsAScriptThatAnyShellCanQuote) {
  const std::string line = shell_line("echo \"$0 $1\"");
  EXPECT_EQ(line, "exec sh -c 'echo \"$0 $1\"'");
  EXPECT_EQ(printed_by({"sh", "-c", line + " a b"}), "a b\n");
}

TEST(ShellLine, HidesWhatSomeShellWouldChange) {
  const std::string script = "if [ \"$1\" != b ]; then\n  exit 1\nfi\nprintf '%s\\n' \"$0\"\ncat\n";
  const std::string line = shell_line(script);
  EXPECT_TRUE(is_for_any_shell(line)) << line;
  EXPECT_EQ(line.find('\\'), std::string::npos);
  EXPECT_EQ(printed_by({"sh", "-c", line + " a b"}, "input"), "a\ninput");
}

TEST(WordsThroughALogin, AreOneLineForAnyShell) {
  const Words words{
      "sh",   "-c",     "for one; do\n  [ \"$one\" != x ] && printf '%s\\n' \"it's $one\"\ndone",
      "name", "a b",    "x",
      "!",    "\\\\ \\"};
  const Words command = through({"sh", "-c"}, words);
  ASSERT_EQ(command.size(), 3U);
  EXPECT_TRUE(is_for_any_shell(command.back())) << command.back();
  EXPECT_EQ(printed_by(command), "it's a b\nit's !\nit's \\\\ \\\n");
  EXPECT_EQ(through({"ssh", "host"}, {"squeue", "--me", "--format=%i|%T"}).back(),
            "squeue --me '--format=%i|%T'");
}

// As the engine's line for an agent passes through a login node.
TEST(WordsThroughALogin, TakeOneMore) {
  const Words words{"sh", "-c", "echo \"$1\"\necho \"$2\"\ncat", "name", "a"};
  const std::string more = shell_line("echo \"it is $HOME\"");
  Words shown = call_through({"printf", "%s"}, words);
  shown.push_back(more);
  EXPECT_TRUE(is_for_any_shell(printed_by(shown))) << printed_by(shown);
  Words command = call_through({"sh", "-c"}, words);
  command.push_back(more);
  EXPECT_EQ(printed_by(command, "input"), "a\n" + more + "\ninput");
}

}  // namespace
}  // namespace skyward::provider
