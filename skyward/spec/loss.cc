#include "skyward/spec/loss.h"

#include <charconv>
#include <string>

#include "skyward/base/text.h"

namespace skyward {

Error with_loss(Error error, const Loss& loss) {
  error.facts = {{"preempted", loss.preempted ? "yes" : ""},
                 {"attempts", std::to_string(loss.attempts)}};
  return error;
}

Loss loss_of(const Error& error) {
  Loss loss{.preempted = !value_at(error.facts, "preempted").empty()};
  const std::string attempts = value_at(error.facts, "attempts");
  std::from_chars(attempts.data(), attempts.data() + attempts.size(), loss.attempts);
  return loss;
}

}  // namespace skyward
