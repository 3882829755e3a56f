#include "skyward/provider/renting/named_machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "skyward/base/check.h"

namespace skyward::provider {

namespace {

// So many are asked for one by one; more are looked for in the list of all.
constexpr std::size_t kMostSingleRequests = 3;

// The key of a launch as names have it: without the pool's id.
std::string_view digits_of(std::string_view token) { return token.substr(token.rfind('-') + 1); }

}  // namespace

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
          .code = error.code,
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

Result<std::vector<MachineStatus>> NamedMachines::look_up_each(const std::vector<std::string>& ids,
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

Result<std::vector<MachineStatus>> NamedMachines::look_up(const std::vector<std::string>& asked,
                                                          Time deadline) {
  std::vector<std::string> ids;
  std::ranges::copy_if(asked, std::back_inserter(ids),
                       [&](const std::string& id) { return is_id(id); });
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

ApiResult<std::vector<ApiResult<void>>> NamedMachines::remove_all(
    const std::vector<std::string>& ids, Time deadline) {
  std::vector<ApiResult<void>> out;
  for (const std::string& id : ids) out.push_back(remove(id, deadline));
  return out;
}

ApiResult<void> NamedMachines::remove(const std::string& id, Time) {
  SKYWARD_CHECK(false, "{} is removed with others", id);
}

std::string NamedMachines::why_refused(const std::string& id) const {
  const auto found = refused_.find(id);
  return found == refused_.end() ? std::string() : found->second;
}

// One that cannot go yet is asked again by whoever waits for its end.
Result<std::vector<std::string>> NamedMachines::terminate(const std::vector<std::string>& asked,
                                                          Time deadline) {
  std::vector<std::string> ids;
  std::ranges::copy_if(asked, std::back_inserter(ids),
                       [&](const std::string& id) { return is_id(id); });
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
