#pragma once

// What a test turns on a double: times, and what goes wrong how often. As JSON, each dial has the
// name that it has here; times are in seconds.

#include <map>
#include <string>
#include <vector>

#include "doubles/request.h"
#include "skyward/base/time.h"

namespace skyward::doubles {

// An answer written down beforehand, instead of what the cloud would say. As JSON:
// {"method": "POST", "path": "/v2/droplets", "skip": 1, "times": 1, "perform": true, "status": 500,
//  "headers": {}, "body": {}}. A path that ends with "*" is the beginning of one.
struct Answer {
  std::string method{};  // empty: any
  std::string path{};
  int skip = 0;          // so many such requests pass before
  int times = 1;         // so many get it; -1: all
  bool perform = false;  // the cloud does what was asked, and lies
  int status = 0;        // 0: the connection breaks; kLate: the client times out
  std::map<std::string, std::string> headers{};
  Json body{};  // a string is sent as it is
};

struct Dials {
  // Times.
  Duration boot = std::chrono::seconds(30);        // from the creation until a machine runs
  Duration address_lag = std::chrono::seconds(2);  // until a running machine shows its address
  Duration network_lag{};  // until a new machine shows its address in a private network (RunPod)
  Duration ending = std::chrono::seconds(3);  // from the request to end until it is gone
  // Until a new key is listed, refused when it comes again, and known to the creation of machines
  // (DigitalOcean).
  Duration key_lag{};
  Duration detach{};       // until a disk is free of a machine that was told to end (Verda)
  Duration erasing{};      // until a disk is gone that was deleted for good (Verda)
  Duration listing_lag{};  // lists learn of a machine up to so much later,
                           // and forget it so much later; each its own lag
  Duration reading_lag{};  // until a machine is known by its id
  Duration token_life = std::chrono::hours(1);  // of a session that a client logs in to
  Duration wall_offset{};                       // how wrong the cloud's clock is

  // Chances, for each request or each thing.
  double flap = 0;          // a machine is missing in a list
  double lose_request = 0;  // the connection breaks, and nobody heard
  double lose_reply = 0;    // ... and it was heard
  double fail = 0;          // status 500, and nothing happened
  double fail_late = 0;     // status 500, and it happened
  double throttle = 0;      // status 429 with Retry-After
  double fail_create = 0;   // a machine is accepted, and its creation fails later
  double quote_ids = 0.5;   // a plain-text id comes in quotes (Verda)

  // Limits.
  std::map<std::string, int> capacity{};  // machines that may be there at once: by size, by place,
                                          // by size + "/" + place, "*" for all
  std::string partial = "refuse";  // when only a part of a request fits: "refuse" all of it, sell
                                   // "fewer", or let the rest "fail" later
  int machine_limit = 100;         // of the account
  bool rate_limits = true;
  Duration retry_after = std::chrono::seconds(5);  // of throttled requests
  Duration patience{};                             // a request so early is no violation yet

  bool trash_keeps = true;  // the trash lists what is deleted for good, too (Verda)

  int script_limit = 100;                 // of a project (Verda)
  std::string failed_as = "no_capacity";  // the status of a machine that did not start (Verda)

  std::string account = "first";  // whose the credentials are now
  std::string balance = "100.00";
  std::vector<Answer> answers{};
};

Json write_dials(const Dials& dials);
// Empty, or what is wrong; then nothing is turned.
std::string turn_dials(Dials& dials, const Json& changes);

}  // namespace skyward::doubles
