#include "skyward/wire/session.h"

#include <fmt/format.h>

#include <utility>

#include "skyward/base/check.h"
#include "skyward/spec/limits.h"

namespace skyward::wire {

namespace {

std::uint64_t bytes_in(const Payload& payload) {
  std::uint64_t sum = 0;
  for (const Buffer& buffer : payload.buffers) sum += buffer.bytes.size();
  return sum;
}

std::uint64_t bytes_in(const Message& message) {
  if (const auto* output = std::get_if<Output>(&message)) {
    std::uint64_t sum = 0;
    for (const OutputLine& line : output->lines) sum += line.text.size();
    return sum;
  }
  if (const auto* run = std::get_if<RunTask>(&message)) {
    return run->body.bytes.size() + bytes_in(run->arguments);
  }
  if (const auto* result = std::get_if<TaskResult>(&message)) return bytes_in(result->payload);
  if (const auto* item = std::get_if<StreamItem>(&message)) return bytes_in(item->payload);
  if (const auto* runs = std::get_if<RunTasks>(&message)) return runs->bytes.size();
  if (const auto* results = std::get_if<TaskResults>(&message)) return results->bytes.size();
  if (const auto* chunk = std::get_if<BlobChunk>(&message)) return chunk->bytes.size();
  return 0;
}

}  // namespace

bool is_numbered(const Message& message) {
  return !std::holds_alternative<Hello>(message) && !std::holds_alternative<Welcome>(message) &&
         !std::holds_alternative<Farewell>(message) && !std::holds_alternative<Heartbeat>(message);
}

Envelope Session::number(Message message) {
  SKYWARD_CHECK(is_numbered(message), "kind {}", message.index());
  kept_bytes_ += bytes_in(message);
  kept_.push_back({next_, std::move(message)});
  told_ = received_;
  return {.sequence = next_++, .acknowledged = received_};
}

Envelope Session::control() {
  told_ = received_;
  return {.sequence = 0, .acknowledged = received_};
}

Session::Arrival Session::arrived(const Envelope& envelope) {
  // Words about messages that were never sent: this is the other end of another conversation.
  if (envelope.acknowledged >= next_) return Arrival::gap;
  forget(envelope.acknowledged);
  if (envelope.sequence == 0) return Arrival::deliver;
  if (envelope.sequence <= received_) return Arrival::duplicate;
  if (envelope.sequence != received_ + 1) return Arrival::gap;
  received_ = envelope.sequence;
  return Arrival::deliver;
}

Status Session::check_resume(std::uint64_t last_received) const {
  if (last_received <= last_sent() && last_received >= last_forgotten()) return {};
  return fail(ErrorKind::lost,
              fmt::format("the other end has messages up to {}, but only {} to {} can follow: the "
                          "session has changed",
                          last_received, last_forgotten(), last_sent()),
              "replace the node");
}

std::vector<Session::Kept> Session::resume(std::uint64_t last_received) {
  SKYWARD_CHECK(check_resume(last_received), "{}", last_received);
  forget(last_received);
  return {kept_.begin(), kept_.end()};
}

bool Session::should_acknowledge() const { return received_ - told_ > kAcknowledgeEvery; }

bool Session::is_full() const { return kept_.size() >= kMaxUnacknowledgedFrames; }

void Session::forget(std::uint64_t acknowledged) {
  while (!kept_.empty() && kept_.front().sequence <= acknowledged) {
    kept_bytes_ -= bytes_in(kept_.front().message);
    kept_.pop_front();
  }
}

}  // namespace skyward::wire
