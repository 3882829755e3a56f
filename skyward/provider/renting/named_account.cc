#include "skyward/provider/renting/named_account.h"

#include <fmt/format.h>

namespace skyward::provider {

namespace {

class NamedLeaks final : public LeakSource {
 public:
  explicit NamedLeaks(NamedAccount& account) : account_(account) {}

  std::string_view name() const override { return account_.provider(); }
  std::string_view vendor() const override { return account_.cloud(); }
  bool machines_end_themselves() const override { return account_.machines_end_themselves(); }
  Result<SweepAccount> sign_in(Time deadline) override { return account_.sign_in(deadline); }
  std::string place_of(const std::string&) const override { return {}; }
  Result<std::vector<std::string>> regions(Time) override { return std::vector<std::string>(); }
  Result<Listing> list(const std::string& region, const std::optional<std::string>& pool,
                       Time deadline) override;
  std::string way_to_account(const LedgerPool& pool) const override {
    return fmt::format(
        "with the other credentials, run 'skyward gc'; 'skyward pool delete {}' "
        "looks for it with these",
        pool.id);
  }
  std::unique_ptr<MachineApi> machine_api(const Cluster& cluster) override {
    return account_.machine_api(cluster);
  }
  Result<std::vector<std::string>> clear(const Cluster& cluster, PoolBook& book,
                                         Time deadline) override {
    return account_.clear(cluster, book, deadline);
  }

 private:
  NamedAccount& account_;
};

Result<Listing> NamedLeaks::list(const std::string&, const std::optional<std::string>& pool,
                                 Time deadline) {
  Listing out;
  const auto add = [&](std::string_view kind, const std::string& id, const std::string& name,
                       const MachineStatus& status) {
    const auto marked = read_name(name, account_.provider());
    if (!marked || (pool && marked->mark.pool != *pool)) return;
    out.resources.push_back({.kind = std::string(kind),
                             .id = id,
                             .region = status.zone,
                             .pool = marked->mark.pool,
                             .owner = marked->mark.owner,
                             .expires_s = marked->mark.expires_s,
                             .type = status.instance.instance_type,
                             .stopped = status.switched_off});
  };
  const auto failed = [&](const ApiError& error, std::string_view what) {
    return std::unexpected(to_error(error, fmt::format("{}: listing {}", account_.cloud(), what)));
  };
  const auto machines = account_.machines(deadline);
  if (!machines) return failed(machines.error(), "machines");
  for (const auto& [name, status] : *machines) {
    const Instance& instance = status.instance;
    if (status.stage == Stage::terminated) {
      out.ended[instance.id] = status.ended_s;
    } else {
      add("instance", instance.id, name, status);
    }
  }
  for (SideResourceKind* const kind : account_.kinds()) {
    const auto found = kind->list(deadline);
    if (!found) return failed(found.error(), kind->kind());
    for (const SideResource& one : *found) add(kind->kind(), one.id, one.name, {});
  }
  return out;
}

}  // namespace

Result<std::vector<Offer>> NamedCloud::ranked(Result<std::vector<Offer>> found,
                                              std::string_view where, std::string_view region) {
  if (found) {
    ranked_ = *found;
  } else if (empty_regions_.any()) {
    return fail(ErrorKind::exhausted,
                fmt::format("{}: no other {} has such machines", account().cloud(), region),
                "choose other machines, or try again later");
  } else {
    found.error().message = fmt::format("{}: {}", where, found.error().message);
  }
  return found;
}

Status sweep_named(const World& world, NamedAccount& account, const SweepOptions& options,
                   const std::function<void(const Swept&)>& tell, Time deadline) {
  NamedLeaks leaks(account);
  return sweep_account(world, leaks, options, tell, deadline);
}

}  // namespace skyward::provider
