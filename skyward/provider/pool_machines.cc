#include "skyward/provider/pool_machines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "skyward/spec/cost.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

constexpr Duration kFirstLook = 1s;
constexpr Duration kLongestLook = 5s;
// A request to terminate that the cloud has heard is repeated only after this time.
constexpr Duration kHeardAgain = 30s;
constexpr Duration kReleaseBesideOthers = 60s;
constexpr int kTokenDigits = 16;

std::vector<std::string> ids_of(const std::vector<MachineStatus>& machines) {
  std::vector<std::string> ids;
  for (const MachineStatus& machine : machines) ids.push_back(machine.instance.id);
  return ids;
}

LaunchFailure why_ended(const MachineStatus& one) {
  const std::string& type = one.instance.instance_type;
  return {{one.capacity ? ErrorKind::exhausted : ErrorKind::invalid,
           fmt::format("{}{}{} did not start ({}{}{})", type.empty() ? one.instance.id : type,
                       one.zone.empty() ? "" : " in ", one.zone, one.reason,
                       one.message.empty() ? "" : ": ", one.message),
           one.hint.empty() ? "try again, or choose another type or region" : one.hint},
          one.capacity};
}

// The same request may succeed soon. Where an answer did not come in time, there must be time left
// for that.
bool is_temporary(const Error& error, Time now, Time deadline) {
  return error.kind == ErrorKind::unavailable ||
         (error.kind == ErrorKind::timeout && now < deadline);
}

// How many machines of an attempt may fail to start and have others started for them. Where more
// fail than that, another place is better.
std::size_t most_failures(const MachineApiFacts& facts, int count) {
  return (facts.hosts_differ ? 2U : 1U) + static_cast<std::size_t>(count) / 2;
}

}  // namespace

std::string PoolMachines::where() const {
  const MachineApiFacts& facts = api_.facts();
  return facts.region.empty() ? facts.cloud : fmt::format("{}, {}", facts.cloud, facts.region);
}

namespace {

// Of machines that start, what the cloud says about one that has not.
Error not_in_time(std::string_view where, const std::vector<MachineStatus>& machines,
                  std::size_t count, std::size_t running) {
  Error out{
      ErrorKind::timeout,
      fmt::format("{}: {} of {} machines did not start in time", where, count - running, count),
      "try again, or choose another type or region"};
  for (const MachineStatus& one : machines) {
    if (one.stage != Stage::pending || one.message.empty()) continue;
    out.message += ": " + one.message;
    if (!one.hint.empty()) out.hint = one.hint;
    break;
  }
  return out;
}

}  // namespace

// ---- Launching

Result<std::vector<MachineStatus>> PoolMachines::launch(const LaunchSpec& spec, Time deadline) {
  launches_ = true;
  if (!book_.world().launching.stop_requested()) release_late(deadline);
  LaunchRecord record(api_.facts().cloud, api_.facts().region);
  const LaunchActions actions{
      .attempt = [&](const Attempt& wanted) { return attempt(spec, wanted, record, deadline); },
      .release =
          [&](const std::vector<MachineStatus>& machines) {
            book_.note_wasted(ids_of(machines));
            return terminate(ids_of(machines), book_.world().now() + api_.facts().release_time);
          },
      .runs_first = api_.facts().runs_first};
  auto machines = launch_all(book_.world(), spec, record, actions, deadline);
  settle_doubts();
  if (machines) {
    std::ranges::sort(*machines, {}, [](const MachineStatus& one) { return one.instance.id; });
  }
  return machines;
}

