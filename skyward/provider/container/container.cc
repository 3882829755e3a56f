#include "skyward/provider/container/container.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "skyward/provider/choosing.h"
#include "skyward/provider/container/container_account.h"
#include "skyward/provider/container/wishes.h"
#include "skyward/provider/keeping/kept_nodes.h"

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;
using container::Access;
using container::ContainerAccount;
using container::ContainerOrder;
using container::kProvider;

// The pull of an image of many GB, and the start of the containers.
constexpr Duration kContainerTimeout = 70min;
// From the start of the container to the agent's first word: its upload, perhaps through ssh.
constexpr Duration kContainerGreetTimeout = 120s;

class ContainerProvider final : public KeptNodes {
 public:
  ContainerProvider(World world, Access access, container::Wishes wishes)
      : KeptNodes(std::move(world), kProvider),
        wishes_(std::move(wishes)),
        account_(world_, std::move(access)) {}

  Capabilities capabilities() const override {
    return {.spot = false,
            .private_network = true,
            .fuse = false,
            .stop_ends_billing = true,
            .provision_timeout = kContainerTimeout,
            .greet_timeout = kContainerGreetTimeout,
            .tend_interval = kTendInterval};
  }

  Result<std::vector<Offer>> offers(const PoolSpec& spec, Time deadline) override;
  Result<Cluster> prepare(const PoolSpec& spec, const Offer& offer, Time deadline) override;
  Connection connection(const Cluster& cluster, const Instance& instance) override;
  Error explain(const Instance& instance, Error error) override;

 protected:
  NamedAccount& account() override { return account_; }
  std::string keeper_directory(const Instance& instance) const override {
    return container::keeper_directory(instance.id);
  }
  Status check_wishes(const PoolSpec& spec) override;
  Result<std::vector<Offer>> all_offers(Time deadline) override;
  Result<std::unique_ptr<MachineApi>> machine_api(const Cluster& cluster, Time deadline) override;

 private:
  Status look(Time deadline);

  const container::Wishes wishes_;
  ContainerAccount account_;
  SweepAccount user_;  // of the last look
};

Status ContainerProvider::check_wishes(const PoolSpec& spec) {
  if (spec.volumes.empty()) return check_packages(spec.image);
  return fail(ErrorKind::unsupported,
              "Containers: volumes cannot be mounted in containers, which may not use FUSE; "
              "nothing was created",
              "read and write the bucket in the function");
}

Status ContainerProvider::look(Time deadline) {
  auto user = account_.look(deadline);
  if (!user) return fail(user);
  user_ = *std::move(user);
  if (!container::is_named_network(wishes_.network)) return {};
  const auto network = account_.api().network(wishes_.network, deadline);
  if (!network) return std::unexpected(to_error(network.error(), "Containers: network="));
  return {};
}

Result<std::vector<Offer>> ContainerProvider::offers(const PoolSpec& spec, Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  return container::fitting_host(account_.host(), spec);
}

Result<std::vector<Offer>> ContainerProvider::all_offers(Time deadline) {
  if (Status looked = look(deadline); !looked) return fail(looked);
  return container::offers_of(account_.host());
}

Result<Cluster> ContainerProvider::prepare(const PoolSpec& spec, const Offer& offer, Time) {
  ContainerOrder order{.request = container::request_of(account_.host(), wishes_, spec, offer),
                       .terms = keeper_terms(spec),
                       .tell = [this](const std::string& line) { tell_once(line); }};
  return open_pool(
      spec, offer,
      {.user = user_,
       .way_back = container::way_back_of(account_.access()),
       .zone = account_.host().name,
       .launch_api = [this, order = std::move(order)](const Mark& mark, Duration left) {
         ContainerOrder now = order;
         now.life = left;
         return account_.launch_api(mark, std::move(now));
       }});
}

Result<std::unique_ptr<MachineApi>> ContainerProvider::machine_api(const Cluster& cluster,
                                                                   Time deadline) {
  if (const auto signed_in = account_.sign_in(deadline); !signed_in) return fail(signed_in);
  return account_.machine_api(cluster);
}

Connection ContainerProvider::connection(const Cluster& cluster, const Instance& instance) {
  const Access& access = account_.access();
  Connection out = connection_by(
      cluster, access.words_to({access.runtime, "exec", "--interactive", instance.id, "sh", "-c"}));
  out.environment = access.environment();
  out.permanent_errors = {"no such container", "No such container", "container state improper",
                          "is not running"};
  if (access.host) {
    std::ranges::copy(permanent_ssh_errors(), std::back_inserter(out.permanent_errors));
  }
  return out;
}

Error ContainerProvider::explain(const Instance& instance, Error error) {
  const Access& access = account_.access();
  if (access.host) error = explain_ssh_error(*access.host, {}, std::move(error));
  if (!error.hint.empty()) return error;
  error.hint =
      error.message.contains("bash")
          ? "the container image needs bash: use another one with image="
          : fmt::format("'{} ps --all' shows whether {} still runs", access.runtime, instance.id);
  return error;
}

}  // namespace

Result<std::unique_ptr<Provider>> make_container(const ProviderSpec& spec, World world) {
  auto access = container::find_access(spec);
  if (!access) return fail(access);
  auto wishes = container::read_wishes(spec);
  if (!wishes) return fail(wishes);
  return std::make_unique<ContainerProvider>(std::move(world), *std::move(access),
                                             *std::move(wishes));
}

}  // namespace skyward::provider
