// The words with a node before the first frame: what the line does in real shells, and what the
// reader makes of what they say.

#include "skyward/engine/link_entry.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <vector>

#include "skyward/base/hash.h"
#include "skyward/engine/link_uploads.h"
#include "skyward/engine/lost_agents.h"
#include "skyward/io/machine.h"
#include "skyward/io/process.h"

namespace skyward::engine {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Kind = EntryReader::Word::Kind;

constexpr Duration kPatience = std::chrono::seconds(60);

// A "node": a home directory of its own, and a stand-in for the agent that says how it was called.
class EntryTest : public testing::Test {
 protected:
  void SetUp() override {
    home = fs::temp_directory_path() / ("entry-" + io::random_hex(12));
    fs::create_directories(home);
    const std::string script =
        "#!/bin/sh\necho \"skyward-agent: connected\"\necho \"$@\"\n"
        "echo \"home=$HOME root=$SKYWARD_ROOT umask=$(umask)\"\n";
    agent = {.path = home / "agent", .hash = to_hex(sha256(as_bytes(script)))};
    std::ofstream(agent.path) << script;
    agent.size = script.size();
    agent.place = fmt::format("agents/{}/skyward-agent", agent.hash);
    agents = {agent};
  }
  void TearDown() override { fs::remove_all(home); }

  // The line under the shell, with all the answers that it may want waiting on its input.
  std::string run(const std::vector<std::string>& shell, std::string_view input,
                  bool resume = false) {
    io::SpawnOptions options;
    options.command = shell;
    options.command.push_back(entry_line(agents, files, place, resume, former));
    options.environment = {{"HOME", home}, {"XDG_CACHE_HOME", ""}};
    for (const auto& [name, value] : changes) options.environment.emplace_back(name, value);
    const auto result = io::run_command(options, kPatience, input);
    if (!result) return result.error().message;
    return result->out + result->err;
  }
  std::string upload(bool packed) { return upload(agent, packed); }
  static std::string upload(const EntryFile& file, bool packed) {
    const auto bytes = load_upload(file, packed);
    EXPECT_TRUE(bytes);
    return fmt::format("{}\n{}", bytes->size(), as_text(bytes->view));
  }
  // Programs of the node that come before the system's.
  void replace_program(const std::string& name, const std::string& script) {
    fs::create_directories(home / "bin");
    std::ofstream(home / "bin" / name) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(home / "bin" / name, fs::perms::owner_all);
    changes = {{"PATH", home.string() + "/bin:/usr/bin:/bin"}};
  }
  std::vector<std::string> names_beside_stored() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(stored().parent_path())) {
      names.push_back(entry.path().filename());
    }
    return names;
  }
  fs::path stored() const { return home / ".cache/skyward" / agent.place; }

  fs::path home;
  std::vector<std::pair<std::string, std::string>> changes;  // of the node's environment
  EntryFile agent;
  std::vector<EntryFile> agents;
  std::vector<EntryFile> files;
  std::string former;
  EntryPlace place{.pool = "deadbeef", .node = NodeId{3}, .life = 2};
};

TEST_F(EntryTest, TheFileIsBroughtOnceAndBecomesTheCommand) {
  const std::string first = run({"sh", "-c"}, upload(true));
  EXPECT_THAT(first, HasSubstr("skyward-agent: need " + agent.hash + " packed"));
  EXPECT_THAT(first, HasSubstr("connect --pool deadbeef --node 3 --life 2\n"));
  const std::string second = run({"sh", "-c"}, "", true);
  EXPECT_THAT(second, testing::Not(HasSubstr("need")));
  EXPECT_THAT(second, HasSubstr("connect --pool deadbeef --node 3 --life 2 --resume\n"));
  LostAgents lost_agents;
  lost_agents.add(NodeId{3}, 1);
  lost_agents.add(NodeId{12}, 4);
  former = lost_agents.text();
  EXPECT_THAT(run({"sh", "-c"}, ""), HasSubstr("--life 2 --former 3.1,12.4\n"));
  EXPECT_THAT(run({"sh", "-c"}, "", true), HasSubstr("--life 2 --resume\n"));
  EXPECT_EQ(fs::status(stored()).permissions() & fs::perms::all, fs::perms::owner_all);
}