// All of them or none. Where some do not start, those that do are kept, and others are launched
// beside them. Where none starts, another place is better, unless hosts differ.
std::expected<std::vector<MachineStatus>, LaunchFailure> PoolMachines::attempt(
    const LaunchSpec& spec, const Attempt& wanted, LaunchRecord& record, Time deadline) {
  const World& world = book_.world();
  const LaunchTarget& place = spec.places[wanted.placement];
  const LaunchBatch all{.count = wanted.count, .place = place, .spot = wanted.spot};
  const auto release_until = [&] { return world.now() + api_.facts().release_time; };
  std::vector<std::string> ids;
  std::size_t failures = 0;
  std::optional<LaunchFailure> trouble = launch_batches(all, ids, record, deadline);
  while (!trouble) {
    auto running = await_running(ids, deadline);
    if (running) {
      for (MachineStatus& one : *running) {
        Instance& instance = one.instance;
        if (instance.instance_type.empty()) instance.instance_type = place.type;
        if (!instance.price_on_demand) instance.price_on_demand = place.on_demand_price;
        if (!instance.price_spot) instance.price_spot = place.spot_price;
      }
      return *std::move(running);
    }
    const std::vector<std::string> ended = std::move(running.error().ended);
    failures += ended.size();
    const bool some = !ended.empty() && (ended.size() < ids.size() || api_.facts().hosts_differ);
    const bool others = some && running.error().why.capacity &&
                        failures <= most_failures(api_.facts(), wanted.count) &&
                        !world.launching.stop_requested();
    // Those that run cost money meanwhile; one that does not go stays in the book.
    const Time until =
        others ? std::min(deadline, world.now() + kReleaseBesideOthers) : release_until();
    LaunchFailure why = release(others ? ended : ids, std::move(running.error().why), until);
    record.withdrawn(why.error.message);
    why.part = some && api_.facts().runs_first;
    if (!others) return std::unexpected(std::move(why));
    std::erase_if(
        ids, [&](const std::string& id) { return std::ranges::find(ended, id) != ended.end(); });
    LaunchBatch more = all;
    more.count = static_cast<int>(ended.size());
    if (const auto refused = launch_batches(more, ids, record, deadline)) {
      // Another place may have all of them, whatever this one says of the few.
      why.error.message += "; " + refused->error.message;
      trouble = std::move(why);
    }
  }
  trouble->part = !ids.empty() && api_.facts().runs_first;
  return std::unexpected(release(ids, *std::move(trouble), release_until()));
}

// Where the cloud sells only so many at once, one batch after another. Adds the ids; if one is
// refused, those before it too.
std::optional<LaunchFailure> PoolMachines::launch_batches(const LaunchBatch& all,
                                                          std::vector<std::string>& ids,
                                                          LaunchRecord& record, Time deadline) {
  const World& world = book_.world();
  const int most = api_.facts().most_per_batch;
  int tries = 0;  // of the batch at hand
  for (int left = all.count; left > 0;) {
    if (world.launching.stop_requested()) return LaunchFailure{no_longer_wanted()};
    LaunchBatch batch = all;
    batch.token = fmt::format("{}-{}", book_.pool(), world.random_hex(kTokenDigits));
    batch.count = most > 0 ? std::min(left, most) : left;
    const auto made = launch_batch(batch, record, deadline);
    if (made) {
      ids.insert(ids.end(), made->begin(), made->end());
      left -= batch.count;
      tries = 0;
    } else if (!made.error().unanswered || ++tries >= api_.facts().launch_tries) {
      return made.error();
    }
  }
  return std::nullopt;
}

// The ids of its machines, which are in the book.
std::expected<std::vector<std::string>, LaunchFailure> PoolMachines::launch_batch(
    const LaunchBatch& batch, LaunchRecord& record, Time deadline) {
  const auto price = batch.spot ? batch.place.spot_price : batch.place.on_demand_price;
  const Status asked = book_.ask({.key = batch.token,
                                  .kind = "instance",
                                  .count = batch.count,
                                  .spot = batch.spot,
                                  .instance_type = batch.place.type,
                                  .hourly_micro_dollars = to_micro_dollars(price.value_or(0))});
  if (!asked) return std::unexpected(LaunchFailure{asked.error()});
  auto ids = api_.launch(batch, deadline);
  if (!ids) return on_refused(batch, ids.error(), record, deadline);
  Status entered;
  if (ids->size() != static_cast<std::size_t>(batch.count)) {
    entered = fail(ErrorKind::unavailable,
                   fmt::format("{}: the reply lists {} machines instead of {}", where(),
                               ids->size(), batch.count),
                   "try again");
  } else {
    entered = book_.made(batch.token, *ids);
  }
  if (entered) return *std::move(ids);
  const Time now = book_.world().now();
  const Time until = now + api_.facts().release_time;
  const Found all = find_launched(batch, *ids, now + api_.facts().listing_lag, until);
  LaunchFailure why = release(all.ids, {entered.error()}, until);
  record.withdrawn(why.error.message);
  return std::unexpected(std::move(why));
}

