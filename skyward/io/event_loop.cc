#include "skyward/io/event_loop.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "skyward/base/check.h"
#include "skyward/base/relax.h"
#include "skyward/io/file_descriptor.h"
#include "skyward/io/sigpipe_guard.h"
#include "skyward/io/start_thread.h"

namespace skyward::io {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::size_t kMaxBlockingThreads = 8;
// The end of a turn runs what was posted in it, then what that posted, and so on, up to so many
// times: a task goes to a link, which gives a frame to a channel, which writes it. After that,
// descriptors and timers get their turn.
constexpr int kRounds = 4;

// One descriptor under watch. Handlers that Asio still holds keep it alive and look at `watched`
// first.
struct Watch {
  Watch(asio::io_context& asio_loop, Callback readable, Callback writable)
      : read_side(asio_loop),
        write_side(asio_loop),
        on_readable(std::move(readable)),
        on_writable(std::move(writable)) {}

  asio::posix::stream_descriptor read_side;
  // A duplicate that exists while writing is waited for. Asio never takes back its interest in
  // writability, so waiting on the descriptor itself would wake the loop ever after, each time the
  // peer reads.
  asio::posix::stream_descriptor write_side;
  Callback on_readable;
  Callback on_writable;
  bool watched = true;
  bool wants_write = false;
};

// The few threads for work that blocks; started when needed, one by one.
class BlockingThreads {
 public:
  ~BlockingThreads() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      jobs_.clear();
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run(Callback job) {
    {
      const std::lock_guard lock(mutex_);
      if (idle_ <= jobs_.size() && threads_.size() < kMaxBlockingThreads) start_one();
      if (!threads_.empty()) jobs_.push_back(std::exchange(job, {}));
    }
    wake_.notify_one();
    if (job) job();  // the system has no threads for us: late is better than never
  }

