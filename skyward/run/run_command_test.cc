#include "skyward/run/run_command.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "skyward/call/error.h"
#include "skyward/call/map_blob.h"
#include "skyward/io/ending_signals.h"
#include "skyward/io/event_loop.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"

namespace skyward::run {
namespace {

namespace fs = std::filesystem;

// The functions work where their process is.
class RunCommand : public testing::Test {
 protected:
  RunCommand() : before_(fs::current_path()), here_(testing::TempDir() + "skyward-" + id()) {
    fs::create_directory(here_);
    fs::current_path(here_);
  }
  ~RunCommand() override {
    fs::current_path(before_);
    EXPECT_TRUE(io::remove_tree(here_));
  }

  static std::string id() { return io::random_hex(16); }
  static RunOrder shell(const std::string& line) {
    RunOrder order;
    order.id = id();
    order.command = {"sh", "-c", line};
    return order;
  }

  void run(const RunOrder& order, std::string_view content = {}) {
    Sink<Piece> sink([this](const Piece& piece) {
      pieces_.push_back(piece);
      if (on_piece_) on_piece_(piece);
    });
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(content.data());
    run_command(sink, order, {bytes, content.size()});
  }
  std::string all(PieceKind kind) const {
    std::string text;
    for (const Piece& piece : pieces_) {
      if (piece.kind == kind) text += piece.bytes;
    }
    return text;
  }
  Piece end() const {
    for (const Piece& piece : pieces_) {
      if (piece.kind == PieceKind::ended) return piece;
    }
    ADD_FAILURE() << "the command has not ended";
    return {};
  }
  void expect_nothing_left() const { EXPECT_TRUE(io::list_directory(here_).empty()); }

