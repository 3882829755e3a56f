#include "skyward/io/ending_signals.h"

#include <signal.h>

#include <thread>
#include <utility>

#include "skyward/io/event_loop.h"
#include "skyward/io/start_thread.h"

namespace skyward::io {

static_assert(kInterruptSignal == SIGINT && kTerminateSignal == SIGTERM && kKillSignal == SIGKILL);

void ignore_ending_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::signal(number, SIG_IGN);
}

struct EndingSignals::Impl {
  EventLoop loop;
  std::thread thread;
};

EndingSignals::EndingSignals(std::function<void(int)> tell) : impl_(std::make_unique<Impl>()) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now{};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    impl_->loop.watch_signal(number, [tell, number] { tell(number); });
  }
  impl_->thread = start_thread([this] { impl_->loop.run(); });
}

EndingSignals::~EndingSignals() {
  impl_->loop.stop();
  impl_->thread.join();
}

}  // namespace skyward::io