// A request without an answer may have been obeyed: what appears with its mark is the answer. What
// a refusal has brought all the same is released.
std::expected<std::vector<std::string>, LaunchFailure> PoolMachines::on_refused(
    const LaunchBatch& batch, const LaunchRefusal& answer, LaunchRecord& record, Time deadline) {
  LaunchFailure why = answer.why;
  if (answer.certain) {
    book_.gone({batch.token});
  } else {
    const Time now = book_.world().now();
    const Time until = now + api_.facts().release_time;
    // Whoever is refused goes on to another place, and looks again at the end.
    const Duration patience = answer.doubtful ? Duration() : api_.facts().listing_lag;
    Found all = find_launched(batch, {}, now + patience, until);
    const bool complete = all.ids.size() == static_cast<std::size_t>(batch.count);
    const bool passing = is_temporary(why.error, now, deadline);
    const bool wanted = (passing || answer.doubtful) && !book_.world().launching.stop_requested();
    if (complete && wanted) return std::move(all.ids);
    // Unseen machines may stand: those of another request would come on top of them.
    why.unanswered = passing && all.ids.empty() && all.seen;
    if (answer.doubtful && !complete) doubts_.push_back({.token = batch.token, .refused = now});
    why = release(all.ids, std::move(why), until);
  }
  if (!answer.code.empty()) {
    return std::unexpected(record.refused(batch.place, batch.spot, answer.code, std::move(why)));
  }
  record.withdrawn(why.error.message);
  return std::unexpected(std::move(why));
}

// That they stand, and what the cloud charges for them. One that is stopped may cost less, or
// nothing.
void PoolMachines::note_sight(const std::vector<MachineStatus>& machines) {
  for (const MachineStatus& one : machines) {
    const Instance& told = one.instance;
    if (one.stage != Stage::terminated) book_.see_standing(told.id);
    const auto& price = told.spot ? told.price_spot : told.price_on_demand;
    if (price && one.stage < Stage::stopped) book_.note_price(told.id, to_micro_dollars(*price));
  }
}

void PoolMachines::stop_slow(std::vector<MachineStatus>& machines) const {
  const Duration limit = api_.facts().start_limit;
  if (limit == Duration{}) return;
  for (MachineStatus& one : machines) {
    if (one.stage != Stage::pending) continue;
    const auto times = book_.times_of({one.instance.id});
    if (times.empty() || times.front().began.value_or(Duration{}) < limit) continue;
    one.stage = Stage::stopped;
    one.reason = fmt::format("still starting after {:g} s", seconds(limit));
    one.capacity = true;
  }
}

namespace {

// Adds, as terminated, the machines that every look has missed for `limit`. `since`: when each was
// first missing.
void add_vanished(std::vector<MachineStatus>& found, const std::vector<std::string>& ids,
                  std::map<std::string, Time>& since, Time now, Duration limit) {
  for (const std::string& id : ids) {
    const auto is_it = [&](const MachineStatus& one) { return one.instance.id == id; };
    if (std::ranges::any_of(found, is_it)) {
      since.erase(id);
    } else if (now - since.try_emplace(id, now).first->second >= limit) {
      found.push_back({.instance = {.id = id},
                       .stage = Stage::terminated,
                       .reason = "not listed",
                       .capacity = true});
    }
  }
}

}  // namespace

