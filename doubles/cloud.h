#pragma once

// What all doubles share. A double is a pure function of what it was asked and when: no thread, no
// clock, no file. It is stricter than the cloud: what the cloud would forgive or might do one day,
// it refuses or does today, and writes down as a violation what no correct client sends.
//
// Paths below /_double/ belong to tests, not to the cloud; see README.md.

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "doubles/dials.h"
#include "doubles/dice.h"
#include "doubles/machine.h"

namespace skyward::doubles {

struct Heard {
  int number = 0;  // from 1
  Time at{};
  std::string method{};
  std::string path{};
  Json body{};
  int status = 0;  // 0: no reply; kLate
};

struct Violation {
  int request = 0;
  Time at{};
  std::string text{};
};

// How fast a client may ask: so many requests at once, and one more each `refill`.
struct Pace {
  std::string key{};
  double burst = 0;
  Duration refill{};
};

class Cloud {
 public:
  Cloud(std::uint64_t seed, Tariff tariff) : dice_(seed), tariff_(tariff) {}
  virtual ~Cloud() = default;
  Cloud(const Cloud&) = delete;
  Cloud& operator=(const Cloud&) = delete;

  // Status 0: the connection broke and no reply came. kLate: the client times out.
  io::HttpReply reply(const io::HttpRequest& request, Time now);

  // The variables that point clients at a double at this address.
  virtual std::map<std::string, std::string> environment(const std::string& url) const = 0;

  Dials dials{};
  // Before and after each request, by number. Whatever it throws passes through reply().
  std::function<void(int number, bool after)> on_request{};
  std::vector<Heard> heard{};
  std::vector<Violation> violations{};
  std::deque<Machine> machines{};
  std::int64_t wall_start_s = 1'700'000'000;  // what Time{} is on the cloud's clock

  void advance(Duration time) { ahead_ += time; }
  // Machines that are not told to end, and what else a client made and left: "firewall NAME".
  std::vector<std::string> leftovers() const;
  double invoice(Time now) const;

 protected:
  virtual io::HttpReply perform(const Request& request) = 0;
  // The cloud's form of an error. `what` is for people.
  virtual io::HttpReply refusal(int status, const std::string& what) = 0;
  virtual std::vector<Pace> paces(const Request&) const { return {}; }
  // The last word on every reply of the cloud, for headers that all have.
  virtual void finish(const Request&, io::HttpReply&) {}
  virtual std::vector<std::string> side_things() const { return {}; }
  // What a machine cost until then.
  virtual double bill(const Machine& one, Time at) const { return bill_of(one, tariff_, at); }
  // Whether a 429 says how long to be silent.
  virtual bool tells_retry_after() const { return true; }
  // What is billed beside machines, until `at`.
  virtual double side_bill(Time) const { return 0; }
  // A test's request below /_double/ that only this cloud has; status 404: none.
  virtual io::HttpReply control_own(const Request&) { return {.status = 404}; }
  // The cloud ended a machine of its own accord.
  virtual void on_preempted(Machine&) {}

  void violate(const std::string& what);
  // Writes down each, and refuses with the first.
  io::HttpReply refuse_all(int status, const std::vector<std::string>& wrong);

  Time now() const { return now_; }
  Time asked_at() const { return now_ - ahead_; }  // as the caller counts
  std::int64_t wall_s(Time at) const;
  std::string wall_text(Time at) const;  // "2026-11-23T11:00:00Z"
  Dice& dice() { return dice_; }

  // Of the account whose credentials are in use.
  bool is_ours(const Machine& one) const { return one.account == dials.account; }
  Machine* find_machine(const std::string& id);
  // Those that a list shows now.
  std::vector<Machine*> listed_machines();
  // How many more machines of that size fit there.
  int room(const std::string& size, const std::string& place) const;
  // With its moments, lags and addresses.
  Machine& make_machine(Machine machine, bool fails);
  void end_machine(Machine& machine);

 private:
  // A limit that a client runs into, and until when it must be silent.
  struct Bucket {
    double tokens = 0;
    Time filled{};
    Time silent_until{};
  };

  io::HttpReply answer(const Request& request);
  const Answer* written_answer(const Request& request);
  io::HttpReply answer_as_written(const Answer& written, const Request& request);
  std::string format_wall(Time at, const char* format) const;
  bool is_too_fast(const Request& request, Duration& wait);
  io::HttpReply control(const Request& request);
  io::HttpReply control_machine(const std::string& id, const Json& changes);

  Dice dice_;
  Tariff tariff_;
  Time now_{};
  Duration ahead_{};
  std::map<std::string, Bucket> buckets_{};
  Answer chosen_{};
};

}  // namespace skyward::doubles