 private:
  void start_one() {
    try {
      threads_.push_back(start_thread([this] { work(); }));
    } catch (const std::system_error&) {  // those that are there do the work
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      --idle_;
      if (stopping_) return;
      Callback job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      job = {};
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Callback> jobs_;
  std::vector<std::thread> threads_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace

struct EventLoop::Impl {
  explicit Impl(EventLoop* owner) : loop(owner), bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    SKYWARD_CHECK(bell.get() >= 0, "eventfd: {}", std::strerror(errno));
    bell_side.assign(bell.get());
    await_bell();
  }
  ~Impl() { bell_side.release(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  EventLoop* loop;
  asio::io_context asio_loop{1};
  asio::steady_timer alarm{asio_loop};
  std::atomic<bool> stopped = false;

  // Posting: one wake-up of the loop for all that arrives before it has looked. Another thread
  // rings the bell after it has let go of the mutex, so that the loop does not wake only to wait
  // for it. (Asio's own post() wakes the loop with its lock held: two more switches of threads.)
  std::mutex inbox_mutex;
  std::vector<Callback> inbox;
  std::atomic<bool> asked = false;  // run_inbox() is going to run, or running
  bool lingers = false;             // the loop spins until it is asked
  Time linger_until{};              // of this turn
  FileDescriptor bell;
  asio::posix::stream_descriptor bell_side{asio_loop};
  std::atomic<std::thread::id> thread{};  // that is in a turn of the loop

  // Timers in order of their moment, then of their start. `alarm` rings at `alarm_at`, which may be
  // too early (the timer it was for may be cancelled), never too late.
  std::map<std::pair<Time, TimerId>, Callback> timers;
  std::unordered_map<TimerId, Time> timer_deadlines;
  TimerId last_timer = 0;
  Time alarm_at = kNever;

  // Shared with the handlers that Asio holds.
  std::unordered_map<int, std::shared_ptr<Watch>> watches;
  std::map<int, std::unique_ptr<asio::signal_set>> signals;
  std::map<int, Callback> signal_callbacks;
  std::unique_ptr<BlockingThreads> blocking = std::make_unique<BlockingThreads>();

  // Everything the loop does happens in a turn: something has happened, and then what was posted
  // meanwhile (the writes at the end of a turn) without asking the kernel between.
  template <typename Step>
  void turn(Step step) {
    thread.store(std::this_thread::get_id(), std::memory_order_relaxed);
    step();
    run_inbox();
    linger();
    thread.store({}, std::memory_order_relaxed);
  }

  void await_bell() {
    bell_side.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (error) return;
      eventfd_t rings = 0;
      static_cast<void>(eventfd_read(bell.get(), &rings));
      turn([] {});
      await_bell();
    });
  }

  void ring() const { static_cast<void>(eventfd_write(bell.get(), 1)); }

  void run_inbox() {
    std::vector<Callback> batch;
    for (int round = 0; round < kRounds; ++round) {
      {
        const std::lock_guard lock(inbox_mutex);
        asked = !inbox.empty();
        if (!asked) return;
        batch.swap(inbox);
      }
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (stopped) {
          put_back(batch, i);
          return;
        }
        batch[i]();
        batch[i] = {};
      }
      batch.clear();
    }
    {
      const std::lock_guard lock(inbox_mutex);
      asked = !inbox.empty();
      if (!asked) return;
    }
    ask_for_inbox();
  }

  // A post that comes while the loop spins finds it awake, and need not ring.
  void linger() {
    const Time until = std::exchange(linger_until, Time{});
    if (until == Time{}) return;
    {
      const std::lock_guard lock(inbox_mutex);
      lingers = !asked;
    }
    while (!asked.load(std::memory_order_relaxed) && now() < until) relax();
    {
      const std::lock_guard lock(inbox_mutex);
      if (!std::exchange(lingers, false) || !asked) return;
    }
    run_inbox();
  }

  void put_back(std::vector<Callback>& batch, std::size_t from) {
    const std::lock_guard lock(inbox_mutex);
    inbox.insert(inbox.begin(),
                 std::make_move_iterator(batch.begin() + static_cast<std::ptrdiff_t>(from)),
                 std::make_move_iterator(batch.end()));
  }

  void ask_for_inbox() {
    asio::post(asio_loop, [this] { turn([] {}); });
  }

  void set_alarm() {
    if (timers.empty()) return;
    const Time first = timers.begin()->first.first;
    if (first >= alarm_at || first == kNever) return;
    alarm_at = first;
    alarm.expires_at(std::chrono::steady_clock::time_point(first.time_since_epoch()));
    alarm.async_wait([this](error_code error) {
      if (error == asio::error::operation_aborted) return;
      alarm_at = kNever;
      turn([this] { run_timers(); });
      set_alarm();
    });
  }

  void run_timers() {
    const Time present = now();
    // Those that are due now; what they start, even for the past, waits for the next turn.
    std::vector<std::pair<Time, TimerId>> due;
    for (auto timer = timers.begin(); timer != timers.end() && timer->first.first <= present;
         ++timer) {
      due.push_back(timer->first);
    }
    for (const auto& key : due) {
      if (stopped) return;
      const auto timer = timers.find(key);
      if (timer == timers.end()) continue;  // cancelled by one before it
      const Callback callback = std::move(timer->second);
      timers.erase(timer);
      timer_deadlines.erase(key.second);
      callback();
    }
  }

  void await_readable(const std::shared_ptr<Watch>& watch) {
    watch->read_side.async_wait(asio::posix::stream_descriptor::wait_read,
                                [this, watch](error_code error) {
                                  if (!watch->watched || error == asio::error::operation_aborted) {
                                    return;
                                  }
                                  // Any other error: a file that never blocks. Reading it tells.
                                  turn([&] { watch->on_readable(); });
                                  if (watch->watched) await_readable(watch);
                                });
  }

  void await_writable(int descriptor, const std::shared_ptr<Watch>& watch) {
    error_code error;
    if (!watch->write_side.is_open()) {
      FileDescriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
      if (copy) (void)watch->write_side.assign(copy.get(), error);
      if (!copy || error) {
        // No descriptor is free. The owner finds out by trying.
        loop->start_timer(now() + std::chrono::milliseconds(1),
                          [this, descriptor, watch] { writable(descriptor, watch); });
        return;
      }
      copy.release();
    }
    watch->write_side.async_wait(asio::posix::stream_descriptor::wait_write,
                                 [this, descriptor, watch](error_code failure) {
                                   if (failure != asio::error::operation_aborted)
                                     writable(descriptor, watch);
                                 });
  }

  void writable(int descriptor, const std::shared_ptr<Watch>& watch) {
    if (!watch->watched || !watch->wants_write) return;
    turn([&] { watch->on_writable(); });
    if (watch->watched && watch->wants_write) await_writable(descriptor, watch);
  }

  void await_signal(int signal) {
    signals.at(signal)->async_wait([this, signal](error_code error, int) {
      if (error) return;
      await_signal(signal);
      const Callback callback = signal_callbacks.at(signal);
      turn([&] { callback(); });
    });
  }
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>(this)) {}

EventLoop::~EventLoop() {
  impl_->blocking.reset();
  // Callbacks may own things whose destructors speak to this loop, so they go while it still
  // answers.
  while (true) {
    std::vector<Callback> posted;
    {
      const std::lock_guard lock(impl_->inbox_mutex);
      posted.swap(impl_->inbox);
    }
    const auto timers = std::exchange(impl_->timers, {});
    const auto signals = std::exchange(impl_->signal_callbacks, {});
    if (posted.empty() && timers.empty() && signals.empty()) break;
  }
  while (!impl_->watches.empty()) unwatch(impl_->watches.begin()->first);
}

void EventLoop::run() {
  const SigpipeGuard guard;
  const auto work = asio::make_work_guard(impl_->asio_loop);
  if (!impl_->stopped) impl_->asio_loop.run();
}

void EventLoop::stop() {
  impl_->stopped = true;
  impl_->asio_loop.stop();
}

Time EventLoop::now() { return Time(std::chrono::steady_clock::now().time_since_epoch()); }

std::int64_t EventLoop::wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void EventLoop::post(Callback callback) {
  {
    const std::lock_guard lock(impl_->inbox_mutex);
    impl_->inbox.push_back(std::move(callback));
    if (impl_->asked.exchange(true) || impl_->lingers) return;
  }
  // In a turn of the loop's own, the end of the turn looks into the inbox.
  if (impl_->thread.load(std::memory_order_relaxed) != std::this_thread::get_id()) impl_->ring();
}

void EventLoop::linger(Duration limit) { impl_->linger_until = now() + limit; }

EventLoop::TimerId EventLoop::start_timer(Time deadline, Callback callback) {
  const TimerId timer = ++impl_->last_timer;
  impl_->timer_deadlines.emplace(timer, deadline);
  impl_->timers.emplace(std::pair(deadline, timer), std::move(callback));
  impl_->set_alarm();
  return timer;
}

void EventLoop::cancel_timer(TimerId timer) {
  const auto found = impl_->timer_deadlines.find(timer);
  if (found == impl_->timer_deadlines.end()) return;
  // The callback is destroyed last: what it owns may speak to this loop.
  const auto cancelled = impl_->timers.extract(std::pair(found->second, timer));
  impl_->timer_deadlines.erase(found);
}

void EventLoop::watch(int descriptor, Callback on_readable, Callback on_writable) {
  auto watch =
      std::make_shared<Watch>(impl_->asio_loop, std::move(on_readable), std::move(on_writable));
  const bool added = impl_->watches.emplace(descriptor, watch).second;
  SKYWARD_CHECK(added, "descriptor {} is watched already", descriptor);
  if (!watch->on_readable) return;
  error_code error;
  (void)watch->read_side.assign(descriptor, error);
  SKYWARD_CHECK(!error, "cannot watch descriptor {}: {}", descriptor, error.message());
  impl_->await_readable(watch);
}

void EventLoop::want_write(int descriptor, bool wanted) {
  const auto found = impl_->watches.find(descriptor);
  SKYWARD_CHECK(found != impl_->watches.end(), "descriptor {} is not watched", descriptor);
  const std::shared_ptr<Watch>& watch = found->second;
  SKYWARD_CHECK(watch->on_writable, "descriptor {} has no callback for writing", descriptor);
  if (watch->wants_write == wanted) return;
  watch->wants_write = wanted;
  if (wanted) {
    impl_->await_writable(descriptor, watch);
  } else {
    error_code error;
    (void)watch->write_side.close(error);
  }
}

void EventLoop::unwatch(int descriptor) {
  const auto found = impl_->watches.find(descriptor);
  if (found == impl_->watches.end()) return;
  const std::shared_ptr<Watch> watch = std::move(found->second);
  impl_->watches.erase(found);
  watch->watched = false;
  error_code error;
  (void)watch->write_side.close(error);
  if (watch->read_side.is_open()) watch->read_side.release();
}

void EventLoop::run_blocking(Callback work, Callback done) {
  impl_->blocking->run([this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    work = {};
    post(std::move(done));
  });
}

void EventLoop::watch_signal(int signal, Callback callback) {
  const bool added = impl_->signal_callbacks.emplace(signal, std::move(callback)).second;
  SKYWARD_CHECK(added, "signal {} is watched already", signal);
  impl_->signals.emplace(signal, std::make_unique<asio::signal_set>(impl_->asio_loop, signal));
  impl_->await_signal(signal);
}

}  // namespace skyward::io
