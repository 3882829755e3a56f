#include "skyward/io/event_loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <span>
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

namespace {

constexpr std::size_t kMaxBlockingThreads = 8;
// The end of a turn runs what was posted in it, then what that posted, and so on, up to so many
// times: a task goes to a link, which gives a frame to a channel, which writes it. After that,
// descriptors and timers get their turn.
constexpr int kRounds = 4;
// Room for so many posts is kept for the next ones.
constexpr std::size_t kMostKept = 1024;

// So many descriptors get their turn before the kernel is asked for more.
constexpr int kMaxEvents = 128;
constexpr std::uint32_t kReadable = EPOLLIN;
constexpr std::uint32_t kWritable = EPOLLOUT;
constexpr std::uint32_t kEnded = EPOLLERR | EPOLLHUP;  // reported unasked

// One descriptor under watch.
struct Watch {
  Callback on_readable;
  Callback on_writable{};
  std::uint32_t events = 0;  // what the kernel was asked for
  bool wants_write = false;
  bool watched = true;  // the kernel may have reported it before that ended
};

// What a signal rings: an eventfd of the loop that watches it.
struct SignalBell {
  std::atomic<int> descriptor = -1;
};
std::array<SignalBell, _NSIG> signal_bells;

std::atomic<int>& bell_of(int signal) {
  return signal_bells[static_cast<std::size_t>(signal)].descriptor;
}

void ring_for_signal(int signal) {
  const int saved = errno;
  const int bell = bell_of(signal);
  if (bell >= 0) static_cast<void>(::eventfd_write(bell, 1));
  errno = saved;
}

struct SignalWatch {
  FileDescriptor bell;
  struct sigaction before{};  // what the signal did
};

// Throws std::system_error: the user's program may have no descriptor left.
FileDescriptor checked(int descriptor, const char* what) {
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), what);
  return FileDescriptor(descriptor);
}

