#include "skyward/provider/container/container_account.h"

#include <fmt/format.h>

namespace skyward::provider::container {

std::unique_ptr<Api> ContainerAccount::make_api() const {
  return std::make_unique<Api>(access_, runner_of(world_, access_),
                               runner_of(world_, access_, world_.launching.get_token()),
                               command_clock(world_));
}

Result<SweepAccount> ContainerAccount::sign_in(Time deadline) {
  if (account_) return *account_;
  const auto failed = [](const ApiError& why) {
    return std::unexpected(to_error(why, kContainers));
  };
  if (const Status here = is_reachable(world_, access_); !here) return fail(here);
  if (access_.runtime.empty()) {
    Access found = access_;
    found.runtime = runtime_here(world_);
    if (access_.host) {
      auto there = api_->runtime(deadline);
      if (!there) return failed(there.error());
      found.runtime = *std::move(there);
    }
    if (found.runtime.empty()) return failed(no_runtime(access_));
    access_ = std::move(found);
    api_ = make_api();
  }
  auto host = api_->host(deadline);
  if (!host) return failed(host.error());
  host_ = *std::move(host);
  // Each user of podman has containers of their own. Several hosts may have one name.
  std::string account = fmt::format("{} at {}:{}", access_.runtime, host_.name, host_.storage);
  if (!host_.id.empty()) account += ", " + host_.id;
  if (access_.host) account += ", through " + access_.host->text();
  account_ = SweepAccount{.owner = owner_digits(account),
                          .account = account,
                          .home_region = host_.name,
                          .is_clock_unknown = true};
  return *account_;
}

Result<SweepAccount> ContainerAccount::look(Time deadline) {
  if (!account_) return sign_in(deadline);
  auto host = api_->host(deadline);
  if (!host) return std::unexpected(to_error(host.error(), kContainers));
  host_ = *std::move(host);
  return *account_;
}

ApiResult<std::vector<NamedMachine>> ContainerAccount::machines(Time deadline) {
  const auto found = api_->containers("", deadline);
  if (!found) return std::unexpected(found.error());
  return machines_of(*found);
}

}  // namespace skyward::provider::container