// All of them, running. Else why not, and those that have ended.
std::expected<std::vector<MachineStatus>, PoolMachines::NotRunning> PoolMachines::await_running(
    const std::vector<std::string>& ids, Time deadline) {
  const World& world = book_.world();
  Time looked = world.now();
  std::map<std::string, Time> missing;
  for (Duration pause = kFirstLook;; pause = std::min(pause * 2, api_.facts().slowest_look)) {
    auto found = api_.look_up(ids, deadline);
    const bool passing = !found && is_temporary(found.error(), world.now(), deadline);
    if (!found && (!passing || world.now() - looked >= api_.facts().patience)) {
      return std::unexpected(NotRunning{{found.error()}});
    }
    std::size_t running = 0;
    if (!found) missing.clear();  // nobody saw that they are
    if (found) {
      looked = world.now();
      note_sight(*found);
      add_vanished(*found, ids, missing, world.now(), api_.facts().known_after);
      stop_slow(*found);
      if (auto ended = find_ended(*found)) return std::unexpected(*std::move(ended));
      running = static_cast<std::size_t>(
          std::ranges::count(*found, Stage::running, &MachineStatus::stage));
      if (running == ids.size()) return *std::move(found);
    }
    if (deadline - world.now() <= pause) {
      const auto seen = found.value_or(std::vector<MachineStatus>());
      return std::unexpected(NotRunning{{not_in_time(where(), seen, ids.size(), running)}});
    }
    if (world.launching.stop_requested()) return std::unexpected(NotRunning{{no_longer_wanted()}});
    wait_while_launching(world, pause);
  }
}

// Those that will not run any more, and why: for what another machine would not mend, if one did.
std::optional<PoolMachines::NotRunning> PoolMachines::find_ended(
    const std::vector<MachineStatus>& machines) {
  std::optional<NotRunning> out;
  for (const MachineStatus& one : machines) {
    if (one.stage < Stage::stopped) continue;
    if (!out) out.emplace();
    if (out->ended.empty() || (out->why.capacity && !one.capacity)) out->why = why_ended(one);
    out->ended.push_back(one.instance.id);
  }
  return out;
}

// Of a batch, what is known and what bears its mark within the time that listings may lag; now in
// the book.
PoolMachines::Found PoolMachines::find_launched(const LaunchBatch& batch,
                                                const std::vector<std::string>& ids,
                                                Time look_until, Time until) {
  const World& world = book_.world();
  std::set<std::string> known(ids.begin(), ids.end());
  bool seen = false;
  while (known.size() < static_cast<std::size_t>(batch.count)) {
    const auto found = api_.find(batch.token, until);
    seen = found.has_value();
    for (const MachineStatus& one : found.value_or(std::vector<MachineStatus>())) {
      known.insert(one.instance.id);
    }
    if (known.size() >= static_cast<std::size_t>(batch.count)) break;
    if (world.now() >= look_until) break;
    world.pause(kLongestLook, {});
  }
  std::vector<std::string> all(known.begin(), known.end());
  if (!all.empty()) (void)book_.made(batch.token, all);
  return {std::move(all), seen};
}

// What stands of a launch that is over; now in the book.
Result<std::vector<std::string>> PoolMachines::enter_marked(const std::string& token, Time until) {
  auto found = api_.find(token, until);
  if (!found) return fail(found);
  std::erase_if(*found, [](const auto& one) { return one.stage == Stage::terminated; });
  std::vector<std::string> ids = ids_of(*found);
  if (!ids.empty()) (void)book_.made(token, ids);
  return ids;
}

// Releases what has come of a launch that is over. True if it was seen that there is nothing.
bool PoolMachines::release_marked(const std::string& token, Time until) {
  const auto ids = enter_marked(token, until);
  if (!ids) return false;
  if (ids->empty()) return true;
  (void)release(*ids, {}, until);  // what does not end stays in the ledger
  return false;
}

// Unless they are released, they cost money until the pool closes.
void PoolMachines::release_late(Time deadline) {
  const World& world = book_.world();
  const std::chrono::seconds limit(api_.facts().unanswered_limit_s);
  std::set<std::string> left;
  for (const LedgerEntry& entry : book_.open_entries()) {
    if (entry.kind != "instance" || !entry.id.empty()) continue;
    const auto ids = enter_marked(entry.key, deadline);
    if (!ids) continue;
    book_.note_wasted(*ids);
    left.insert(ids->begin(), ids->end());
    if (ids->empty() && book_.age_of(entry) >= limit) book_.gone({entry.key});
  }
  for (const LedgerEntry& entry : book_.wasted()) {
    if (!entry.gone_s) left.insert(entry.id);
  }
  if (left.empty()) return;
  std::vector<std::string> gone;
  const Time until = std::min(deadline, world.now() + api_.facts().release_time);
  (void)terminate_and_wait({left.begin(), left.end()}, gone, until, launches_);
  book_.gone(gone);
}

