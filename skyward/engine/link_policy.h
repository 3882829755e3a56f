#pragma once

// When to reconnect to a node after its connection broke, and when to count the node as lost
// (docs/decisions/0005-lost-and-found.md). Pure: what happened and the time come in, the time of
// the next attempt or the loss comes out. The links of pools and of the storm both use it.

#include <optional>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::engine {

class LinkPolicy {
 public:
  struct Limits {
    Duration greet{};      // from the start to the first Welcome
    Duration silence{};    // without a byte, before a connection is dropped
    Duration patience{};   // from then on, before the node is lost
    Duration lease{};      // without a connection, before the agent ends; 0: unknown
    bool gateway = false;  // all nodes are behind one, whose refusals say nothing about a node
  };
  // What the end of a connection, or of an attempt to make one, says about the next one.
  struct End {
    bool gone = false;       // the node was reached, and its agent has exited
    bool permanent = false;  // another would end the same way
    bool hopeless = false;   // ... if the node was never reached: nothing listens there, say
    bool refused = false;    // the machine was reached, and nobody answers there
    bool offline = false;    // this computer has no network, which says nothing about the node
    bool silent = false;     // it was dropped, because nothing moved on it
  };

  LinkPolicy(const Limits& limits, Time now)
      : limits_(limits), broken_since_(now), trouble_since_(now) {}

  void on_attempt() { ++tries_; }
  // The agent has greeted back. `login`: until the node said anything.
  void on_welcome(Duration login = {});
  // When to try again; nothing: the node is lost. `jitter`: 0 to 1, by chance.
  std::optional<Time> on_end(const End& end, Time now, double jitter);

  // How long the present attempt or connection, on which something moved last at `moved_at`, may
  // stay silent.
  Duration silence(Time moved_at) const;
  bool was_welcomed() const { return welcomed_; }

  // How much of an upload the slowest acceptable line has carried, `since` after its last bytes
  // were handed over. `uploads`: how many share that line, this one included.
  static std::uint64_t crossed(std::uint64_t bytes, Duration since, int uploads);
  bool is_connected() const { return connected_; }
  int tries() const { return tries_; }  // of the present trouble
  Duration trouble(Time now) const { return now - broken_since_; }

 private:
  Duration reconnect_time() const;  // before the node is lost

  Limits limits_;
  Duration login_{};    // the longest
  int silent_ = 0;      // attempts before the first welcome
  Time broken_since_;   // the connection, or before there was one
  Time trouble_since_;  // the same, or since this computer had no network last
  bool welcomed_ = false;
  bool connected_ = false;
  bool only_refused_ = true;  // the tries of the present trouble
  int tries_ = 0;
};

// How long a node may be out of reach before it is lost, unless logins are slow. `gateway`: as
// above.
Duration patience_of(const PoolSpec& spec, bool gateway);
// From a node's last message: by then, its link has decided.
Duration decided_after(const PoolSpec& spec, bool gateway);

// Why a connection, or the attempt to make one, ended, and what that means for the next one.
struct ConnectionEnd {
  Error error;
  LinkPolicy::End means{};
};

}  // namespace skyward::engine
