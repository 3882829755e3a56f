#include "skyward/agent/output.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "skyward/base/text.h"
#include "skyward/spec/limits.h"

namespace skyward::agent {
namespace {

using wire::OutputLine;
using wire::OutputStream;

constexpr OutputMark kMark{'\xFF', 'm', 'm', '\xFF', 'm', 'a', 'r', 'k'};
using Lines = std::vector<std::pair<std::uint64_t, std::string>>;  // task and text

std::string mark(std::uint64_t task) {
  std::string text(kMark.data(), kMark.size());
  text.append(reinterpret_cast<const char*>(&task), sizeof task);
  return text;
}

struct Bench {
  OutputSplitter splitter{OutputStream::out, 3, kMark};
  OutputSplitter::Stamp stamp{.now = Time{} + 100s, .wall_us = 7};
  std::vector<OutputLine> lines;

  void feed(std::string_view text) { splitter.feed(as_bytes(text), stamp, lines); }
  void tick() { splitter.tick(stamp, lines); }
  void end(std::uint64_t task) { splitter.end(TaskId{task}, stamp, lines); }
  Lines take() {
    Lines taken;
    for (const OutputLine& line : lines) {
      EXPECT_EQ(line.worker, 3U);
      EXPECT_EQ(line.stream, OutputStream::out);
      EXPECT_EQ(line.wall_us, 7);
      taken.emplace_back(line.task.value, line.text);
    }
    lines.clear();
    return taken;
  }
};

// The lines of `text`, written by task 1, in one piece and cut in two at every place and byte by
// byte.
void expect_lines(const std::string& text, const Lines& expected) {
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    Bench bench;
    bench.splitter.begin(TaskId{1});
    bench.feed(std::string_view(text).substr(0, cut));
    bench.feed(std::string_view(text).substr(cut));
    bench.splitter.finish(bench.stamp, bench.lines);
    ASSERT_EQ(bench.take(), expected) << "cut at " << cut;
  }
  Bench bench;
  bench.splitter.begin(TaskId{1});
  for (const char c : text) bench.feed(std::string_view(&c, 1));
  bench.splitter.finish(bench.stamp, bench.lines);
  ASSERT_EQ(bench.take(), expected) << "byte by byte";
}

TEST(OutputSplitter, SplitsAtNewlines) {
  expect_lines("one\ntwo\n", {{1, "one"}, {1, "two"}});
  expect_lines("\n\nx\n", {{1, ""}, {1, ""}, {1, "x"}});
  expect_lines("dos\r\nunix\n\r\n", {{1, "dos"}, {1, "unix"}, {1, ""}});
}

TEST(OutputSplitter, TellsAnUnterminatedLineAtTheEnd) {
  expect_lines("first\nno newline", {{1, "first"}, {1, "no newline"}});
  expect_lines("", {});
}

TEST(OutputSplitter, ShowsOnlyTheLastStateOfAFastProgressBar) {
  expect_lines("10%\r50%\r100%\r\ndone\n", {{1, "100%"}, {1, "done"}});
  expect_lines("\r10%\r50%\r100%\n", {{1, "100%"}});
  expect_lines("\r10%\r50%\r100%", {{1, "100%"}});
  expect_lines("10%\r50%\r", {{1, "50%"}});
  expect_lines("10%\r\r\r50%\r\r\n", {{1, "50%"}});
}

// What tqdm writes for a bar below another one.
TEST(OutputSplitter, ABarBelowAnotherIsOneToo) {
  expect_lines("\r0/2\n\r10%\x1b[A\n\r50%\x1b[A\n\r90%\x1b[A\r1/2\n\r20%\x1b[A\n\r80%\x1b[A\r2/2\n",
               {{1, "0/2"}, {1, "1/2"}, {1, "2/2"}});
  expect_lines("\n\n\r1%\x1b[A\x1b[A\n\n\r2%\x1b[2A", {{1, ""}, {1, ""}, {1, "2%"}});
  expect_lines("A\n3A\n[A\n", {{1, "A"}, {1, "3A"}, {1, "[A"}});
}

TEST(OutputSplitter, TellsASlowProgressBarAtIntervals) {
  Bench bench;
  for (int percent = 0; percent <= 100; ++percent) {
    bench.feed("\r" + std::to_string(percent) + "%");
    bench.stamp.now += kProgressInterval / 10;
  }
  const Lines lines = bench.take();
  ASSERT_GE(lines.size(), 9U);
  ASSERT_LE(lines.size(), 10U);
  EXPECT_EQ(lines.front(), (std::pair<std::uint64_t, std::string>(0, "10%")));
  bench.feed("\nnext\n");
  EXPECT_EQ(bench.take(), (Lines{{0, "100%"}, {0, "next"}}));
}

TEST(OutputSplitter, TellsABarThatDoesNotMove) {
  Bench bench;
  const auto wait = [&bench] {
    EXPECT_EQ(bench.splitter.due(), bench.stamp.now + kProgressInterval);
    bench.tick();
    EXPECT_EQ(bench.take(), Lines{}) << "not yet";
    bench.stamp.now = bench.splitter.due();
    bench.tick();
    EXPECT_EQ(bench.splitter.due(), kNever);
    bench.tick();
  };
  bench.feed("no bar");
  EXPECT_EQ(bench.splitter.due(), kNever);
  bench.feed("\n");
  EXPECT_EQ(bench.take(), (Lines{{0, "no bar"}}));
  bench.feed("\r0%");
  wait();
  EXPECT_EQ(bench.take(), (Lines{{0, "0%"}}));
  bench.feed("\r1%\r2%");
  wait();
  EXPECT_EQ(bench.take(), (Lines{{0, "2%"}}));
  bench.feed("\r3%\r\r");
  wait();
  EXPECT_EQ(bench.take(), (Lines{{0, "3%"}}));
  bench.feed("\r100%");
  wait();
  EXPECT_EQ(bench.take(), (Lines{{0, "100%"}}));
  bench.feed("\nnext\n");
  EXPECT_EQ(bench.take(), (Lines{{0, "next"}})) << "the bar was told";
  bench.feed("printed\r");
  wait();
  EXPECT_EQ(bench.take(), (Lines{{0, "printed"}}));
  bench.feed("\r\n");
  EXPECT_EQ(bench.take(), Lines{});
  bench.feed("\r10%\x1b[A");  // stands below another one
  wait();
  EXPECT_EQ(bench.take(), (Lines{{0, "10%"}}));
  bench.feed("\n\r20%\x1b[A");
  bench.splitter.finish(bench.stamp, bench.lines);
  EXPECT_EQ(bench.take(), (Lines{{0, "20%"}}));
}

TEST(OutputSplitter, DoesNotRepeatABarThatWasTold) {
  Bench bench;
  bench.feed("1\r2");
  bench.stamp.now += kProgressInterval;
  bench.feed("\r\n");  // "2" is ended by CRLF: it is the line, not a state
  EXPECT_EQ(bench.take(), (Lines{{0, "2"}}));
  bench.feed("a\rb\r");
  bench.stamp.now += kProgressInterval;
  bench.feed("c\r\r");
  bench.stamp.now += kProgressInterval;
  bench.feed("\r\n");
  EXPECT_EQ(bench.take(), (Lines{{0, "b"}, {0, "c"}}));
  bench.feed("a\rb\r");
  bench.stamp.now += kProgressInterval;
  bench.feed("\r");
  EXPECT_EQ(bench.take(), (Lines{{0, "b"}}));
  bench.feed("\n");
  EXPECT_EQ(bench.take(), Lines{});
}

TEST(OutputSplitter, GivesOutputToTheTaskOfTheMark) {
  expect_lines("a\nhalf" + mark(2) + "b\n" + mark(3) + mark(4) + "c",
               {{1, "a"}, {1, "half"}, {2, "b"}, {4, "c"}});
  expect_lines("50%\r60%\r" + mark(2) + "\nb\n", {{1, "60%"}, {2, ""}, {2, "b"}});
}

TEST(OutputSplitter, FindsAMarkAfterItsOwnBeginning) {
  // The mark begins with \xFFmm\xFF: after a false start the true mark must still be found.
  expect_lines("x\xFFmm" + mark(2) + "y\n", {{1, "x\xEF\xBF\xBDmm"}, {2, "y"}});
  expect_lines("\xFFmm\xFFmar", {{1, "\xEF\xBF\xBDmm\xEF\xBF\xBDmar"}});
  expect_lines(mark(2).substr(0, 15), {{1, to_utf8(mark(2).substr(0, 15))}});
}

TEST(OutputSplitter, TakesAnyTaskIdForAMark) {
  const std::uint64_t tricky = 0x0A0D0A0DFF6D6DFFULL;  // newlines and mark bytes
  expect_lines("a" + mark(tricky) + "b", {{1, "a"}, {tricky, "b"}});
}

TEST(OutputSplitter, EndsATaskOnlyIfItIsTheCurrentOne) {
  Bench bench;
  bench.splitter.begin(TaskId{1});
  bench.feed("one" + mark(2) + "two");
  bench.end(1);  // the mark was quicker
  EXPECT_EQ(bench.take(), (Lines{{1, "one"}}));
  bench.feed("!\n");
  bench.end(2);
  EXPECT_EQ(bench.take(), (Lines{{2, "two!"}}));
  bench.feed("late\n");
  EXPECT_EQ(bench.take(), (Lines{{0, "late"}}));
}

TEST(OutputSplitter, CutsLongLines) {
  Bench bench;
  bench.feed(std::string(kMaxLineBytes, 'x'));
  EXPECT_TRUE(bench.lines.empty());
  bench.feed("yz\n");
  EXPECT_EQ(bench.take(), (Lines{{0, std::string(kMaxLineBytes, 'x')}, {0, "yz"}}));
  // "é" lies across the limit and stays whole.
  bench.feed(std::string(kMaxLineBytes - 1, 'x') + "\xC3\xA9!\n");
  EXPECT_EQ(bench.take(), (Lines{{0, std::string(kMaxLineBytes - 1, 'x')}, {0, "\xC3\xA9!"}}));
}

TEST(OutputSplitter, CutsWhatIsLongOnlyAsUtf8) {
  Bench bench;
  bench.feed(std::string(3 * kMaxLineBytes, '\x80') + "\n");
  std::string whole;
  for (const auto& [task, text] : bench.take()) {
    EXPECT_LE(text.size(), kMaxLineBytes);
    EXPECT_EQ(text.size() % 3, 0U) << "each U+FFFD is whole";
    whole += text;
  }
  EXPECT_EQ(whole.size(), 9 * kMaxLineBytes);
}

TEST(OutputSplitter, KeepsUtf8Whole) {
  expect_lines("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x9A\x80\n",
               {{1, "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x9A\x80"}});
}

}  // namespace
}  // namespace skyward::agent
