#include "skyward/provider/slurm/slurm_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace skyward::provider::slurm {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(SlurmNodes, AreWrittenOut) {
  EXPECT_THAT(*expand_nodes(""), IsEmpty());
  EXPECT_THAT(*expand_nodes("login"), ElementsAre("login"));
  EXPECT_THAT(*expand_nodes("n[1-3]"), ElementsAre("n1", "n2", "n3"));
  EXPECT_THAT(*expand_nodes("n[1,3],gpu-[08-10]x,z"),
              ElementsAre("n1", "n3", "gpu-08x", "gpu-09x", "gpu-10x", "z"));
  EXPECT_THAT(*expand_nodes("r[1-2]n[1-2]"), ElementsAre("r1n1", "r1n2", "r2n1", "r2n2"));
  for (const char* wrong : {"n[1-", "n]1", "n[[1]]", "n[3-1]", "n[a]", "a,,b", "n[]", "n[1-]",
                            "n[1-999999999]", "n[1-99999][1-99999]", "n[1--2]", ","}) {
    EXPECT_FALSE(expand_nodes(wrong)) << wrong;
  }
}

TEST(SlurmTimes, AreReadAsSlurmWritesThem) {
  EXPECT_EQ(*parse_time_limit("infinite"), Duration{});
  EXPECT_EQ(*parse_time_limit("30:00"), 30min);
  EXPECT_EQ(*parse_time_limit("45"), 45min);
  EXPECT_EQ(*parse_time_limit("12:00:30"), 12h + 30s);
  EXPECT_EQ(*parse_time_limit("1-12"), 36h);
  EXPECT_EQ(*parse_time_limit("2-00:30:00"), 48h + 30min);
  for (const char* wrong : {"", "x", "1:", "-1", "1:2:3:4", "1-", "99999999999"}) {
    EXPECT_FALSE(parse_time_limit(wrong)) << wrong;
  }
}

TEST(SlurmWords, SayWhatThePoolNeeds) {
  const Words words = sbatch_words({.name = "skyward-x",
                                    .nodes = 3,
                                    .partition = "gpu",
                                    .account = "lab",
                                    .qos = "high",
                                    .cpus = 2.5,
                                    .memory_mb = 4096,
                                    .gres = "gpu:h100:2",
                                    .time = 90s,
                                    .exclusive = true,
                                    .extra = {"--constraint=nvme"}});
  for (const char* word :
       {"--job-name=skyward-x", "--nodes=3", "--partition=gpu", "--account=lab", "--qos=high",
        "--cpus-per-task=3", "--mem=4096M", "--gres=gpu:h100:2", "--time=2", "--exclusive",
        "--no-requeue", "--no-kill", "--export=NONE"}) {
    EXPECT_THAT(words, ::testing::Contains(word));
  }
  EXPECT_EQ(words.back(), "--constraint=nvme") << "the user's words come last, and win";
  const Words least = sbatch_words({.name = "x"});
  EXPECT_THAT(least, ::testing::Not(::testing::Contains(HasSubstr("--mem"))));
}

// What a shell on the login node makes of it is what was meant.
TEST(SlurmWords, PassThroughAShellUnchanged) {
  const Words words{"printf", "%s\\n", "a b", "it's", "$HOME `id` \"q\" \\", "", "*"};
  const Words line = through({"sh", "-c"}, words);
  ASSERT_THAT(line, SizeIs(3));
  const auto ran = io::run_command({.command = line}, 5s);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->out, "a b\nit's\n$HOME `id` \"q\" \\\n\n*\n");
  // Once more, as the agent's line passes through ssh and through srun's shell.
  const auto twice = io::run_command({.command = through({"sh", "-c"}, line)}, 5s);
  EXPECT_EQ(twice->out, ran->out);
}

TEST(SlurmListing, IsReadLineByLine) {
  const auto jobs = parse_jobs(
      "3|CANCELLED|1|2026-11-23T23:54:18||Priority|t\n"
      "5_7|PENDING|9|N/A||Resources|array\n"
      "1|RUNNING|2|2026-11-23T23:54:08|n[1,3]|None|skyward-a|b\n"
      "nonsense\n"
      "9|PENDING|2|N/A||QOSMaxNodePerUserLimit|x\n");
  ASSERT_THAT(jobs, SizeIs(3));
  EXPECT_EQ(jobs[1], (Job{.id = "1",
                          .state = "RUNNING",
                          .nodes = 2,
                          .start = "2026-11-23T23:54:08",
                          .names = {"n1", "n3"},
                          .reason = "None",
                          .name = "skyward-a|b"}));
  EXPECT_EQ(jobs[2].start, "");
}