TEST_F(EntryTest, AFileStaysHereWhereACommandSaysThatItIsNotNeeded) {
  for (const char* name : {"unneeded", "needed"}) {
    const std::string path = home / name;
    std::ofstream(path) << name;
    const std::string hash = to_hex(sha256(as_bytes(std::string_view(name))));
    files.push_back({.path = path,
                     .hash = hash,
                     .place = "files/" + hash,
                     .size = std::string_view(name).size()});
  }
  files[0].unless = "{ nowhere || tool \"a b\"; }";
  // It prints, and reads what there is to read: neither is a part of the exchange.
  replace_program("tool", "cat; echo skyward-agent: gone; echo oops >&2; [ \"$*\" = 'a b' ]");
  const std::string input = upload(true) + upload(files[1], true);
  const std::string said = run({"sh", "-c"}, input);
  EXPECT_THAT(said, Not(HasSubstr("need " + files[0].hash)));
  EXPECT_THAT(said, HasSubstr("need " + files[1].hash));
  EXPECT_THAT(said, HasSubstr("connect --pool deadbeef"));
  EXPECT_THAT(said, Not(HasSubstr("gone")));
  EXPECT_THAT(said, Not(HasSubstr("not found")));
  fs::remove(home / "bin/tool");
  EXPECT_THAT(run({"sh", "-c"}, ""), HasSubstr("need " + files[0].hash));
  EXPECT_THAT(run({"sh", "-c"}, "", true), Not(HasSubstr("need"))) << "asked once for each agent";
  EXPECT_THAT(entry_line(agents, files, place, false), Not(HasSubstr("base64")));
}

// Small container images lack more than a shell.
TEST_F(EntryTest, TheLineIsForAnyShellWithoutAProgramThatDecodesIt) {
  EXPECT_THAT(entry_line(agents, agents, place, false, "3.1"), Not(HasSubstr("base64")));
  EXPECT_THAT(sweep_line(agents, place), Not(HasSubstr("base64")));
}

// By a power cut, say.
TEST_F(EntryTest, AFileThatWasDamagedThereIsBroughtAgain) {
  (void)run({"sh", "-c"}, upload(true));
  for (const std::uint64_t left : {0, 10}) {
    fs::resize_file(stored(), left);
    const std::string said = run({"sh", "-c"}, upload(true));
    EXPECT_THAT(said, HasSubstr("skyward-agent: need " + agent.hash));
    EXPECT_THAT(said, HasSubstr("connect --pool deadbeef"));
    EXPECT_EQ(fs::file_size(stored()), agent.size);
  }
}

TEST_F(EntryTest, AFileThatIsThereIsMarkedAsUsed) {
  (void)run({"sh", "-c"}, upload(true));
  const auto long_ago = fs::last_write_time(stored()) - std::chrono::days(300);
  fs::last_write_time(stored(), long_ago);
  EXPECT_THAT(run({"sh", "-c"}, ""), Not(HasSubstr("need")));
  EXPECT_GT(fs::last_write_time(stored()), long_ago + std::chrono::days(299));
}

TEST_F(EntryTest, TheAgentHasTheRightsOfALogin) {
  const std::string said = run({"sh", "-c", "umask 0027; exec sh -c \"$1\"", "sh"}, upload(true));
  EXPECT_THAT(said, HasSubstr("umask=0027\n"));
  EXPECT_EQ(fs::status(stored()).permissions() & fs::perms::all, fs::perms::owner_all);
  EXPECT_EQ(fs::status(stored().parent_path()).permissions() & fs::perms::all,
            fs::perms::owner_all);
}

TEST_F(EntryTest, WithoutAHomeTheSystemKnowsIt) {
  // A stand-in for the system's table of users.
  replace_program("getent", "echo \"u:x:$2:1::" + home.string() + ":/bin/sh\"");
  changes.emplace_back("HOME", "");
  const std::string said = run({"sh", "-c"}, upload(true));
  EXPECT_THAT(said, HasSubstr("home=" + home.string() + " "));
  EXPECT_THAT(said, HasSubstr("root=" + home.string() + "/.cache/skyward "));
  EXPECT_TRUE(fs::exists(stored()));
}

TEST_F(EntryTest, WithoutAnyHomeItIsRefused) {
  replace_program("getent", "exit 2");
  changes.emplace_back("HOME", "");
  const std::string said = run({"sh", "-c"}, upload(true));
  EXPECT_THAT(said, HasSubstr("has no home directory there: set HOME or XDG_CACHE_HOME"));
  EXPECT_THAT(said, testing::Not(HasSubstr("skyward-agent: need")));
}

