#include "skyward/wire/conversation.h"

#include <utility>

namespace skyward::wire {

void Conversation::greet(const Message& greeting) {
  idle_ = false;
  write_(greeting, session_.control());
}

void Conversation::connect(std::uint64_t last_received) {
  connected_ = true;
  for (const Session::Kept& message : session_.resume(last_received)) {
    write(message.message,
          {.sequence = message.sequence, .acknowledged = session_.last_received()});
  }
}

void Conversation::on_idle() {
  idle_ = true;
  pump();
}

Status Conversation::send(Message& message) {
  if (descriptors_) {
    send_numbered(std::move(message));
    return {};
  }
  if (Status taken = outbox_.push(message); !taken) return taken;
  empty_outbox();
  return {};
}

void Conversation::send_control(const Message& message) {
  flush();
  write(message, session_.control());
}

void Conversation::beat() {
  if (connected_ && !spoke_) write(Heartbeat{}, session_.control());
  spoke_ = false;
}

void Conversation::acknowledge() {
  if (connected_ && session_.should_acknowledge()) write(Heartbeat{}, session_.control());
}

void Conversation::pump() {
  empty_outbox();
  flush();
}

void Conversation::empty_outbox() {
  if (descriptors_) return;
  while (auto message = outbox_.next_urgent()) send_numbered(*std::move(message));
  if (!connected_ || !idle_) return;
  if (auto message = outbox_.next_bulk()) send_numbered(*std::move(message));
}

void Conversation::send_numbered(Message message) {
  const auto added = [&] {
    if (const auto* run = std::get_if<RunTask>(&message)) return batch_.add(*run);
    if (const auto* result = std::get_if<TaskResult>(&message)) return batch_.add(*result);
    return false;
  };
  if (added()) return;
  flush();
  if (!added()) number_and_write(std::move(message));
}

void Conversation::flush() {
  if (batch_.empty()) return;
  std::visit([this](auto batch) { number_and_write(std::move(batch)); }, batch_.take());
}

void Conversation::number_and_write(Message message) {
  const Envelope envelope = session_.number(std::move(message));
  write(session_.newest(), envelope);
}

// Without a connection the session keeps it.
void Conversation::write(const Message& message, Envelope envelope) {
  if (!connected_) return;
  spoke_ = true;
  idle_ = false;
  write_(message, envelope);
}

}  // namespace skyward::wire