// What came of refusals all the same is released. Whoever gives up does not wait for that: the
// ledger has them as open, and closing the pool or gc looks for them.
void PoolMachines::settle_doubts() {
  const World& world = book_.world();
  for (const Doubt& doubt : std::exchange(doubts_, {})) {
    const Time listed = doubt.refused + api_.facts().doubt;
    if (world.now() < listed) wait_while_launching(world, listed - world.now());
    if (world.now() < listed) continue;
    const Time until = world.now() + api_.facts().release_time;
    if (release_marked(doubt.token, until)) book_.gone({doubt.token});
  }
}

LaunchFailure PoolMachines::release(const std::vector<std::string>& ids, LaunchFailure why,
                                    Time until) {
  if (ids.empty()) return why;
  book_.note_wasted(ids);
  if (Status ended = terminate(ids, until); !ended) {
    why.error.message += "; " + ended.error().message;
  }
  return why;
}

// ---- Ending

Error PoolMachines::still_there(const std::vector<std::string>& ids) const {
  std::string why;
  for (const std::string& id : ids) {
    if (why.empty()) why = api_.why_refused(id);
  }
  return {ErrorKind::timeout,
          fmt::format("{}: {} did not terminate in time{}{}", where(), fmt::join(ids, ", "),
                      why.empty() ? "" : ": ", why),
          api_.facts().ends_itself ? "'skyward gc' terminates them; otherwise they terminate "
                                     "themselves when their time is up"
                                   : "they cost money until 'skyward gc' terminates them"};
}

namespace {

// What was seen of a machine that is to end.
struct Sight {
  std::optional<Time> made{};   // empty: long ago, or by nobody
  bool stood = false;           // when it was looked at
  bool asked = false;           // to end
  std::optional<Time> heard{};  // last
  int absent = 0;               // looks in a row
};

// Nobody here has ended what was gone at the first look.
MachineEnd end_of(const Sight& sight, std::optional<std::int64_t> told_s = {}) {
  return {.told_s = told_s, .unseen = !sight.stood && !sight.heard};
}

std::map<std::string, Sight> sights_of(PoolBook& book, const std::vector<std::string>& ids) {
  std::map<std::string, Sight> out;
  for (const std::string& id : ids) out[id];
  for (const LedgerEntry& entry : book.open_entries()) {
    const auto at = entry.id.empty() ? out.end() : out.find(entry.id);
    if (at != out.end()) at->second.made = book.world().now() - book.age_of(entry);
  }
  return out;
}

}  // namespace

