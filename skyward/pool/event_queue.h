#pragma once

// Passes events from the engine's thread to their consumer, and into the pool's files. Thread-safe.
// The consumer writes new events to the files before it takes any. If it is too slow (a slow
// display or callback), a separate thread writes them within a second, and put() waits for that
// thread rather than drop anything, so that the files are complete; but it does not wait for a disk
// that hangs. What is too much for the consumer is dropped as in event_backlog.h.

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
  // Call when a pool begins to open. Without a root, nothing is written to files.
  void open(const std::string& record_root, const std::string& job_id);
  void put(Event event);
  // The same for several: no more than a few MiB.
  void put(std::vector<Event> events);
  // Of others than the engine, who may come late. False: no more events are taken.
  bool put_if_open(Event event);
  // Writes to the files what its receivers have got without this queue.
  void note(ErrorEvent event);
  // No more events will come.
  void end();

  // As Pool::next_events(). Calling it again confirms that the previous events were delivered.
  bool take(std::vector<Event>& taken, Duration timeout);
  // As in Pool.
  bool is_delivered();
  void await_delivery(Duration limit);

 private:
  struct Note {
    std::size_t before = 0;  // which of the new events
    Event event;
  };

  void put(std::unique_lock<std::mutex>& lock, std::vector<Event> events);
  void wait(Duration timeout);
  void await_recorder(std::unique_lock<std::mutex>& lock);
  void keep_new();
  void record(std::vector<Event>& events, const std::vector<Note>& notes);
  void record_until_the_end();
  bool is_all_taken() const { return new_.empty() && !keeping_ && kept_.empty(); }

  std::mutex mutex_;
  std::condition_variable changed_;
  EventBacklog new_;         // not in the files yet
  std::vector<Note> notes_;  // the same, and never taken
  bool keeping_ = false;     // somebody writes what was new, and has not added it to kept_ yet
  EventBacklog kept_;        // in the files, and not taken
  bool ended_ = true;
  Time shrink_at_ = kNever;  // a slow consumer gets only part of the events from then on

  std::condition_variable record_now_;  // new_ is large or has ended, or the recorder rests
  std::condition_variable recorded_;    // new_ is empty
  bool recording_ = false;              // there is a recorder
  bool rests_ = false;                  // it waits for the next event
  bool disk_hangs_ = false;  // put() gave up waiting for it, and it has kept nothing since
  std::condition_variable delivery_;
  // Counts since the queue opened; dropped events count as taken.
  std::uint64_t put_ = 0;
  std::uint64_t taken_ = 0;
  std::uint64_t delivered_ = 0;
  bool lagging_ = false;  // await_delivery() has timed out, and some are not delivered yet
  std::thread::id consumer_;

  std::string pool_;  // the id that events are given
  std::mutex record_mutex_;
  std::optional<PoolRecord> record_;
  std::thread recorder_;
};

}  // namespace skyward
