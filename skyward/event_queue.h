#pragma once

// Events on their way from the engine's thread to whoever takes them, and into the pool's files.
// Thread-safe. When nobody takes them in time, lines and metrics are left out, never the rest.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "skyward/base/forever.h"
#include "skyward/pool_record.h"
#include "skyward/spec/event.h"

namespace skyward {

class EventQueue {
 public:
  // A pool begins to open. Without a root nothing is kept in files.
  void open(const std::string& record_root, const std::string& job_id);
  void put(Event event);
  // Nothing more will be put in.
  void end();

  // As Pool::next_events(). Who comes again has delivered what was taken before.
  bool take(std::vector<Event>& taken, Duration timeout);
  // As in Pool.
  bool is_delivered();
  void await_delivery(Duration limit);

 private:
  bool wait(std::vector<Event>& taken, Duration timeout);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  std::size_t bytes_ = 0;              // of these
  std::uint64_t left_out_ = 0;         // since the last were taken
  std::optional<std::size_t> notice_;  // of that, among the events
  bool ended_ = true;

  std::condition_variable delivery_;
  std::uint64_t put_ = 0;  // how many were, since the queue opened
  std::uint64_t taken_ = 0;
  std::uint64_t delivered_ = 0;
  bool lagging_ = false;  // somebody has waited in vain, and some are not delivered yet

  std::string pool_;  // the id that events are given
  std::mutex record_mutex_;
  std::optional<PoolRecord> record_;
};

}  // namespace skyward