TEST(SlurmListing, ShowsWhatPartitionsHave) {
  const auto groups = parse_node_groups(
      "low*|up|1/2/0/3|8|8000|gpu:h100:4|1-00:00:00\n"
      "high|down|0/1/0/1|16+|64000+|(null)|infinite\n");
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0], (NodeGroup{.partition = "low",
                                  .is_default = true,
                                  .up = true,
                                  .nodes = 3,
                                  .cpus = 8,
                                  .memory_mb = 8000,
                                  .gres = "gpu:h100:4",
                                  .most_time = 24h}));
  EXPECT_EQ(groups[1].memory_mb, 64000);
  EXPECT_FALSE(groups[1].up);
  EXPECT_FALSE(groups[1].is_default);
}

CommandClock still() {
  return {.now = [] { return Time{}; }, .pause = [](Duration) {}};
}

TEST(SlurmReplies, NameTheUserAndTheCluster) {
  const ClusterUser me{.name = "me", .cluster = "c1"};
  EXPECT_EQ(parse_user("skyward-user=me\nSlurmctldHost[0] = ctl\nClusterName             = c1\n"),
            me);
  EXPECT_FALSE(parse_user("skyward-user=me\nsomething else\n"));
  EXPECT_FALSE(parse_user("me\nClusterName = c1\n"));
  EXPECT_FALSE(parse_user(""));
  // What a shell's profile says there: a line, and one without an end.
  EXPECT_EQ(parse_user("Quota: 83 % used\nLoad: 2.5 skyward-user=me\nClusterName = c1\n"), me);
}

// What asks only, and what ends jobs, may be said twice; a submission may not.
TEST(SlurmCommands, AreRepeatedWhereThatIsHarmless) {
  int runs = 0;
  Time now{};
  Api api(
      [&](const Words&, std::string_view, Duration) -> Result<io::CommandResult> {
        io::CommandResult out;
        out.status.code = ++runs < 3 ? 1 : 0;
        out.err = "squeue: error: Socket timed out on send/recv operation\n";
        return out;
      },
      {.now = [&] { return now; }, .pause = [&](Duration time) { now += time; }});
  EXPECT_TRUE(api.jobs(Time{} + 1h));
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(now, Time{} + 1500ms);
  runs = 0;
  EXPECT_TRUE(api.cancel({"17"}, Time{} + 1h));
  EXPECT_EQ(runs, 3);
  runs = 0;
  EXPECT_FALSE(api.submit({.name = "x"}, Time{} + 1h));
  EXPECT_EQ(runs, 1);
  runs = -100;  // it stays so
  EXPECT_FALSE(api.jobs(now + 1h));
  EXPECT_LE(runs, -95);
}

class SlurmRefusals : public ::testing::Test {
 protected:
  ApiError refused(int code, std::string err) {
    Api api(
        [&](const Words&, std::string_view, Duration) -> Result<io::CommandResult> {
          io::CommandResult out;
          out.status.code = code;
          out.err = err;
          return out;
        },
        still());
    const auto told = api.submit({.name = "x"}, Time{} + 1h);
    EXPECT_FALSE(told);
    return told ? ApiError{} : told.error();
  }
};

TEST_F(SlurmRefusals, SayWhatToDoInSlurmsOwnWords) {
  const auto partition =
      refused(1,
              "sbatch: error: invalid partition specified: nosuch\nsbatch: error: Batch job "
              "submission failed: Invalid partition name specified\n");
  EXPECT_EQ(partition.kind(), ErrorKind::invalid);
  EXPECT_EQ(partition.message,
            "invalid partition specified: nosuch; Batch job submission failed: Invalid partition "
            "name specified");
  EXPECT_THAT(partition.hint, HasSubstr("sinfo -s"));
  EXPECT_TRUE(is_certain(partition));
  const auto gres = refused(1, "sbatch: error: Invalid generic resource (gres) specification\n");
  EXPECT_THAT(gres.hint, HasSubstr("no node has all of that"));
  const auto account = refused(1,
                               "sbatch: error: Batch job submission failed: Invalid account or "
                               "account/partition combination specified\n");
  EXPECT_EQ(account.kind(), ErrorKind::denied);
  const auto limit = refused(1,
                             "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch "
                             "job submission failed: Job violates accounting/QOS policy\n");
  EXPECT_EQ(limit.refusal, Refusal::quota);
  EXPECT_THAT(limit.message, HasSubstr("QOSMaxSubmitJobPerUserLimit; Batch job"));
  const auto plugin = refused(1,
                              "Welcome to the login node\n"
                              "sbatch: error: ----------------\nsbatch: error:\n"
                              "sbatch: error: You must give a project with --account\n"
                              "sbatch: error: Batch job submission failed: Unspecified error\n");
  EXPECT_EQ(plugin.message,
            "You must give a project with --account; Batch job submission failed: Unspecified "
            "error");
  const auto time = refused(1,
                            "sbatch: error: Batch job submission failed: Requested time limit "
                            "is invalid (missing or exceeds some limit)\n");
  EXPECT_THAT(time.hint, HasSubstr("lower time="));
  EXPECT_TRUE(is_certain(refused(255, "sbatch: error: Invalid --time specification\n")));
  const auto option = refused(255,
                              "sbatch: unrecognized option '--nonsense'\nTry \"sbatch --help\" "
                              "for more information\n");
  EXPECT_EQ(option.kind(), ErrorKind::invalid);
  EXPECT_EQ(option.message, "unrecognized option '--nonsense'");
  EXPECT_THAT(option.hint, HasSubstr("extra="));
  EXPECT_TRUE(is_certain(option));
  EXPECT_EQ(refused(127, "sh: 1: sbatch: not found\n").kind(), ErrorKind::unsupported);
}

