#include "doubles/dials.h"

#include <type_traits>

namespace skyward::doubles {
namespace {

template <typename Of, typename Visit>
void each_dial(Of& dials, Visit visit) {
  visit("boot", dials.boot);
  visit("address_lag", dials.address_lag);
  visit("network_lag", dials.network_lag);
  visit("ending", dials.ending);
  visit("key_lag", dials.key_lag);
  visit("detach", dials.detach);
  visit("erasing", dials.erasing);
  visit("listing_lag", dials.listing_lag);
  visit("reading_lag", dials.reading_lag);
  visit("token_life", dials.token_life);
  visit("wall_offset", dials.wall_offset);
  visit("flap", dials.flap);
  visit("lose_request", dials.lose_request);
  visit("lose_reply", dials.lose_reply);
  visit("fail", dials.fail);
  visit("fail_late", dials.fail_late);
  visit("throttle", dials.throttle);
  visit("fail_create", dials.fail_create);
  visit("quote_ids", dials.quote_ids);
  visit("trash_keeps", dials.trash_keeps);
  visit("script_limit", dials.script_limit);
  visit("failed_as", dials.failed_as);
  visit("capacity", dials.capacity);
  visit("partial", dials.partial);
  visit("machine_limit", dials.machine_limit);
  visit("rate_limits", dials.rate_limits);
  visit("retry_after", dials.retry_after);
  visit("patience", dials.patience);
  visit("account", dials.account);
  visit("balance", dials.balance);
  visit("answers", dials.answers);
}

Json write(Duration value) { return seconds(value); }
Json write(const std::vector<Answer>& answers) {
  Json out = Json::array();
  for (const Answer& one : answers) {
    out.push_back({{"method", one.method},
                   {"path", one.path},
                   {"skip", one.skip},
                   {"times", one.times},
                   {"perform", one.perform},
                   {"status", one.status},
                   {"headers", one.headers},
                   {"body", one.body}});
  }
  return out;
}
template <typename T>
Json write(const T& value) {
  return value;
}

void read(const Json& value, Duration& out) { out = from_seconds(value.get<double>()); }
void read(const Json& value, std::vector<Answer>& out) {
  out.clear();
  for (const Json& one : value) {
    const std::vector<std::string> wrong = misfits(one,
                                                   {{"method", Kind::text},
                                                    {"path", Kind::text, true},
                                                    {"skip", Kind::whole},
                                                    {"times", Kind::whole},
                                                    {"perform", Kind::flag},
                                                    {"status", Kind::whole},
                                                    {"headers", Kind::object},
                                                    {"body", Kind::any}},
                                                   "an answer");
    if (!wrong.empty()) throw Json::other_error::create(501, wrong.front(), nullptr);
    out.push_back({.method = one.value("method", ""),
                   .path = one.value("path", ""),
                   .skip = one.value("skip", 0),
                   .times = one.value("times", 1),
                   .perform = one.value("perform", false),
                   .status = one.value("status", 0),
                   .headers = one.value("headers", std::map<std::string, std::string>{}),
                   .body = one.contains("body") ? one["body"] : Json()});
  }
}
template <typename T>
void read(const Json& value, T& out) {
  out = value.get<T>();
}

}  // namespace

Json write_dials(const Dials& dials) {
  Json out = Json::object();
  each_dial(dials, [&](const char* name, const auto& value) { out[name] = write(value); });
  return out;
}

std::string turn_dials(Dials& dials, const Json& changes) {
  if (!changes.is_object()) return "dials are an object";
  Dials turned = dials;
  Json left = changes;
  try {
    each_dial(turned, [&](const char* name, auto& value) {
      if (!changes.contains(name)) return;
      read(changes.at(name), value);
      left.erase(name);
    });
  } catch (const Json::exception& error) {
    return error.what();
  }
  if (!left.empty()) return "there is no dial " + left.begin().key();
  dials = std::move(turned);
  return {};
}

}  // namespace skyward::doubles