TEST_F(EntryTest, TheLineGoesThroughAnotherShellUnharmed) {
  // ssh hands the line to the login shell; that one may be any.
  const std::string said = run({"bash", "-c"}, upload(true));
  EXPECT_THAT(said, HasSubstr("connect --pool deadbeef"));
  EXPECT_EQ(entry_line(agents, {}, place, false).find('\n'), std::string::npos);
}

TEST_F(EntryTest, TheMachineGetsTheAgentThatIsForIt) {
  const EntryFile first{.hash = "00", .place = "agents/00/skyward-agent", .machine = "x86_64"};
  agent.machine = "aarch64";
  agents = {first, agent};
  EXPECT_THAT(run({"sh", "-c"}, "0\n"), HasSubstr("skyward-agent: need 00 "));
  replace_program("uname", "echo aarch64");
  const std::string said = run({"sh", "-c"}, upload(true));
  EXPECT_THAT(said, HasSubstr("skyward-agent: need " + agent.hash + " packed"));
  EXPECT_THAT(said, HasSubstr("connect --pool deadbeef"));
  io::SpawnOptions options;
  options.command = {"sh", "-c", sweep_line(agents, place)};
  options.environment = {{"HOME", home}, {"XDG_CACHE_HOME", ""}, changes.front()};
  const auto swept = io::run_command(options, kPatience);
  ASSERT_TRUE(swept);
  EXPECT_THAT(swept->out, HasSubstr("end --pool deadbeef"));
}

// Machines may share the directory, and over NFS a program that is replaced while it runs crashes.
TEST_F(EntryTest, AnAgentThatAnotherNodeHasStoredMeanwhileIsNotReplaced) {
  replace_program("head", fmt::format("cp '{0}' '{1}'; chmod 755 '{1}'; exec /usr/bin/head \"$@\"",
                                      agent.path, stored().string()));
  EXPECT_THAT(run({"sh", "-c"}, upload(true)), HasSubstr("connect --pool deadbeef"));
  EXPECT_EQ(fs::status(stored()).permissions() & fs::perms::all, fs::perms{0755}) << "the other's";
  EXPECT_THAT(names_beside_stored(), testing::ElementsAre("skyward-agent"));
}

TEST_F(EntryTest, AFileSystemWithoutHardLinksWillDo) {
  replace_program("ln", "exit 1");
  EXPECT_THAT(run({"sh", "-c"}, upload(true)), HasSubstr("connect --pool deadbeef"));
  EXPECT_THAT(names_beside_stored(), testing::ElementsAre("skyward-agent"));
}

TEST_F(EntryTest, ADamagedUploadIsNotKept) {
  std::string bytes = upload(true);
  bytes[bytes.size() / 2] ^= 0x55;
  EXPECT_THAT(run({"sh", "-c"}, bytes), HasSubstr("skyward-agent: error "));
  EXPECT_FALSE(fs::exists(stored()));
  EXPECT_THAT(names_beside_stored(), testing::IsEmpty());
}

TEST_F(EntryTest, AnUploadThatBreaksOffIsNotKept) {
  std::string bytes = upload(true);
  bytes.resize(bytes.size() - 5);
  EXPECT_THAT(run({"sh", "-c"}, bytes), HasSubstr("skyward-agent: error "));
  EXPECT_FALSE(fs::exists(stored()));
}

TEST_F(EntryTest, WhereNothingCanBeStoredTheNodeSaysWhy) {
  fs::create_directories(home / ".cache");
  std::ofstream(home / ".cache/skyward") << "in the way";
  const std::string said = run({"sh", "-c"}, upload(true));
  EXPECT_THAT(said, HasSubstr("skyward-agent: error "));
  EXPECT_THAT(said, HasSubstr("mkdir"));
  EXPECT_THAT(said, HasSubstr("; set XDG_CACHE_HOME for this user on the node to a directory"));
}

// As on a file system that is mounted noexec.
TEST_F(EntryTest, AFileThatCannotBeExecutedIsAnErrorAtOnce) {
  replace_program("chmod", "");
  const std::string said = run({"sh", "-c"}, upload(true));
  EXPECT_THAT(said, HasSubstr("skyward-agent: error " + stored().string() +
                              " cannot be executed: its file system may be mounted noexec; set "
                              "XDG_CACHE_HOME"));
  EXPECT_THAT(said, Not(HasSubstr("connect --pool")));
  EXPECT_THAT(names_beside_stored(), testing::IsEmpty());
}