// Clouds forget old machines and may not list new ones yet, so a missing machine is terminated all
// the same. It counts as gone when it is listed as terminated, when its termination was accepted
// and it is no longer listed, or when it is still unknown after `known_after`. Adds to `gone`
// whatever is. Unless it `waits`, it asks once and looks again at once.
Status PoolMachines::terminate_and_wait(const std::vector<std::string>& ids,
                                        std::vector<std::string>& gone, Time deadline, bool waits) {
  const World& world = book_.world();
  std::map<std::string, Sight> left = sights_of(book_, ids);
  const auto note_gone = [&](const std::string& id, const MachineEnd& end) {
    gone.push_back(id);
    book_.see_gone(id, end);
  };
  const auto is_old = [&](const Sight& sight) {
    return world.now() - *sight.made >= api_.facts().known_after;
  };
  for (Duration pause = kFirstLook; !left.empty(); pause = std::min(pause * 2, kLongestLook)) {
    std::vector<std::string> wanted;
    for (auto& [id, sight] : left) {
      wanted.push_back(id);
      ++sight.absent;
    }
    const auto found = api_.look_up(wanted, deadline);
    if (!found) {
      (void)api_.terminate(wanted, deadline);  // unseen is not gone
      return fail(found);
    }
    std::set<std::string> ending;
    for (const MachineStatus& one : *found) {
      const auto at = left.find(one.instance.id);
      if (at == left.end()) continue;
      at->second.absent = 0;
      if (one.stage >= Stage::terminating) ending.insert(one.instance.id);
      if (one.stage != Stage::terminated) {
        at->second.stood = true;
        book_.see_standing(one.instance.id);
        continue;
      }
      note_gone(one.instance.id, end_of(at->second, one.ended_s));
      left.erase(at);
    }
    std::vector<std::string> standing;
    std::erase_if(left, [&](const auto& one) {
      const auto& [id, sight] = one;
      // A listing may leave out what stands: nothing that the pool made is gone before it was
      // asked to end.
      const bool is_nobodys = !sight.made && sight.absent > 0;
      const bool is_over =
          is_nobodys || (sight.made && sight.asked && (sight.heard.has_value() || is_old(sight)));
      const bool is_gone = sight.absent >= 2 && is_over;
      if (is_gone) note_gone(id, end_of(sight));
      const bool is_heard = sight.heard && world.now() - *sight.heard < kHeardAgain;
      if (!is_gone && !is_nobodys && !is_heard && !ending.contains(id)) standing.push_back(id);
      return is_gone;
    });
    // What is listed costs: it comes first, since there may be no time for all.
    std::ranges::stable_partition(standing, [&](auto& id) { return left[id].absent == 0; });
    if (!standing.empty()) {
      const auto heard = api_.terminate(standing, deadline);
      if (!heard) return fail(heard);
      for (const std::string& id : standing) left[id].asked = true;
      for (const std::string& id : *heard) left[id].heard = world.now();
    }
    if (left.empty()) break;
    if (deadline - world.now() <= pause) return std::unexpected(still_there(wanted));
    // What was asked for just now may be so at once.
    if (!standing.empty() && pause == kFirstLook) continue;
    if (!waits) return std::unexpected(still_there(wanted));
    // A launch that ends machines of its own must not hold up others that are to end.
    if (launches_ && world.meanwhile) world.meanwhile();
    world.pause(pause, {});
  }
  return {};
}

Status PoolMachines::terminate(const std::vector<std::string>& ids, Time deadline) {
  std::vector<std::string> gone;
  Status status = terminate_and_wait(ids, gone, deadline);
  book_.gone(gone);
  return status;
}

Status PoolMachines::look_for_ends(const std::vector<std::string>& ids, Time deadline) {
  const std::vector<std::string> standing = book_.standing(ids);
  if (standing.empty()) return {};
  const auto found = api_.look_up(standing, deadline);
  if (!found) return fail(found);
  std::set<std::string> missed(standing.begin(), standing.end());
  for (const MachineStatus& one : *found) {
    const std::string& id = one.instance.id;
    if (one.stage != Stage::terminated) {
      book_.see_standing(id);
    } else if (one.ended_s) {
      book_.see_gone(id, {.told_s = one.ended_s});
    } else {
      continue;
    }
    missed.erase(id);
  }
  for (const std::string& id : missed) book_.miss(id);
  return {};
}

void PoolMachines::enter_unanswered(Time deadline) {
  for (const LedgerEntry& entry : book_.open_entries()) {
    if (entry.kind == "instance" && entry.id.empty()) (void)enter_marked(entry.key, deadline);
  }
}

Status PoolMachines::terminate_all(Time deadline) {
  enter_unanswered(deadline);
  std::set<std::string> ids;
  for (const LedgerEntry& entry : book_.open_entries()) {
    if (entry.kind == "instance" && !entry.id.empty()) ids.insert(entry.id);
  }
  const auto found = api_.find("", deadline);
  for (const MachineStatus& one : found.value_or(std::vector<MachineStatus>())) {
    if (one.stage != Stage::terminated) ids.insert(one.instance.id);
  }
  const Status ended = terminate({ids.begin(), ids.end()}, deadline);
  return ended && !found ? Status(fail(found)) : ended;
}

}  // namespace skyward::provider
