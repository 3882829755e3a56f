#include "skyward/engine/loop_verbs.h"

#include <system_error>

#include "skyward/io/start_thread.h"

namespace skyward::engine {

Verbs::~Verbs() {
  if (thread_.joinable()) thread_.join();
}

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
  Step done = [this, answer = std::move(verb.answer)] {
    if (thread_.joinable()) thread_.join();
    running_ = false;
    answer();
    next();
    if (are_idle()) idle_();
  };
  try {
    thread_ = io::start_thread([this, call = verb.call, done]() mutable {
      call();
      call = {};
      loop_.post(std::move(done));
    });
  } catch (const std::system_error&) {  // the system has no thread left: late is better than never
    loop_.run_blocking(std::move(verb.call), std::move(done));
  }
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
