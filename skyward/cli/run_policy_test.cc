#include "skyward/cli/run_policy.h"

#include <gtest/gtest.h>

#include <chrono>

#include "skyward/io/ending_signals.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::cli {
namespace {

using namespace std::chrono_literals;
using Step = Stopping::Step;

constexpr Time kStart{};
constexpr int kHangUp = 1;  // SIGHUP

TEST(ExitCode, IsTheCommandsOrItsSignals) {
  EXPECT_EQ(exit_code_of(0, 0), 0);
  EXPECT_EQ(exit_code_of(3, 0), 3);
  EXPECT_EQ(exit_code_of(0, io::kKillSignal), 137);
}

TEST(EndingSignal, IsTheFirstThatCameWhereTheCommandDiedOfIt) {
  EXPECT_EQ(ending_signal(130, io::kInterruptSignal), io::kInterruptSignal);
  EXPECT_EQ(ending_signal(137, io::kInterruptSignal), io::kInterruptSignal) << "after another";
  EXPECT_EQ(ending_signal(143, kHangUp), kHangUp) << "the command got SIGTERM";
  EXPECT_EQ(ending_signal(129, kHangUp), kHangUp) << "before the command ran";
  EXPECT_EQ(ending_signal(5, io::kInterruptSignal), 0) << "the command handled it";
  EXPECT_EQ(ending_signal(139, io::kInterruptSignal), 0) << "it crashed";
  EXPECT_EQ(ending_signal(130, 0), 0) << "nobody interrupted the run";
}

TEST(Signals, TheFirstOneMayArriveTwice) {
  const int first = io::kTerminateSignal;
  EXPECT_TRUE(is_repeat(first, kStart + 150ms, first, kStart));
  EXPECT_FALSE(is_repeat(first, kStart + 600ms, first, kStart)) << "somebody is in a hurry";
  EXPECT_FALSE(is_repeat(io::kInterruptSignal, kStart + 150ms, first, kStart));
}

TEST(Stopping, TakesOneStepAfterTheOther) {
  Stopping stopping;
  EXPECT_FALSE(stopping.has_begun());
  EXPECT_FALSE(stopping.due(kStart + 1h));
  EXPECT_EQ(stopping.ask(io::kInterruptSignal, kStart), Step{.signal = io::kInterruptSignal});
  EXPECT_TRUE(stopping.has_begun());
  EXPECT_FALSE(stopping.due(kStart + 9s));
  EXPECT_EQ(stopping.due(kStart + 10s), Step{.signal = io::kTerminateSignal});
  EXPECT_FALSE(stopping.due(kStart + 14s));
  EXPECT_EQ(stopping.due(kStart + 15s), Step{.signal = io::kKillSignal});
  EXPECT_EQ(stopping.due(kStart + 20s), (Step{.give_up = true}));
  EXPECT_FALSE(stopping.due(kStart + 1h));
}

TEST(Stopping, GoesOnAtOnceWhenAskedAgain) {
  Stopping stopping;
  stopping.ask(io::kInterruptSignal, kStart);
  EXPECT_EQ(stopping.ask(io::kInterruptSignal, kStart + 1s), Step{.signal = io::kTerminateSignal});
  EXPECT_EQ(stopping.ask(io::kInterruptSignal, kStart + 2s), Step{.signal = io::kKillSignal});
  EXPECT_EQ(stopping.ask(io::kInterruptSignal, kStart + 3s), (Step{.give_up = true}));
  EXPECT_EQ(stopping.ask(io::kInterruptSignal, kStart + 4s), (Step{.give_up = true}));
}

TEST(Stopping, BeginsWithTheSignalThatCame) {
  for (const int signal : {io::kTerminateSignal, kHangUp}) {
    Stopping stopping;
    EXPECT_EQ(stopping.ask(signal, kStart), Step{.signal = io::kTerminateSignal});
    EXPECT_EQ(stopping.due(kStart + 5s), Step{.signal = io::kKillSignal});
  }
}

TEST(Stopping, LeavesTimeToSaveWhereThereIsSome) {
  Stopping stopping;
  EXPECT_EQ(stopping.ask(io::kTerminateSignal, kStart, saving_time(farewell_of(1h))),
            Step{.signal = io::kTerminateSignal});
  EXPECT_FALSE(stopping.due(kStart + 29s));
  EXPECT_EQ(stopping.due(kStart + 30s), Step{.signal = io::kKillSignal});
  EXPECT_EQ(stopping.due(kStart + 35s), (Step{.give_up = true}));
}

TEST(Farewell, LeavesTimeToBringResultsBack) {
  EXPECT_EQ(farewell_of(3600s), 60s);
  EXPECT_EQ(farewell_of(100s), 50s);
  EXPECT_EQ(farewell_of(120s), 60s);
  EXPECT_EQ(farewell_before_drain(100, kStart), kStart + 80s);
  EXPECT_EQ(farewell_before_drain(5, kStart), kStart) << "late is better than never";
}

TEST(Farewell, ComesSoonerByTheTimeAsleepWhereMachinesAreRented) {
  for (const char* provider : {"aws", "slurm", "local", "container"}) {
    const Time ask_at = pool_clock(provider, kStart, kStart + 9h) + 2h - farewell_of(2h);
    const bool is_time = pool_clock(provider, kStart + 1h, kStart + 9h + 2h) >= ask_at;
    EXPECT_EQ(is_time, provider_rents(provider)) << provider << ", after an hour asleep";
    EXPECT_GE(pool_clock(provider, kStart + 2h, kStart + 9h + 2h), ask_at) << provider;
    EXPECT_LT(pool_clock(provider, kStart + 1h, kStart + 9h + 1h), ask_at) << provider;
  }
  EXPECT_TRUE(provider_rents("aws") && !provider_rents("local"));
}

TEST(Wording, NamesOptionsInsteadOfParameters) {
  EXPECT_EQ(in_options("allow more time: ComputePool(timeout=seconds)"),
            "allow more time: --timeout SECONDS");
  EXPECT_EQ(in_options("budget=$1 is not enough\n  hint: budget=$2 would be"),
            "--budget $1 is not enough\n  hint: --budget $2 would be");
  EXPECT_EQ(in_options("nodes=0: give machine= of a type (spot=never), timeout="),
            "--nodes 0: give --machine of a type (--spot never), --timeout");
  EXPECT_EQ(
      in_options("ask for fewer, or use a provider that rents such machines"),
      "ask for fewer, or name a provider that rents such machines, for example --provider aws");
  const std::string other = "no machine; 'x --nodes=1' at https://host?region=eu, my_memory=2";
  EXPECT_EQ(in_options(other), other);
}

TEST(PrefixedLines, AreWholeAndKeepTheirEnds) {
  PrefixedLines lines("node 1: ");
  EXPECT_EQ(lines.add("a"), "");
  EXPECT_EQ(lines.add("b\nc\r10%\r"), "node 1: ab\nnode 1: c\rnode 1: 10%\r");
  EXPECT_EQ(lines.add("\n"), "\n");  // "\r\n" ends one line
  EXPECT_EQ(lines.add("last"), "");
  EXPECT_EQ(lines.finish(), "node 1: last\n");
  EXPECT_EQ(lines.finish(), "");
}

TEST(PrefixedLines, MayEndWithTwoBytesThatComeApart) {
  PrefixedLines lines("n: ");
  EXPECT_EQ(lines.add("a\r\nb\r\n"), "n: a\r\nn: b\r\n");
  EXPECT_EQ(lines.add("c\r"), "n: c\r");
  EXPECT_EQ(lines.add("\n\nd\r"), "\nn: \nn: d\r");
  EXPECT_EQ(lines.add("e\n"), "n: e\n");
}

TEST(PrefixedLines, DoNotGrowWithoutALimit) {
  PrefixedLines lines("> ");
  std::size_t shown = 0;
  for (int i = 0; i < 100; ++i) shown += lines.add(std::string(10'000, 'x')).size();
  EXPECT_GT(shown, 900'000u);
}

TEST(Variables, HaveAValueOrTakeTheOneHere) {
  const auto here = [](const char* name) {
    return std::string(name) == "TOKEN" ? std::optional<std::string>("secret") : std::nullopt;
  };
  const auto values = parse_variables({"A=1", "B=x=y", "TOKEN", "C="}, here);
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, (std::map<std::string, std::string>{
                         {"A", "1"}, {"B", "x=y"}, {"C", ""}, {"TOKEN", "secret"}}));
  EXPECT_EQ(parse_variables({"MISSING"}, here).error().kind, ErrorKind::invalid);
  EXPECT_EQ(parse_variables({"=x"}, here).error().kind, ErrorKind::invalid);
}

TEST(PathBelow, IsRelativeToTheRoot) {
  EXPECT_EQ(path_below("/a", "/a/b/c.py"), "b/c.py");
  EXPECT_EQ(path_below("/", "/c.py"), "c.py");
  EXPECT_FALSE(path_below("/a", "/ab/c.py"));
  EXPECT_FALSE(path_below("/a/b", "/a/c.py"));
  EXPECT_FALSE(path_below("/a", "/a"));
  EXPECT_FALSE(path_below("/a", "/a/"));
}

}  // namespace
}  // namespace skyward::cli
