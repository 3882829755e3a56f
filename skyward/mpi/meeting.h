#pragma once

// Where the workers of a distributed call find each other before their framework does.
//
// Worker 0 listens at the pool's meeting point (head_addr:head_port) until every worker has said
// who it is, then tells all of them what each has brought along. Frameworks wait long and complain
// in riddles when a worker is missing or in another call; here the missing ones are named. The port
// is free again at the end, for the framework to use.
//
// A worker comes as often as it needs: nobody may listen yet, or somebody else still does.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/event_loop.h"
#include "skyward/spec/topology.h"

namespace skyward::mpi {

struct MeetingOptions {
  InstanceInfo place{};
  std::string call{};                                // the same at all workers: "train() of torch"
  Duration timeout{};                                // how long they wait for each other
  std::string brought{};                             // of this worker
  Duration port_timeout = std::chrono::seconds(20);  // how long worker 0 waits for the port
  Duration hello_timeout =
      std::chrono::seconds(5);  // how long a connection may take to identify itself
};

// What each worker brought, by rank. Fails with `timeout` when some did not come in time, and with
// `invalid` when one is in another call.
using Met = Result<std::vector<std::string>>;

class Meeting {
 public:
  // `on_end` is called once, on the loop thread, never from here. It may destroy the meeting.
  static std::unique_ptr<Meeting> begin(io::EventLoop& loop, MeetingOptions options,
                                        std::function<void(Met)> on_end);
  virtual ~Meeting() = default;
};

}  // namespace skyward::mpi