FileDescriptor make_bell() { return checked(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"); }

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
  Impl() {
    // Each ring and each alarm is one edge, so that neither descriptor has to be read.
    on_edge(bell.get(), bell_watch);
    on_edge(alarm.get(), alarm_watch);
  }
  ~Impl() {
    for (const auto& [signal, watch] : signals) {
      ::sigaction(signal, &watch.before, nullptr);
      bell_of(signal) = -1;
    }
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  FileDescriptor epoll = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
  std::atomic<bool> stopped = false;

  // Posting: one wake-up of the loop for all that arrives before it has looked. Another thread
  // rings the bell after it has let go of the mutex, so that the loop does not wake only to wait
  // for it.
  std::mutex inbox_mutex;
  std::vector<Callback> inbox;
  std::vector<Callback> batch;      // of run_inbox(); keeps its room, as the inbox does
  std::atomic<bool> asked = false;  // run_inbox() is going to run, or running
  bool asks_itself = false;         // to run it once descriptors and timers had their turn
  bool lingers = false;             // the loop spins until it is called
  Time linger_until{};              // of this turn
  // Set by who posts while it lingers, after unlocking the mutex, which the loop locks at once.
  alignas(64) std::atomic<bool> called = false;
  FileDescriptor bell = make_bell();
  Watch bell_watch{.on_readable = [] {}};
  std::atomic<std::thread::id> thread{};  // that is in a turn of the loop

  // Timers in order of their moment, then of their start. `alarm` rings at `alarm_at`, which may be
  // too early (the timer it was for may be cancelled), never too late.
  std::map<std::pair<Time, TimerId>, Callback> timers;
  std::unordered_map<TimerId, Time> timer_deadlines;
  TimerId last_timer = 0;
  Time alarm_at = kNever;
  FileDescriptor alarm =
      checked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create");
  Watch alarm_watch{.on_readable = [this] { run_timers(); }};

  std::unordered_map<int, std::unique_ptr<Watch>> watches;
  std::vector<std::unique_ptr<Watch>> unwatched;  // since the kernel was asked last
  std::vector<int> never_block;
  std::map<int, SignalWatch> signals;
  std::unique_ptr<BlockingThreads> blocking = std::make_unique<BlockingThreads>();

  void run() {
    std::array<epoll_event, kMaxEvents> events;
    while (!stopped) {
      const bool goes_on = asks_itself || !never_block.empty();
      const int count = ::epoll_wait(epoll.get(), events.data(), kMaxEvents, goes_on ? 0 : -1);
      SKYWARD_CHECK(count >= 0 || errno == EINTR, "epoll_wait: {}", std::strerror(errno));
      const auto happenings = std::span(events).first(static_cast<std::size_t>(std::max(count, 0)));
      for (const epoll_event& event : happenings) {
        happened(*static_cast<Watch*>(event.data.ptr), event.events);
      }
      for (const int descriptor : std::vector(never_block)) {
        const auto found = watches.find(descriptor);  // one before it may have ended this one
        if (found != watches.end()) happened(*found->second, kReadable | kWritable);
      }
      if (std::exchange(asks_itself, false)) turn([] {});
      const auto gone = std::exchange(unwatched, {});  // their callbacks own things
    }
  }

  void happened(Watch& watch, std::uint32_t events) {
    if ((events & (kReadable | kEnded)) != 0 && watch.watched && watch.on_readable) {
      turn(watch.on_readable);
    }
    if ((events & (kWritable | kEnded)) != 0 && watch.watched && watch.wants_write) {
      turn(watch.on_writable);
    }
  }

  // Everything the loop does happens in a turn: something has happened, and then what was posted
  // meanwhile (the writes at the end of a turn) without asking the kernel between.
  template <typename Step>
  void turn(const Step& step) {
    if (stopped) return;
    thread.store(std::this_thread::get_id(), std::memory_order_relaxed);
    step();
    run_inbox();
    linger();
    thread.store({}, std::memory_order_relaxed);
  }

  void ring() const { static_cast<void>(::eventfd_write(bell.get(), 1)); }

  void run_inbox() {
    for (int round = 0; round < kRounds; ++round) {
      {
        const std::lock_guard lock(inbox_mutex);
        asked = !inbox.empty();
        if (!asked) return;
        batch.swap(inbox);
      }
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (stopped) {
          put_back(i);
          return;
        }
        batch[i]();
        batch[i] = {};
      }
      batch.clear();
      if (batch.capacity() > kMostKept) batch = std::vector<Callback>();
    }
    {
      const std::lock_guard lock(inbox_mutex);
      asked = !inbox.empty();
      asks_itself = asked;
    }
  }

  // A post that comes while the loop spins finds it awake, and need not ring.
  void linger() {
    const Time until = std::exchange(linger_until, Time{});
    if (until == Time{}) return;
    {
      const std::lock_guard lock(inbox_mutex);
      if (asked) return;
      lingers = true;
      called = false;
    }
    while (!called.load(std::memory_order_relaxed) && !stopped && now() < until) relax();
    {
      const std::lock_guard lock(inbox_mutex);
      if (!std::exchange(lingers, false) || !asked) return;
    }
    run_inbox();
  }

  void put_back(std::size_t from) {
    const std::lock_guard lock(inbox_mutex);
    inbox.insert(inbox.begin(),
                 std::make_move_iterator(batch.begin() + static_cast<std::ptrdiff_t>(from)),
                 std::make_move_iterator(batch.end()));
    batch.clear();
  }

  void set_alarm() {
    if (timers.empty()) return;
    const Time first = timers.begin()->first.first;
    if (first >= alarm_at || first == kNever) return;
    alarm_at = first;
    // Zero would be no alarm at all.
    const auto at = std::max(first.time_since_epoch(), Duration(1));
    const auto whole = std::chrono::floor<std::chrono::seconds>(at);
    itimerspec when{};
    when.it_value = {.tv_sec = whole.count(), .tv_nsec = (at - whole).count()};
    const int set = ::timerfd_settime(alarm.get(), TFD_TIMER_ABSTIME, &when, nullptr);
    SKYWARD_CHECK(set == 0, "timerfd_settime: {}", std::strerror(errno));
  }

  void run_timers() {
    alarm_at = kNever;
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
    set_alarm();
  }

  void on_edge(int descriptor, Watch& watch) {
    epoll_event event{.events = kReadable | EPOLLET, .data = {.ptr = &watch}};
    const int added = ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event);
    SKYWARD_CHECK(added == 0, "epoll_ctl: {}", std::strerror(errno));
  }

  // Tells the kernel what the owner wants to hear of.
  void update(int descriptor, Watch& watch) {
    const std::uint32_t wanted =
        (watch.on_readable ? kReadable : 0) | (watch.wants_write ? kWritable : 0);
    if (wanted == watch.events) return;
    int operation = EPOLL_CTL_MOD;
    if (watch.events == 0) operation = EPOLL_CTL_ADD;
    if (wanted == 0) operation = EPOLL_CTL_DEL;
    watch.events = wanted;
    std::erase(never_block, descriptor);
    epoll_event event{.events = wanted, .data = {.ptr = &watch}};
    if (::epoll_ctl(epoll.get(), operation, descriptor, &event) == 0) return;
    SKYWARD_CHECK(errno == EPERM, "cannot watch descriptor {}: {}", descriptor,
                  std::strerror(errno));
    if (wanted != 0) never_block.push_back(descriptor);
  }
};

