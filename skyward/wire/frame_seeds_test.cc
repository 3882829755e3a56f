// The seeds that frame_fuzz.cc starts from: every kind of message, as frame and as worker message,
// in testdata/corpus. After a change of the layout rewrite them:
//
//   wire_test --gtest_also_run_disabled_tests --gtest_filter='*WritesTheSeeds'

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "skyward/wire/codec.h"
#include "skyward/wire/test_messages.h"
#include "skyward/wire/worker_protocol.h"

namespace skyward::wire {
namespace {

const std::filesystem::path kCorpus = SKYWARD_WIRE_TESTDATA "/corpus";

template <typename Encoded>
std::string bytes_of(const Encoded& encoded) {
  std::string bytes(as_text(encoded.head));
  for (const SharedBytes& piece : encoded.body) bytes += as_text(piece.view);
  return bytes;
}

std::string worker_seed(const WorkerMessage& message) {
  return fmt::format("w{}", bytes_of(encode_worker_message(message)).substr(kWorkerPrefixBytes));
}

std::map<std::string, std::string> seeds() {
  std::map<std::string, std::string> result;
  int number = 10;  // two digits, so that names sort
  for (const Message& message : every_kind()) {
    const Outgoing frame = encode(message, {.sequence = 1, .acknowledged = 2});
    result[fmt::format("frame_{}", number++)] = fmt::format("f{}", bytes_of(frame));
  }
  WorkerMessage message;
  message.body = shared_text("body");
  message.payload = rich_payload();
  message.behind = true;
  message.retained = {BlobId{3}};
  message.text = "c++";
  for (const WorkerKind kind :
       {WorkerKind::run, WorkerKind::credit, WorkerKind::stop, WorkerKind::drop,
        WorkerKind::instance_info, WorkerKind::hello, WorkerKind::result, WorkerKind::item}) {
    message.kind = kind;
    result[fmt::format("worker_{}", static_cast<int>(kind) + 10)] = worker_seed(message);
  }
  return result;
}

TEST(FrameSeeds, AreCurrent) {
  std::size_t files = 0;
  for (const auto& [name, bytes] : seeds()) {
    std::ifstream file(kCorpus / name, std::ios::binary);
    ASSERT_TRUE(file) << name << " is missing; this file's first lines say how to write it";
    const std::string found((std::istreambuf_iterator<char>(file)), {});
    EXPECT_EQ(found, bytes) << name << " is of another layout";
    ++files;
  }
  // Inputs that once broke the decoder may lie there too.
  EXPECT_LE(files, static_cast<std::size_t>(
                       std::distance(std::filesystem::directory_iterator(kCorpus), {})));
}

TEST(FrameSeeds, DISABLED_WritesTheSeeds) {
  std::filesystem::create_directories(kCorpus);
  for (const auto& [name, bytes] : seeds()) {
    std::ofstream file(kCorpus / name, std::ios::binary);
    file << bytes;
    ASSERT_TRUE(file.flush()) << name;
  }
}

}  // namespace
}  // namespace skyward::wire