TEST_F(EntryTest, ASweepCallsTheAgentThatIsThereAndDoesNothingElsewhere) {
  io::SpawnOptions options;
  options.command = {"sh", "-c", sweep_line(agents, place)};
  options.environment = {{"HOME", home}, {"XDG_CACHE_HOME", ""}};
  auto result = io::run_command(options, kPatience);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->out, "");
  run({"sh", "-c"}, upload(true));
  result = io::run_command(options, kPatience);
  ASSERT_TRUE(result);
  EXPECT_THAT(result->out, HasSubstr("end --pool deadbeef --node 3 --life 2\n"));
}

TEST(EntryReader, PassesOverWhatIsNoAnswer) {
  EntryReader reader;
  reader.feed(
      as_bytes("Welcome to the machine\r\n\nprompt> skyward-agent: machine Linux x86_64\n"
               "skyward-agent: need 00ff packed\nskyward-agent: conn"));
  auto word = reader.next();
  ASSERT_TRUE(word && *word);
  EXPECT_EQ((*word)->kind, Kind::machine);
  EXPECT_EQ((*word)->text, "x86_64");
  word = reader.next();
  ASSERT_TRUE(word && *word);
  EXPECT_EQ((*word)->kind, Kind::need);
  EXPECT_EQ((*word)->text, "00ff");
  EXPECT_TRUE((*word)->packed);
  word = reader.next();
  ASSERT_TRUE(word);
  EXPECT_FALSE(*word) << "half a line";
  reader.feed(as_bytes("ected\nframes"));
  word = reader.next();
  ASSERT_TRUE(word && *word);
  EXPECT_EQ((*word)->kind, Kind::connected);
  EXPECT_EQ(reader.left(), 6U);
  EXPECT_THAT(reader.noise(), HasSubstr("Welcome to the machine"));
}

TEST(EntryReader, TellsErrorsInTheNodesWords) {
  EntryReader reader;
  reader.feed(as_bytes("skyward-agent: error gzip: stdout: No space left on device\n"));
  const auto word = reader.next();
  ASSERT_TRUE(word && *word);
  EXPECT_EQ((*word)->kind, Kind::error);
  EXPECT_EQ((*word)->text, "gzip: stdout: No space left on device");
}

TEST(EntryReader, GivesUpOnAFlood) {
  EntryReader reader;
  const std::string line(1000, 'x');
  for (int i = 0; i < 1000; ++i) reader.feed(as_bytes(line + "\n"));
  EXPECT_FALSE(reader.next());
}

TEST(Agent, OfAnUpgradeIsNotSeenByThisProcess) {
  const fs::path folder = fs::temp_directory_path() / ("upgrade-" + io::random_hex(12));
  fs::create_directories(folder);
  const fs::path path = folder / "skyward-agent";
  fs::copy_file("/proc/self/exe", path);
  const auto first = inspect_agent(path);
  ASSERT_TRUE(first) << first.error().message;
  const fs::path upgrade = path.string() + ".new";
  std::ofstream(upgrade) << "another program";
  fs::rename(upgrade, path);
  const auto again = inspect_agent(path);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->hash, first->hash);
  const auto bytes = load_upload(*again, /*packed=*/false);
  ASSERT_TRUE(bytes) << bytes.error().message;
  EXPECT_EQ(to_hex(sha256(bytes->view)), first->hash);
  fs::remove_all(folder);
}

TEST(Agent, IsLookedAtOnceAndMustBeAProgram) {
  const auto program = inspect_agent("/proc/self/exe");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->hash.size(), 64U);
  EXPECT_FALSE(program->machine.empty());
  const auto text = inspect_agent("/etc/passwd");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, ErrorKind::invalid);
}

TEST(LostAgentsTest, TheLatestAreKnownUntilTheyAreSeenToEnd) {
  LostAgents lost_agents;
  EXPECT_EQ(lost_agents.text(), "");
  lost_agents.add(NodeId{1}, 2);
  lost_agents.add(NodeId{0}, 1);
  lost_agents.add(NodeId{1}, 2);
  EXPECT_EQ(lost_agents.text(), "0.1,1.2");
  lost_agents.remove(NodeId{0}, 1);
  lost_agents.remove(NodeId{7}, 1);
  EXPECT_EQ(lost_agents.text(), "1.2");
  for (std::uint32_t life = 1; life <= LostAgents::kMost; ++life) lost_agents.add(NodeId{5}, life);
  EXPECT_TRUE(lost_agents.text().starts_with("5.1,5.2,")) << lost_agents.text();
}

}  // namespace
}  // namespace skyward::engine