TEST_F(SlurmRefusals, TellWhetherAJobMayExistAllTheSame) {
  EXPECT_FALSE(is_certain(refused(1,
                                  "sbatch: error: Batch job submission failed: Socket timed out "
                                  "on send/recv operation\n")));
  const auto broken =
      refused(255, "A banner of two\nlines\nConnection to login closed by remote host.\n");
  EXPECT_FALSE(is_certain(broken));
  EXPECT_EQ(broken.message, "Connection to login closed by remote host.");
  EXPECT_TRUE(is_certain(refused(1,
                                 "sbatch: error: Batch job submission failed: Unable to contact "
                                 "slurm controller (connect failure)\n")));
}

TEST_F(SlurmRefusals, WithoutSlurmSayWhereToGo) {
  Api api(
      [&](const Words&, std::string_view, Duration) -> Result<io::CommandResult> {
        return fail(ErrorKind::invalid, "there is no program sbatch");
      },
      still());
  const auto told = api.submit({.name = "x"}, Time{} + 1h);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().kind(), ErrorKind::unsupported);
  EXPECT_THAT(told.error().hint, HasSubstr("login="));
  EXPECT_TRUE(is_certain(told.error()));
}

// The PATH of `ssh login sbatch` may be another than that of people there.
TEST_F(SlurmRefusals, WithoutSlurmOnTheLoginNodeSayWhatToSetThere) {
  Api api(
      [&](const Words&, std::string_view, Duration) -> Result<io::CommandResult> {
        io::CommandResult out;
        out.status.code = 127;
        out.err = "sh: 1: scontrol: not found\n";
        return out;
      },
      still(), "me@login");
  const auto told = api.user(Time{} + 1h);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().kind(), ErrorKind::unsupported);
  EXPECT_THAT(told.error().hint, HasSubstr("'ssh me@login sbatch --version' must work"));
}

TEST(SlurmReplies, ThatAreNoIdMayHideAJob) {
  std::string reply;
  Api api(
      [&](const Words&, std::string_view, Duration) -> Result<io::CommandResult> {
        io::CommandResult out;
        out.out = reply;
        return out;
      },
      still());
  for (const char* good : {"17\n", "17;cluster\n", "a banner of the login node\n17\n"}) {
    reply = good;
    EXPECT_EQ(*api.submit({.name = "x"}, Time{} + 1h), "17");
  }
  for (const char* wrong : {"", "Submitted", "-3", "17a"}) {
    reply = wrong;
    const auto told = api.submit({.name = "x"}, Time{} + 1h);
    ASSERT_FALSE(told) << wrong;
    EXPECT_FALSE(is_certain(told.error())) << wrong;
  }
}

TEST(SlurmReplies, ThatNameAnotherClusterAreNoSubmission) {
  std::vector<Words> asked;
  std::string cluster = "C1";
  bool refuses = false;
  Api api(
      [&](const Words& words, std::string_view, Duration) -> Result<io::CommandResult> {
        asked.push_back(words);
        io::CommandResult out;
        if (words.front() == "sh") out.out = "skyward-user=me\nClusterName = c1\n";
        if (words.front() == "sbatch") out.out = "17;" + cluster + "\n";
        out.status.code = refuses && words.front() == "scancel" ? 1 : 0;
        if (refuses) out.err = "scancel: error: Access denied\n";
        return out;
      },
      still());
  ASSERT_TRUE(api.user(Time{} + 1h));
  EXPECT_EQ(*api.submit({.name = "x"}, Time{} + 1h), "17");
  cluster = "gpu";
  const auto told = api.submit({.name = "x"}, Time{} + 1h);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().message, "sbatch sent job 17 to the cluster gpu, not to c1");
  EXPECT_THAT(told.error().hint, HasSubstr("login="));
  EXPECT_TRUE(is_certain(told.error()));
  EXPECT_THAT(asked.back(), ElementsAre("scancel", "--quiet", "--clusters=gpu", "17"));
  refuses = true;
  const auto left = api.submit({.name = "x"}, Time{} + 1h);
  EXPECT_THAT(left.error().message, HasSubstr("it was not cancelled: Access denied"));
  EXPECT_THAT(left.error().hint, HasSubstr("'scancel --clusters=gpu 17'"));
}

}  // namespace
}  // namespace skyward::provider::slurm