EventLoop::EventLoop() : impl_(std::make_unique<Impl>()) {}

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
    const auto unwatched = std::exchange(impl_->unwatched, {});
    if (!posted.empty() || !timers.empty() || !unwatched.empty()) continue;
    if (impl_->watches.empty()) break;
    unwatch(impl_->watches.begin()->first);
  }
}

void EventLoop::run() {
  const SigpipeGuard guard;
  impl_->run();
}

void EventLoop::stop() {
  impl_->stopped = true;
  impl_->ring();
}

Time EventLoop::now() { return Time(std::chrono::steady_clock::now().time_since_epoch()); }

std::int64_t EventLoop::wall_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void EventLoop::post(Callback callback) {
  bool lingers = false;
  {
    const std::lock_guard lock(impl_->inbox_mutex);
    impl_->inbox.push_back(std::move(callback));
    if (impl_->asked.exchange(true)) return;
    lingers = impl_->lingers;
  }
  if (lingers) {
    // If that comes late, the loop has looked into the inbox by itself, or ends its next lingering
    // early.
    impl_->called.store(true, std::memory_order_relaxed);
    return;
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
  auto watch = std::make_unique<Watch>(
      Watch{.on_readable = std::move(on_readable), .on_writable = std::move(on_writable)});
  const auto [place, added] = impl_->watches.emplace(descriptor, std::move(watch));
  SKYWARD_CHECK(added, "descriptor {} is watched already", descriptor);
  impl_->update(descriptor, *place->second);
}

void EventLoop::want_write(int descriptor, bool wanted) {
  const auto found = impl_->watches.find(descriptor);
  SKYWARD_CHECK(found != impl_->watches.end(), "descriptor {} is not watched", descriptor);
  Watch& watch = *found->second;
  SKYWARD_CHECK(watch.on_writable, "descriptor {} has no callback for writing", descriptor);
  watch.wants_write = wanted;
  impl_->update(descriptor, watch);
}

void EventLoop::unwatch(int descriptor) {
  const auto found = impl_->watches.find(descriptor);
  if (found == impl_->watches.end()) return;
  Watch& watch = *found->second;
  watch.watched = false;
  if (watch.events != 0) ::epoll_ctl(impl_->epoll.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  std::erase(impl_->never_block, descriptor);
  impl_->unwatched.push_back(std::move(found->second));
  impl_->watches.erase(found);
}

void EventLoop::run_blocking(Callback work, Callback done) {
  impl_->blocking->run([this, work = std::move(work), done = std::move(done)]() mutable {
    work();
    work = {};
    post(std::move(done));
  });
}

void EventLoop::watch_signal(int signal, Callback callback) {
  const auto [place, added] = impl_->signals.emplace(signal, SignalWatch{.bell = make_bell()});
  SKYWARD_CHECK(added, "signal {} is watched already", signal);
  SignalWatch& watched = place->second;
  const int bell = watched.bell.get();
  bell_of(signal) = bell;
  watch(bell, [bell, callback = std::move(callback)] {
    eventfd_t rings = 0;
    static_cast<void>(::eventfd_read(bell, &rings));
    callback();
  });
  struct sigaction action{};
  action.sa_handler = ring_for_signal;
  ::sigfillset(&action.sa_mask);
  SKYWARD_CHECK(::sigaction(signal, &action, &watched.before) == 0, "signal {}: {}", signal,
                std::strerror(errno));
}

}  // namespace skyward::io
