#pragma once

// Slurm: a cluster of equal nodes that starts, preempts and ends jobs, and answers commands
// as 22.05 does, on virtual time. A word that it does not know is a violation.

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "doubles/command_reply.h"
#include "skyward/base/time.h"

namespace skyward::doubles {

struct SlurmJob {
  int id = 0;
  std::string name{}, partition{}, script{};
  std::string state = "PENDING";
  std::string reason = "Priority";
  int wanted = 1;  // nodes
  std::vector<std::string> nodes{};
  std::vector<std::string> excluded{};
  Time submitted{}, starts = kNever, ends = kNever, ended = kNever;
  Duration limit{};
};

class Slurm {
 public:
  using Words = std::vector<std::string>;

  explicit Slurm(Words nodes) : nodes_(std::move(nodes)) {}

  CommandReply run(const Words& words, std::string_view input, Time now);

  // What happens of its own accord until then.
  void advance(Time now);
  void preempt(int id);
  void requeue(int id);
  void forget(int id);  // that it has ended, and its record is older than MinJobAge
  void lose(const std::string& node);
  SlurmJob* find(int id);
  // Nodes that are taken or waited for.
  int standing() const;

  Duration queue{};        // how long jobs wait, at least
  bool estimates = false;  // when they may start: another time at each look
  Duration most_time = std::chrono::hours(24);
  // What goes wrong with every second command.
  bool lose_reply = false;
  bool busy = false;     // refused for now
  bool breaks = false;   // obeyed, and the connection to the login node breaks
  bool refuses = false;  // every command: this user may do nothing
  // Before and after each command, by number. Whatever it throws passes through run().
  std::function<void(int number, bool after)> on_request{};
  int requests = 0;
  std::vector<SlurmJob> jobs{};
  std::vector<std::string> violations{};

 private:
  CommandReply violate(const std::string& what);
  CommandReply answer(const Words& words, std::string_view input);
  CommandReply submit(const Words& words, std::string_view input);
  CommandReply cancel(const Words& words);
  CommandReply shrink(const std::string& line);
  std::string estimate() const;
  std::string squeue() const;
  std::string sinfo() const;
  static std::string config();
  void start(SlurmJob& one);

  const Words nodes_;
  std::set<std::string> down_{};
  Time now_{};
  int next_ = 17;
};

}  // namespace skyward::doubles
