#include "skyward/provider/renting/named_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "skyward/base/check.h"
#include "skyward/base/text.h"

namespace skyward::provider {

namespace {

// So many are asked for one by one; more are looked for in the list of all.
constexpr std::size_t kMostSingleRequests = 3;

// The key of a launch as names have it: without the pool's id.
std::string_view digits_of(std::string_view token) { return token.substr(token.rfind('-') + 1); }

// One code is for many reasons at some clouds: what is missing is in the sentence beside it.
std::string shown_code(const ApiError& error) {
  const bool is_vague = error.refusal == Refusal::capacity && !error.code.empty();
  const std::string_view sentence = is_vague ? trimmed(error.message, ". ") : std::string_view();
  return sentence.empty() ? error.code : std::string(sentence);
}

}  // namespace

NamedMachines::NamedMachines(MachineApiFacts facts, std::string_view provider, Mark mark)
    : facts_(std::move(facts)), provider_(provider), mark_(std::move(mark)) {
  // Without them, a machine that is not listed yet would count as gone.
  SKYWARD_CHECK(facts_.known_after > Duration{} && facts_.release_time > Duration{} &&
                    facts_.unanswered_limit_s > 0,
                "{} lacks a delay", facts_.cloud);
}

std::vector<std::string> NamedMachines::ours(const std::vector<std::string>& ids) const {
  std::vector<std::string> out;
  std::ranges::copy_if(ids, std::back_inserter(out), [&](const std::string& id) {
    const auto name = read_name(id, provider_);
    return name && name->mark.pool == mark_.pool;
  });
  return out;
}

std::string NamedMachines::name_of(const LaunchBatch& batch, int number) const {
  return to_name({.mark = mark_, .rest = fmt::format("{}-{}", digits_of(batch.token), number)});
}

Error NamedMachines::explained(const ApiError& error, std::string_view what) const {
  return to_error(error, fmt::format("{}: {}", facts_.cloud, what));
}

LaunchRefusal NamedMachines::refusal(const ApiError& error) const {
  return {.why = {.error = explained(error, "creating machines"),
                  .capacity = error.kind() == ErrorKind::exhausted,
                  .quota = error.refusal == Refusal::quota,
                  .account = error.refusal == Refusal::insufficient_funds},
          .code = shown_code(error),
          .certain = is_certain(error),
          .doubtful = error.heard == Heard::answered && error.refusal == Refusal::capacity};
}

Result<std::vector<MachineStatus>> NamedMachines::find(std::string_view token, Time deadline) {
  auto all = list(deadline);
  if (!all) return std::unexpected(explained(all.error(), "listing machines"));
  const std::string key = fmt::format("{}-", digits_of(token));
  std::vector<MachineStatus> out;
  for (NamedMachine& one : *all) {
    const auto name = read_name(one.name, provider_);
    if (!name || name->mark.pool != mark_.pool) continue;
    if (token.empty() || name->rest.starts_with(key)) out.push_back(std::move(one.status));
  }
  return out;
}

std::vector<std::string> RestMachines::ids_in(const std::vector<std::string>& asked) const {
  std::vector<std::string> ids;
  std::ranges::copy_if(asked, std::back_inserter(ids),
                       [&](const std::string& id) { return is_id(id); });
  return ids;
}

Result<std::vector<MachineStatus>> RestMachines::look_up_each(const std::vector<std::string>& ids,
                                                              Time deadline) {
  std::vector<MachineStatus> out;
  for (const std::string& id : ids) {
    auto told = get(id, deadline);
    if (told) {
      out.push_back(std::move(told->status));
    } else if (told.error().refusal != Refusal::not_found) {
      return std::unexpected(explained(told.error(), "looking at the machine " + id));
    }
  }
  return out;
}

Result<std::vector<MachineStatus>> RestMachines::look_up(const std::vector<std::string>& asked,
                                                         Time deadline) {
  const std::vector<std::string> ids = ids_in(asked);
  if (ids.empty()) return std::vector<MachineStatus>();
  std::vector<MachineStatus> out;
  if (ids.size() <= kMostSingleRequests) {
    auto found = look_up_each(ids, deadline);
    if (!found) return found;
    out = *std::move(found);
  } else {
    auto all = list(deadline);
    if (!all) return std::unexpected(explained(all.error(), "listing machines"));
    const std::set<std::string> wanted(ids.begin(), ids.end());
    for (NamedMachine& one : *all) {
      if (wanted.contains(one.status.instance.id)) out.push_back(std::move(one.status));
    }
  }
  complete(ids, out, deadline);
  return out;
}

std::string RestMachines::why_refused(const std::string& id) const {
  const auto found = refused_.find(id);
  return found == refused_.end() ? std::string() : found->second;
}

// One that cannot go yet is asked again by whoever waits for its end.
Result<std::vector<std::string>> RestMachines::terminate(const std::vector<std::string>& asked,
                                                         Time deadline) {
  const std::vector<std::string> ids = ids_in(asked);
  if (ids.empty()) return ids;
  const auto done = remove_all(ids, deadline);
  if (!done) return std::unexpected(explained(done.error(), "terminating machines"));
  std::vector<std::string> heard;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const ApiResult<void>& one = (*done)[i];
    refused_.erase(ids[i]);
    if (one) {
      heard.push_back(ids[i]);
    } else if (one.error().refusal == Refusal::conflict) {
      refused_[ids[i]] = one.error().message;
    } else if (one.error().refusal != Refusal::not_found) {
      return std::unexpected(explained(one.error(), "terminating the machine " + ids[i]));
    }
  }
  return heard;
}

}  // namespace skyward::provider
