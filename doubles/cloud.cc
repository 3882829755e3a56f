#include "doubles/cloud.h"

#include <cmath>
#include <ctime>

#include "skyward/base/check.h"

namespace skyward::doubles {
namespace {

bool fits(const Answer& answer, const Request& request) {
  if (!answer.method.empty() && answer.method != request.method) return false;
  if (answer.path.ends_with('*')) {
    return request.path.starts_with(answer.path.substr(0, answer.path.size() - 1));
  }
  return answer.path == request.path;
}

}  // namespace

io::HttpReply Cloud::reply(const io::HttpRequest& asked, Time now) {
  now_ = now + ahead_;
  const Request request = read_request(asked);
  if (request.path.starts_with("/_double/")) return control(request);
  const int number = static_cast<int>(heard.size()) + 1;
  heard.push_back({number, now_, request.method, request.path, request.body});
  if (on_request) on_request(number, false);
  io::HttpReply out = answer(request);
  heard[static_cast<std::size_t>(number) - 1].status = out.status;
  if (on_request) on_request(number, true);
  return out;
}

io::HttpReply Cloud::answer(const Request& request) {
  io::HttpReply out;
  Duration wait{};
  if (const Answer* written = written_answer(request)) {
    out = answer_as_written(*written, request);
  } else if (dice_.chance(dials.lose_request)) {
    return no_reply();
  } else if (is_too_fast(request, wait)) {
    out = refusal(429, "API rate limit exceeded.");
    const auto whole_seconds = std::chrono::ceil<std::chrono::seconds>(wait).count();
    if (tells_retry_after()) {
      out.headers.emplace_back("Retry-After", std::to_string(whole_seconds));
    }
  } else if (dice_.chance(dials.fail)) {
    out = refusal(500, "Server was unable to give you a response.");
  } else {
    out = perform(request);
    if (dice_.chance(dials.fail_late)) {
      out = refusal(500, "Server was unable to give you a response.");
    }
  }
  if (dice_.chance(dials.lose_reply)) return no_reply();
  if (out.status > 0) {
    out.headers.emplace_back("Date", format_wall(now_, "%a, %d %b %Y %H:%M:%S GMT"));
    finish(request, out);
  }
  return out;
}

const Answer* Cloud::written_answer(const Request& request) {
  for (Answer& one : dials.answers) {
    if (one.times == 0 || !fits(one, request)) continue;
    if (one.skip > 0) {
      --one.skip;
      continue;
    }
    if (one.times > 0) --one.times;
    chosen_ = one;  // what is performed may turn the dials
    return &chosen_;
  }
  return nullptr;
}

io::HttpReply Cloud::answer_as_written(const Answer& written, const Request& request) {
  if (written.perform) perform(request);
  if (written.status <= 0) return {.status = written.status};
  io::HttpReply out = written.body.is_string()
                          ? text_reply(written.status, written.body.get<std::string>())
                          : json_reply(written.status, written.body);
  for (const auto& [name, value] : written.headers) out.headers.emplace_back(name, value);
  return out;
}

bool Cloud::is_too_fast(const Request& request, Duration& wait) {
  std::vector<Pace> limits;
  if (dials.rate_limits) limits = paces(request);
  limits.push_back({.key = "throttle", .burst = 1});
  bool refused = false;
  for (const Pace& pace : limits) {
    Bucket& bucket = buckets_[pace.key];
    if (bucket.filled == Time{}) bucket = {.tokens = pace.burst, .filled = now_};
    if (now_ < bucket.silent_until) {
      if (now_ + dials.patience < bucket.silent_until) {
        violate("a request " + std::to_string(seconds(bucket.silent_until - now_)) +
                " s before the end of Retry-After");
      }
      wait = std::max(wait, bucket.silent_until - now_);
      refused = true;
      continue;
    }
    if (pace.refill > Duration{}) {
      const double more = seconds(now_ - bucket.filled) / seconds(pace.refill);
      bucket.tokens = std::min(pace.burst, bucket.tokens + more);
      bucket.filled = now_;
    }
    const bool dry = pace.refill > Duration{} && bucket.tokens < 1;
    if (dry || (pace.key == "throttle" && dice_.chance(dials.throttle))) {
      const Duration least =
          dry ? from_seconds((1 - bucket.tokens) * seconds(pace.refill)) : dials.retry_after;
      // In whole seconds, as the header says it.
      const Duration silence = std::chrono::ceil<std::chrono::seconds>(least);
      if (tells_retry_after()) bucket.silent_until = now_ + silence;
      wait = std::max(wait, silence);
      refused = true;
    } else if (pace.refill > Duration{}) {
      bucket.tokens -= 1;
    }
  }
  return refused;
}

void Cloud::violate(const std::string& what) {
  violations.push_back({static_cast<int>(heard.size()), now_, what});
}

io::HttpReply Cloud::refuse_all(int status, const std::vector<std::string>& wrong) {
  SKYWARD_CHECK(!wrong.empty());
  for (const std::string& one : wrong) violate(one);
  return refusal(status, wrong.front());
}

std::int64_t Cloud::wall_s(Time at) const {
  return wall_start_s +
         static_cast<std::int64_t>(std::floor(seconds(at.time_since_epoch() + dials.wall_offset)));
}

std::string Cloud::wall_text(Time at) const { return format_wall(at, "%Y-%m-%dT%H:%M:%SZ"); }

std::string Cloud::format_wall(Time at, const char* format) const {
  const std::time_t when = wall_s(at);
  std::tm parts{};
  gmtime_r(&when, &parts);
  char text[32];
  const std::size_t size = std::strftime(text, sizeof text, format, &parts);
  return {text, size};
}

Machine* Cloud::find_machine(const std::string& id) {
  for (Machine& one : machines) {
    if (one.id == id && is_ours(one) && one.is_known(now_)) return &one;
  }
  return nullptr;
}

std::vector<Machine*> Cloud::listed_machines() {
  std::vector<Machine*> out;
  for (Machine& one : machines) {
    if (is_ours(one) && one.is_listed(now_) && !dice_.chance(dials.flap)) out.push_back(&one);
  }
  return out;
}

int Cloud::room(const std::string& size, const std::string& place) const {
  int left = dials.machine_limit;
  const auto take = [&](int limit, auto&& counts) {
    for (const Machine& one : machines) {
      if (one.is_there(now_) && !one.has_failed(now_) && counts(one)) --limit;
    }
    left = std::min(left, limit);
  };
  take(left, [&](const Machine& one) { return is_ours(one); });
  for (const auto& [key, limit] : dials.capacity) {
    if (key == "*") take(limit, [](const Machine&) { return true; });
    if (key == size) take(limit, [&](const Machine& one) { return one.size == size; });
    if (key == place) take(limit, [&](const Machine& one) { return one.place == place; });
    if (key == size + "/" + place) {
      take(limit, [&](const Machine& one) { return one.size == size && one.place == place; });
    }
  }
  return std::max(left, 0);
}

Machine& Cloud::make_machine(Machine machine, bool fails) {
  for (const Machine& other : machines) {
    if (is_ours(other) && other.name == machine.name && other.ended == kNever) {
      violate("a second machine " + machine.name + " beside " + other.id);
    }
  }
  const auto number = static_cast<int>(machines.size());
  machine.account = dials.account;
  machine.made = now_;
  (fails || dice_.chance(dials.fail_create) ? machine.failed : machine.ready) = now_ + dials.boot;
  machine.listing_lag = dice_.up_to(dials.listing_lag);
  machine.reading_lag = dice_.up_to(dials.reading_lag);
  const std::string tail = std::to_string(number / 250) + "." + std::to_string(number % 250 + 2);
  machine.public_address = "198.18." + tail;
  machine.private_address = "10.10." + tail;
  return machines.emplace_back(std::move(machine));
}

void Cloud::end_machine(Machine& machine) {
  if (machine.ended != kNever) return;
  machine.ended = now_;
  machine.gone = now_ + dials.ending;
}

std::vector<std::string> Cloud::leftovers() const {
  std::vector<std::string> out;
  for (const Machine& one : machines) {
    if (one.ended == kNever) out.push_back("machine " + one.id + " " + one.name);
  }
  const std::vector<std::string> more = side_things();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

double Cloud::invoice(Time now) const {
  double sum = side_bill(now + ahead_);
  for (const Machine& one : machines) sum += bill(one, now + ahead_);
  return sum;
}

}  // namespace skyward::doubles
