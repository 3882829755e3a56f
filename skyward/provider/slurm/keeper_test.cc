#include "skyward/provider/slurm/keeper.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "skyward/io/machine.h"
#include "skyward/provider/slurm/slurm_api.h"
#include "skyward/spec/image.h"

namespace skyward::provider::slurm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// Runs a script beside a keeper, which is process $keeper; `call` reaches it, $d is its directory.
std::string beside_keeper(std::string_view script) {
  std::string call;
  for (const std::string& word : call_words()) call += shell_quote(word) + " ";
  const std::string job = io::random_hex(16);
  const std::string text = fmt::format(
      "SLURM_JOB_ID={0}; export SLURM_JOB_ID; d={1}\n"
      "call() {{ {2} \"$1\"; }}\n"
      "setsid_call() {{ exec setsid {2} \"$1\"; }}\n"
      "SKYWARD_KEEPER={0} SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS_PER_NODE=1 SLURM_JOBID={0} "
      "SLURM_CPUS_PER_TASK=4 PMIX_RANK=0 sh -c {3} 2>/dev/null & keeper=$!\n"
      "{4}\n"
      "touch \"$d/over\" 2>/dev/null; wait $keeper; [ ! -e \"$d\" ] || echo left behind\n",
      job, kKeeperDirectory, call, shell_quote(keeper_script({.limit = 15min, .look_every = 50ms})),
      script);
  const auto ran = io::run_command({.command = {"sh", "-c", text}}, 60s);
  EXPECT_TRUE(ran) << ran.error().message;
  return ran ? ran->out + ran->err : "";
}

// A job's script, whose srun may be a function.
std::string without_exec(std::string script) {
  constexpr std::string_view kExec = "exec srun";
  const std::size_t at = script.find(kExec);
  return at == std::string::npos ? script : script.replace(at, kExec.size(), "srun");
}

TEST(SlurmKeeper, RunsALineForWhoeverCalls) {
  EXPECT_EQ(beside_keeper("printf hello | call 'cat; echo; echo odd >&2; exit 7'; echo $?"),
            "hello\n7\nodd\n");
  EXPECT_EQ(beside_keeper("call \"echo 'it'\\\\''s'; echo \\$((1 + 1))\" </dev/null"), "it's\n2\n");
}

// MPI and Lightning would take a task for a process that srun had started for them.
TEST(SlurmKeeper, KeepsTheVariablesOfItsStepFromALine) {
  EXPECT_EQ(beside_keeper("call 'env | sed -n \"s/^\\(PMI[^=]*\\|SLURM_[^=]*\\)=.*/\\1/p\" | sort' "
                          "</dev/null"),
            "SLURM_CPUS_PER_TASK\nSLURM_JOB_ID\n");
}

TEST(SlurmKeeper, CopiesEveryByte) {
  EXPECT_EQ(beside_keeper("head -c 3000000 /dev/urandom >\"$d.big\" 2>/dev/null\n"
                          "call cat <\"$d.big\" | cmp - \"$d.big\" && echo same; rm \"$d.big\""),
            "same\n");
}

TEST(SlurmKeeper, RunsALineWhereTheDiskIsFull) {
  // What `mktemp` does in /tmp: it fails, or what it makes cannot hold the line.
  for (const std::string_view act :
       {"echo full >&2; exit 1", "c=$(mktemp \"$@\"); mkdir \"$c/line\"; echo \"$c\""}) {
    EXPECT_EQ(beside_keeper(fmt::format(
                  "mkdir \"$d.bin\"; echo 'PATH=${{PATH#*:}}; case $2 in /tmp/*) {};;\n"
                  "*) mktemp \"$@\";; esac' >\"$d.bin/mktemp\"; chmod +x \"$d.bin/mktemp\"\n"
                  "(PATH=$d.bin:$PATH; printf hello | call 'cat; exit 7'; echo $?)\n"
                  "ls \"$d\" | grep c[.]; mkdir \"/dev/shm/${{d##*/}}.left\"\n"
                  "touch \"$d/over\"; wait $keeper; ls /dev/shm | grep \"${{d##*/}}\"\n"
                  "rm -r \"$d.bin\"",
                  act)),
              "hello7\n");
  }
}

TEST(SlurmKeeper, SaysWhyACallFindsNoSpaceAtAll) {
  EXPECT_EQ(beside_keeper("mkdir \"$d.bin\"; echo 'echo \"full: ${2%-*}\" >&2; exit 1' "
                          ">\"$d.bin/mktemp\"; chmod +x \"$d.bin/mktemp\"\n"
                          "(PATH=$d.bin:$PATH; call 'exit 7' </dev/null; echo $?)\n"
                          "rm -r \"$d.bin\""),
            fmt::format("1\nfull: /dev/shm/skyward-keeper-{0}\nfull: /tmp/skyward-keeper-{0}\n",
                        io::user_id()));
}

TEST(SlurmKeeper, KeepsWhatALineStartsWhenTheCallIsOver) {
  EXPECT_EQ(beside_keeper("call 'setsid sleep 60 >/dev/null 2>&1 </dev/null & echo $! >/tmp/"
                          "skyward-pid-'$SLURM_JOB_ID </dev/null\n"
                          "read -r pid </tmp/skyward-pid-$SLURM_JOB_ID\n"
                          "kill -0 $pid && echo alive; kill $pid\n"
                          "rm /tmp/skyward-pid-$SLURM_JOB_ID"),
            "alive\n");
}

