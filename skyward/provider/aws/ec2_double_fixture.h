#pragma once

// Amazon on virtual time, as far as a pool needs it: stricter than the real one, with dials for
// what goes wrong. Machines end themselves as their user data says; what was made is not listed or
// known at once; a group cannot go while a machine of it is there, and machines take minutes to
// shut down; a client token makes a thing once, and is for one request alone; more requests, and
// more in a request, than Amazon publishes as allowed are refused.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "skyward/provider/watched_ledger_fixture.h"
#include "skyward/provider/world_fixture.h"

namespace skyward::provider::aws {

struct DoubleInstance {
  std::string id{};
  std::string region{};
  std::string token{};
  std::string type{};
  std::string zone{};
  std::string group{};
  bool spot = false;
  bool addressed = false;  // has a public address
  std::map<std::string, std::string> tags{};
  Time launched{};
  bool claimed = false;  // an agent has begun
  Time ended = kNever;   // told to end, or by itself
  std::string reason{};  // code of why
  std::string message{};
};

struct DoubleGroup {
  std::string id{};
  std::string region{};
  std::string name{};
  std::map<std::string, std::string> tags{};
  Time made{};
  std::vector<std::string> rules{};
};

class Ec2Double {
 public:
  // Of a request; "region" is where it went.
  using Form = std::map<std::string, std::string>;

  // Dials.
  Duration listing_lag{};
  Duration group_lag = std::chrono::seconds(2);  // until a new group is known
  Duration boot = std::chrono::seconds(5);       // from the launch to "running"
  std::string over_token;                        // of a session that is over
  std::vector<std::string> regions = {"eu-west-1"};
  std::map<std::string, std::string> replies;  // action → what is answered instead of a fact
  std::string spot_price = "0.03";
  Duration spot_price_age = std::chrono::hours(24);  // since it changed
  std::string address = "203.0.113.5";               // of the caller; empty: nobody tells it
  std::string proxy_address;                         // ... of its proxy
  std::set<std::string> missing;                     // rights: "ec2:TerminateInstances"
  std::string stillborn;  // why machines end at once: "Server.InternalError"
  std::string stillborn_message;
  // A status, and a code or "code: message".
  std::function<std::pair<int, std::string>(const std::string& action, const Form& form)> refuse;
  std::function<bool(const std::string& action)> lose_reply;
  std::function<void(io::HttpReply& reply)> mangle;  // on its way back
  int die_before = -1;                               // the number of a request
  int die_after = -1;

  explicit Ec2Double(WorldFixture& fixture) : fixture_(fixture) {
    fixture.http->answer = [this](const io::HttpRequest& request) { return answer(request); };
  }

  int requests = 0;
  int throttled = 0;  // refused for their speed
  std::vector<std::string> actions;
  std::vector<DoubleInstance> instances;
  std::vector<DoubleGroup> groups;

  // As if nothing had ever been, nor any dial turned but those of time.
  void forget();
  // Machines that cost something now.
  int standing();
  void claim_all();

 private:
  // As many requests of one kind as Amazon lets pass at once, and how many more each second.
  struct Bucket {
    double tokens = 0;
    Time filled{};
  };

  bool may(const std::string& action, const Form& form) const;
  io::HttpReply dry_run(const Form& form) const;
  bool is_too_fast(const std::string& action, const std::string& region);
  std::string state_of(DoubleInstance& one) const;
  bool is_listed(Time made) const { return fixture_.now - made >= listing_lag; }
  bool is_known(const DoubleInstance& one) const;
  bool is_known_group(const std::string& id, const std::string& region) const;
  Result<io::HttpReply> answer(const io::HttpRequest& request);
  io::HttpReply perform(const std::string& action, const Form& form);
  io::HttpReply run(const Form& form);
  io::HttpReply describe_instances(const Form& form);
  io::HttpReply terminate(const Form& form);
  io::HttpReply create_group(const Form& form);
  io::HttpReply describe_groups(const Form& form);
  io::HttpReply admit(const Form& form);
  io::HttpReply delete_group(const Form& form);
  std::string reason_of(const DoubleInstance& one) const;
  std::string text_of(DoubleInstance& one) const;

  WorldFixture& fixture_;
  std::map<std::string, Bucket> buckets_;  // by region and action
  std::map<std::string, Form> launches_;   // that brought machines, by client token
  int made_ = 0;
};

}  // namespace skyward::provider::aws
