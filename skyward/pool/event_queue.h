#pragma once

// Events on their way from the engine's thread to whoever takes them, and into the pool's files.
// Thread-safe. Whoever takes some first writes all that have come to the files. When that takes too
// long, since a display or a handler is slow, a thread of its own writes them, and put() waits for
// it rather than drop anything, so that the files are complete; but not for a disk that hangs. What
// is too much for the display or the handler is dropped as in event_backlog.h.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "skyward/base/forever.h"
#include "skyward/pool/event_backlog.h"
#include "skyward/pool/pool_record.h"
#include "skyward/spec/event.h"

namespace skyward {

class EventQueue {
 public:
  EventQueue();
  ~EventQueue();
  EventQueue(const EventQueue&) = delete;
  EventQueue& operator=(const EventQueue&) = delete;
  // A pool begins to open. Without a root nothing is kept in files.
  void open(const std::string& record_root, const std::string& job_id);
  void put(Event event);
  // Nothing more will be put in.
  void end();

  // As Pool::next_events(). Calling it again confirms that the previous events were delivered.
  bool take(std::vector<Event>& taken, Duration timeout);
  // As in Pool.
  bool is_delivered();
  void await_delivery(Duration limit);

 private:
  void wait(Duration timeout);
  void keep_new();
  void record_until_the_end();
  bool is_all_taken() const { return new_.empty() && kept_.empty(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  EventBacklog new_;   // not in the files yet
  EventBacklog kept_;  // in the files, and not taken
  bool ended_ = true;
  Time shrink_at_ = kNever;  // slow handlers get no more than a part from then on

  std::condition_variable record_now_;  // new_ is large, or has ended
  std::condition_variable recorded_;    // new_ is empty
  bool recording_ = false;              // there is a recorder
  bool disk_hangs_ = false;             // put() has waited in vain
  std::condition_variable delivery_;
  // How many were, since the queue opened; the dropped ones count as taken.
  std::uint64_t put_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t delivered_ = 0;
  bool lagging_ = false;  // somebody has waited in vain, and some are not delivered yet

  std::string pool_;  // the id that events are given
  std::mutex record_mutex_;
  std::optional<PoolRecord> record_;
  std::thread recorder_;
};

}  // namespace skyward
