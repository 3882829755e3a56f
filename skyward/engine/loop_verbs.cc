#include "skyward/engine/loop_verbs.h"

namespace skyward::engine {

void Verbs::add(Step call, Step answer) {
  verbs_.push_back({std::move(call), std::move(answer)});
  next();
}

void Verbs::add_urgent(Step call, Step answer) {
  {
    const std::scoped_lock lock(mutex_);
    urgent_.push_back({std::move(call), std::move(answer)});
  }
  add([this] { run_urgent(); }, [] {});
}

void Verbs::next() {
  if (running_ || verbs_.empty()) return;
  running_ = true;
  Verb verb = std::move(verbs_.front());
  verbs_.pop_front();
  loop_.run_blocking(std::move(verb.call), [this, answer = std::move(verb.answer)] {
    running_ = false;
    answer();
    next();
    if (are_idle()) idle_();
  });
}

void Verbs::run_urgent() {
  for (;;) {
    Verb verb;
    {
      const std::scoped_lock lock(mutex_);
      if (urgent_.empty()) return;
      verb = std::move(urgent_.front());
      urgent_.pop_front();
    }
    verb.call();
    loop_.post(std::move(verb.answer));
  }
}

}  // namespace skyward::engine