  const fs::path before_;
  const std::string here_;
  std::vector<Piece> pieces_;
  std::function<void(const Piece&)> on_piece_;
};

TEST_F(RunCommand, PassesOnOutputAndExitCode) {
  run(shell("echo out; echo err >&2; exit 3"));
  EXPECT_EQ(pieces_.front().kind, PieceKind::begun);
  EXPECT_EQ(all(PieceKind::out), "out\n");
  EXPECT_EQ(all(PieceKind::err), "err\n");
  EXPECT_EQ(end().code, 3);
  EXPECT_EQ(end().signal, 0);
  expect_nothing_left();
}

TEST_F(RunCommand, HasTheFilesOfTheOrder) {
  RunOrder order = shell("cat a/b; ./a/program; readlink l; printenv NAME; pwd");
  order.environment = {{"NAME", "value"}};
  order.entries = {
      {.kind = io::EntryKind::file, .path = "a/b", .mode = 0644, .size = 4, .target = {}},
      {.kind = io::EntryKind::file, .path = "a/program", .mode = 0755, .size = 17, .target = {}},
      {.kind = io::EntryKind::link, .path = "l", .target = "a/b"}};
  run(order, "one\n#!/bin/sh\npwd >&2");
  const std::string files = here_ + "/run-" + order.id + "/files\n";
  EXPECT_EQ(all(PieceKind::out), "one\na/b\nvalue\n" + files);
  EXPECT_EQ(end().code, 0);
}

TEST_F(RunCommand, RefusesFilesThatAreCutOff) {
  RunOrder order = shell("true");
  order.entries = {
      {.kind = io::EntryKind::file, .path = "a", .mode = 0644, .size = 9, .target = {}}};
  EXPECT_THROW(run(order, "short"), SerializationError);
  expect_nothing_left();
}

TEST_F(RunCommand, SendsTheOutputDirectoryThoughTheCommandFails) {
  RunOrder order = shell(
      "mkdir results/in; echo 1 > results/in/a; : > results/empty; ln -s in/a results/l; "
      "ln -s /etc results/out; mkfifo results/pipe; echo no > other; exit 1");
  order.output = "results";
  run(order);
  EXPECT_EQ(end().code, 1);
  std::vector<std::string> paths;
  for (const Piece& piece : pieces_) {
    if (!piece.path.empty()) {
      paths.push_back(std::to_string(static_cast<int>(piece.kind)) + piece.path);
    }
  }
  const auto kind = [](PieceKind one) { return std::to_string(static_cast<int>(one)); };
  EXPECT_EQ(paths, (std::vector<std::string>{
                       kind(PieceKind::file) + "empty", kind(PieceKind::directory) + "in",
                       kind(PieceKind::file) + "in/a", kind(PieceKind::link) + "l",
                       kind(PieceKind::left_out) + "out", kind(PieceKind::left_out) + "pipe"}));
  EXPECT_EQ(all(PieceKind::data), "1\n");
}

TEST_F(RunCommand, SendsTheRestWhenADirectoryCannotBeRead) {
  // Its path is longer than the system takes.
  RunOrder order = shell(
      "echo 1 > results/model; cd -P results; name=$(printf %0250d 0); "
      "for i in $(seq 20); do mkdir $name && cd -P $name; done; exit 0");
  order.output = "results";
  run(order);
  EXPECT_EQ(end().code, 0);
  EXPECT_EQ(all(PieceKind::data), "1\n");
  EXPECT_NE(all(PieceKind::note).find("name too long"), std::string::npos);
  expect_nothing_left();
}

TEST_F(RunCommand, SaysThatTheOutputDirectoryIsGone) {
  RunOrder order = shell("rmdir results");
  order.output = "results";
  run(order);
  EXPECT_NE(all(PieceKind::note).find("removed the output directory"), std::string::npos);
}

TEST_F(RunCommand, LeavesArgumentsAlone) {
  RunOrder order;
  order.id = id();
  order.command = {"echo", kPython};
  run(order);
  EXPECT_EQ(all(PieceKind::out), "{python}\n");
}

TEST_F(RunCommand, SaysWhatCannotBeStarted) {
  RunOrder order;
  order.id = id();
  order.command = {"skyward-no-such-program"};
  run(order);
  EXPECT_EQ(end().code, kNotFound);
  EXPECT_NE(end().bytes.find("no such program"), std::string::npos);
  pieces_.clear();
  order.command = {"/etc/passwd"};
  run(order);
  EXPECT_EQ(end().code, kNotRunnable);
  expect_nothing_left();
}

TEST_F(RunCommand, EndsWhatItsCommandLeavesBehind) {
  const auto began = io::EventLoop::now();
  run(shell("sleep 600 & echo $!"));  // it holds the pipes
  EXPECT_LT(io::EventLoop::now() - began, std::chrono::seconds(30));
  EXPECT_FALSE(fs::exists("/proc/" + all(PieceKind::out).substr(0, all(PieceKind::out).find('\n')) +
                          "/fd/0"));
}

TEST_F(RunCommand, SignalsReachTheCommand) {
  const RunOrder order = shell("trap 'exit 7' INT; echo ready; while :; do sleep 0.01; done");
  on_piece_ = [&](const Piece& piece) {
    if (piece.kind != PieceKind::out) return;
    EXPECT_TRUE(signal_command(order.id, io::kInterruptSignal));
  };
  run(order);
  EXPECT_EQ(end().code, 7);
  EXPECT_FALSE(signal_command(order.id, io::kInterruptSignal));
  EXPECT_THROW(signal_command("../x", io::kInterruptSignal), std::exception);
}

TEST_F(RunCommand, TellsTheSignalThatKilledIt) {
  run(shell("kill -TERM $$"));
  EXPECT_EQ(end().signal, io::kTerminateSignal);
}

TEST_F(RunCommand, EndsTheCommandWhenNobodyTakesItsOutput) {
  struct Gone : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  on_piece_ = [](const Piece& piece) {
    if (piece.kind == PieceKind::out) throw Gone("no reader");
  };
  EXPECT_THROW(run(shell("echo 1; sleep 600")), Gone);
  expect_nothing_left();
}

TEST(Piece, MayBeAnything) {
  const Piece piece{.kind = PieceKind::data, .path = "a", .bytes = "text"};
  ArchiveWriter writer({});
  writer(piece);
  const wire::Payload payload = writer.finish();
  const Bytes good(payload.buffers[0].bytes.view.begin(), payload.buffers[0].bytes.view.end());
  int refused = 0;
  // Any byte may be anything: nothing but an exception comes of it.
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int value = 0; value < 256; ++value) {
      Bytes bytes = good;
      bytes[at] = static_cast<std::byte>(value);
      wire::Payload hostile;
      hostile.buffers = {wire::small_buffer(SharedBytes(std::move(bytes)))};
      try {
        ArchiveReader reader(hostile, &map_blob);
        Piece read;
        reader(read);
        EXPECT_LE(read.bytes.size() + read.path.size(), good.size());
      } catch (const SerializationError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace skyward::run