TEST(SlurmKeeper, EndsALineWhoseCallWasKilled) {
  // Slurm kills a step as a whole. Its input never ends by itself.
  EXPECT_EQ(
      beside_keeper("mkfifo \"$d.sign\" \"$d.in\"; exec 4<>\"$d.in\" 5<>\"$d.sign\"\n"
                    "setsid_call \"echo read >$d.sign; cat; echo ended >$d.sign\" <&4 5<&- &\n"
                    "step=$!\n"
                    "read -r word <&5; echo $word; kill -9 -$step\n"
                    "read -r word <&5; echo $word; rm \"$d.sign\" \"$d.in\""),
      "read\nended\n");
}

TEST(SlurmKeeper, EndsWhenItsAgentIsSilent) {
  EXPECT_EQ(beside_keeper("call true </dev/null\n"
                          "kill -0 $keeper && echo alive\n"
                          "touch -d '1 hour ago' \"$d/claimed\"; wait $keeper; echo over"),
            "alive\nover\n");
}

// Slurm signals what it finds below the step; at some sites that is not what has become a daemon.
TEST(SlurmKeeper, PassesTheSignalThatEndsAJobOn) {
  EXPECT_EQ(beside_keeper("mkfifo \"$d.sign\"; exec 4<>\"$d.sign\"\n"
                          "call \"setsid sh -c 'trap \\\"echo told >$d.sign; exit\\\" TERM; "
                          "echo up >$d.sign; while :; do sleep 0.1; done' "
                          ">/dev/null 2>&1 </dev/null 4<&- &\" </dev/null\n"
                          "read -r word <&4; echo $word; kill -TERM $keeper\n"
                          "read -r word <&4; echo $word; wait $keeper; rm \"$d.sign\""),
            "up\ntold\n");
}

TEST(SlurmKeeper, WaitsAMomentForLastWords) {
  EXPECT_EQ(beside_keeper("mkfifo \"$d.sign\"; exec 4<>\"$d.sign\"\n"
                          "call \"setsid sh -c 'trap \\\"sleep 0.5; echo farewell >$d.sign; "
                          "exit\\\" TERM; echo up >$d.sign; while :; do sleep 0.1; done' "
                          ">/dev/null 2>&1 </dev/null 4<&- &\" </dev/null\n"
                          "read -r word <&4; echo $word; kill -TERM $keeper; wait $keeper\n"
                          "echo over >&4; read -r word <&4; echo $word; rm \"$d.sign\""),
            "up\nfarewell\n");
}

TEST(SlurmKeeper, LeavesNothingThatItStarted) {
  EXPECT_EQ(beside_keeper("call \"setsid sh -c 'trap : TERM; echo \\$\\$ >$d.pid; exec sleep 60' "
                          ">/dev/null 2>&1 </dev/null &\" </dev/null\n"
                          "while [ ! -s \"$d.pid\" ]; do :; done; read -r pid <\"$d.pid\"\n"
                          "kill -0 $pid && echo runs; touch \"$d/over\"; wait $keeper\n"
                          "while grep -qs 'State:.[^Z]' /proc/$pid/status; do sleep 0.1; done\n"
                          "echo gone; rm \"$d.pid\""),
            "runs\ngone\n");
}

TEST(SlurmKeeper, IsInTheScriptOfItsJob) {
  const std::string script = job_script({.limit = 15min});
  EXPECT_TRUE(script.starts_with("#!/bin/sh\n"));
  const auto parsed = io::run_command({.command = {"sh", "-n", "-c", script}}, 5s);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->status.code, 0) << parsed->err;
  // With an srun that shows its last word.
  ASSERT_THAT(script, HasSubstr("exec srun"));
  const auto ran = io::run_command({.command = {"sh", "-c",
                                                "srun() { for last; do :; done; printf %s "
                                                "\"$last\"; }\n" +
                                                    without_exec(script)}},
                                   5s);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->out, keeper_script({.limit = 15min}));
}

TEST(SlurmKeeper, RunsOnceOnANodeAndIsNoRankOfMpi) {
  const std::string script = job_script({.limit = 15min});
  const auto ran = io::run_command(
      {.command = {"sh", "-c",
                   "SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=3; export SLURM_JOB_ID\n"
                   "srun() { for word; do case $word in --*) echo \"$word\";; esac; done; }\n" +
                       without_exec(script)}},
      5s);
  ASSERT_TRUE(ran);
  for (const char* word : {"--export=ALL,SKYWARD_KEEPER=17\n", "--mpi=none\n", "--nodes=3\n",
                           "--ntasks=3\n", "--ntasks-per-node=1\n"}) {
    EXPECT_THAT(ran->out, HasSubstr(word));
  }
}

// ssh gives a line to the login shell there; what that makes of it is what was meant.
TEST(SlurmCalls, PassThroughALoginNodeUnchanged) {
  const std::string line = "it's \"$HOME\" `id` \\ \n two lines\n";
  Words command = call_through({"sh", "-c"}, {"printf", "%s|", "a b", "it's $x"});
  command.push_back(line);
  const auto ran = io::run_command({.command = command}, 5s);
  ASSERT_TRUE(ran);
  EXPECT_EQ(ran->out, "a b|it's $x|" + line + "|") << ran->err;
}

TEST(SlurmCalls, NameTheJobAndTheNode) {
  const Words words = srun_words("17", "n2");
  EXPECT_THAT(
      words, ::testing::IsSupersetOf({"--jobid=17", "--nodelist=n2", "--overlap", "--unbuffered"}));
  EXPECT_EQ(words.back(), "skyward-call");
}

// The keeper's step has all GPUs of the job. Why srun waits must not be hidden.
TEST(SlurmCalls, WaitForNothingThatTheKeeperHas) {
  const Words words = srun_words("17", "n2");
  EXPECT_THAT(words, ::testing::IsSupersetOf({"--overlap", "--gres=none", "--mem=0"}));
  EXPECT_THAT(words, ::testing::Not(::testing::Contains("--quiet")));
}

}  // namespace
}  // namespace skyward::provider::slurm
