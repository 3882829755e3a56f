// The contract of provider.h, held to every cloud by one and the same body. What only one cloud can
// do is tested beside it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "skyward/provider/aws/aws_computer_fixture.h"
#include "skyward/provider/command/command.h"
#include "skyward/provider/conformance_fixture.h"
#include "skyward/provider/container/container_computer_fixture.h"
#include "skyward/provider/digital_ocean/digital_ocean_computer_fixture.h"
#include "skyward/provider/fake/fake.h"
#include "skyward/provider/kubernetes/kubernetes_computer_fixture.h"
#include "skyward/provider/local/local.h"
#include "skyward/provider/open_pools.h"
#include "skyward/provider/runpod/runpod_computer_fixture.h"
#include "skyward/provider/slurm/slurm_computer_fixture.h"
#include "skyward/provider/ssh/ssh.h"
#include "skyward/provider/table.h"
#include "skyward/provider/vast/vast_computer_fixture.h"
#include "skyward/provider/verda/verda_computer_fixture.h"
#include "skyward/spec/provider_settings.h"

namespace skyward::provider {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// ---- The clouds

int entries_of(const std::string& directory) {
  int count = 0;
  for (const std::string& name : io::list_directory(directory)) count += name != "lock";
  return count;
}

class LocalSubject final : public Subject {
 public:
  std::unique_ptr<Provider> make() override {
    return make_local({.name = "local"},
                      {.state_root = home_.path + "/state",
                       .environment_root = home_.path + "/environments",
                       .variable = [](const char*) { return std::optional<std::string>(); }});
  }
  PoolSpec spec() override { return home_.spec("local"); }
  Time now() override { return Time{}; }
  int left() override { return entries_of(home_.path + "/state"); }
  std::vector<std::string> unaccounted() override { return {}; }

 private:
  SubjectHome home_;
};

class SshSubject final : public Subject {
 public:
  std::unique_ptr<Provider> make() override {
    return *make_ssh(
        {.name = "ssh", .settings = {{"hosts", "192.0.2.1\n192.0.2.2\n192.0.2.3"}}},
        [](const char*) { return std::optional<std::string>(); }, home_.path + "/state");
  }
  PoolSpec spec() override { return home_.spec("ssh"); }
  Time now() override { return Time{}; }
  int left() override { return entries_of(home_.path + "/state"); }
  std::vector<std::string> unaccounted() override { return {}; }

 private:
  SubjectHome home_;
};

class CommandSubject final : public Subject {
 public:
  std::unique_ptr<Provider> make() override {
    return *make_command(
        {.name = "command", .settings = {{"commands", R"([["a", "-c"], ["b", "-c"], ["c"]])"}}});
  }
  PoolSpec spec() override { return home_.spec("command"); }
  Time now() override { return Time{}; }
  int left() override { return 0; }
  std::vector<std::string> unaccounted() override { return {}; }

 private:
  SubjectHome home_;
};

class AwsSubject final : public Subject {
 public:
  AwsSubject() {
    computer_.amazon_.refuse = [this](const std::string& action, const aws::Ec2Double::Form& form) {
      if (refusing_) return std::pair(400, std::string("UnauthorizedOperation"));
      audit(action, form);
      return std::pair(0, std::string());
    };
  }
  std::unique_ptr<Provider> make() override { return computer_.provider(); }
  PoolSpec spec() override { return computer_.spec_; }
  Time now() override { return computer_.fixture_.now; }
  int standing() override { return computer_.standing(); }
  int left() override {
    const int before = standing();
    computer_.amazon_.refuse = nullptr;
    computer_.let_go();
    return before + static_cast<int>(computer_.amazon_.groups.size()) +
           static_cast<int>(computer_.open_pools().size());
  }
  std::vector<std::string> unaccounted() override { return unaccounted_; }
  bool refuse_all() override { return refusing_ = true; }

 private:
  // What makes something bears the key under which the ledger has it.
  void audit(const std::string& action, const aws::Ec2Double::Form& form) {
    const bool makes = action.starts_with("Create") || action == "RunInstances";
    if (!makes) return;
    const auto token = form.find(action == "RunInstances" ? "ClientToken" : "GroupName");
    const std::string key = token == form.end() ? "" : token->second;
    auto ledger = open_ledger(computer_.fixture_.world);
    for (const LedgerPool& pool : computer_.open_pools()) {
      const auto entries = *(*ledger)->entries(pool.id, true);
      if (std::ranges::find(entries, key, &LedgerEntry::key) != entries.end()) return;
    }
    unaccounted_.push_back(action + " " + key);
  }

  aws::AwsComputer computer_;
  bool refusing_ = false;
  std::vector<std::string> unaccounted_;
};

// See Subject::swept_ahead().
std::vector<std::string> sweep_ahead(const ComputerFixture& computer) {
  World world = computer.fixture_.world;
  world.wall_s = [own = world.wall_s] { return own() + 2 * 3600; };
  world.variable = [&computer, own = world.variable](const char* name) {
    return std::string_view(name) == "XDG_STATE_HOME" ? computer.home_ + "/elsewhere" : own(name);
  };
  std::vector<std::string> removed;
  // A cloud whose clock shows another time refuses.
  (void)find_row(computer.spec_.provider.name)
      ->sweep(
          world, {},
          [&](const Swept& one) {
            if (one.action != SweepAction::kept) removed.push_back(one.resource.id);
          },
          computer.soon());
  return removed;
}

// `Computer` is a DoubledComputer.
template <typename Computer>
class DoubledSubject final : public Subject {
 public:
  DoubledSubject() {
    computer_.cloud_->on_request = [this](int, bool after) {
      if (!after) return;
      const doubles::Heard& heard = computer_.cloud_->heard.back();
      const bool makes = heard.method == "POST" || heard.path.contains("/asks/");
      if (makes && heard.status < 300) audit(heard);
    };
  }
  std::unique_ptr<Provider> make() override { return computer_.provider(); }
  PoolSpec spec() override { return computer_.spec_; }
  Time now() override { return computer_.fixture_.now; }
  int standing() override {
    return static_cast<int>(
        std::ranges::count(computer_.cloud_->machines, kNever, &doubles::Machine::ended));
  }
  int left() override {
    computer_.cloud_->on_request = nullptr;
    computer_.cloud_->dials.answers.clear();
    computer_.fixture_.now += 31min;
    (void)computer_.gc();
    return static_cast<int>(computer_.cloud_->leftovers().size() + computer_.open_pools().size());
  }
  std::vector<std::string> unaccounted() override { return unaccounted_; }
  std::vector<std::string> swept_ahead() override { return sweep_ahead(computer_); }
  bool refuse_all() override {
    computer_.cloud_->dials.answers = {
        {.path = "/*",
         .times = -1,
         .status = 401,
         .body = {
             {"id", "unauthorized"}, {"code", "unauthorized_request"}, {"message", "not you"}}}};
    return true;
  }

 private:
  // What makes something bears the key under which the ledger has it.
  void audit(const doubles::Heard& heard) {
    std::string name = heard.body.value("hostname", heard.body.value("name", ""));
    if (heard.path.contains("/asks/")) name = heard.body["label"];
    const auto input = nlohmann::json::json_pointer("/variables/input/name");
    if (heard.body.contains(input)) name = heard.body[input];
    if (heard.body.contains("names")) name = heard.body["names"].front();
    if (heard.path.ends_with("/pods") && heard.body.contains("metadata")) {
      name = heard.body["metadata"]["name"];
    }
    if (name.empty()) return;  // a login
    auto ledger = open_ledger(computer_.fixture_.world);
    for (const LedgerPool& pool : computer_.open_pools()) {
      const auto entries = *(*ledger)->entries(pool.id, true);
      for (const LedgerEntry& entry : entries) {
        const std::string digits = entry.key.substr(entry.key.rfind('-') + 1);
        if (entry.key == name || name.contains("-" + digits + "-")) return;
      }
    }
    unaccounted_.push_back(heard.path + " " + name);
  }

  Computer computer_;
  std::vector<std::string> unaccounted_;
};

class FakeSubject final : public Subject {
 public:
  std::unique_ptr<Provider> make() override {
    fake::ClientComputer here = computer();
    here.local = {.state_root = home_.path + "/nodes",
                  .environment_root = home_.path + "/environments",
                  .variable = here.world.variable};
    return fake::make_fake(spec().provider, std::move(here));
  }
  PoolSpec spec() override {
    PoolSpec spec = home_.spec("fake");
    spec.accelerator = Accelerator{.name = "A100"};
    return spec;
  }
  Time now() override { return kNow; }
  int standing() override {
    return cloud_->ask([](fake::Cloud& cloud, Time) { return cloud.standing(); });
  }
  int left() override {
    const auto resources = cloud_->ask([](fake::Cloud& cloud, Time) { return cloud.resources(); });
    auto ledger = open_ledger(computer().world);
    return static_cast<int>(resources.size() + (*(*ledger)->pools(true)).size());
  }
  // The cloud counts what is against its rules; that the ledger comes first, fake_test.cc shows.
  std::vector<std::string> unaccounted() override {
    return cloud_->ask([](fake::Cloud& cloud, Time) { return cloud.violations(); });
  }

 private:
  static constexpr Time kNow = Time{} + 1h;
  static fake::CloudConfig config() {
    fake::CloudConfig config;
    config.types = {{.name = "fake-a100",
                     .accelerator = "A100",
                     .accelerator_memory_gb = 80,
                     .on_demand = 4'000'000,
                     .spot = 1'200'000}};
    return config;
  }
  fake::ClientComputer computer() {
    return fake::make_client_computer(cloud_, home_.path + "/state");
  }

  SubjectHome home_;
  const std::shared_ptr<fake::Simulation> cloud_ =
      fake::Simulation::start({.config = config(), .speed = 0, .clock = [] { return kNow; }});
};

// A machine's name bears the key under which the ledger has it.
bool is_in_ledger(ComputerFixture& computer, const std::string& name) {
  auto ledger = open_ledger(computer.fixture_.world);
  for (const LedgerPool& pool : computer.open_pools()) {
    const auto entries = *(*ledger)->entries(pool.id, true);
    for (const LedgerEntry& entry : entries) {
      const std::string digits = entry.key.substr(entry.key.rfind('-') + 1);
      if (name.contains("-" + digits + "-")) return true;
    }
  }
  return false;
}

class SlurmSubject final : public Subject {
 public:
  SlurmSubject() {
    computer_.slurm_->on_request = [this](int, bool after) {
      const auto& jobs = computer_.slurm_->jobs;
      if (!after || jobs.empty() || newest_ == jobs.back().id) return;
      newest_ = jobs.back().id;
      if (!is_in_ledger(computer_, jobs.back().name)) unaccounted_.push_back(jobs.back().name);
    };
  }
  std::unique_ptr<Provider> make() override { return computer_.provider(); }
  PoolSpec spec() override { return computer_.spec_; }
  Time now() override { return computer_.fixture_.now; }
  int standing() override { return computer_.standing(); }
  int left() override {
    computer_.slurm_->on_request = nullptr;
    computer_.slurm_->refuses = false;
    computer_.fixture_.now += 31min;
    (void)computer_.gc();
    return standing() + static_cast<int>(computer_.open_pools().size());
  }
  std::vector<std::string> unaccounted() override { return unaccounted_; }
  std::vector<std::string> swept_ahead() override { return sweep_ahead(computer_); }
  bool refuse_all() override { return computer_.slurm_->refuses = true; }

 private:
  slurm::SlurmComputer computer_;
  int newest_ = 0;  // the number of the job that was seen last
  std::vector<std::string> unaccounted_;
};

class ContainerSubject final : public Subject {
 public:
  ContainerSubject() {
    computer_.engine_->on_request = [this](int, bool after) {
      const auto& containers = computer_.engine_->containers;
      if (!after || containers.empty() || newest_ == containers.back().name) return;
      newest_ = containers.back().name;
      if (!is_in_ledger(computer_, newest_)) unaccounted_.push_back(newest_);
    };
  }
  std::unique_ptr<Provider> make() override { return computer_.provider(); }
  PoolSpec spec() override { return computer_.spec_; }
  Time now() override { return computer_.fixture_.now; }
  int standing() override { return computer_.standing(); }
  int left() override {
    computer_.engine_->on_request = nullptr;
    computer_.engine_->forbidden = false;
    computer_.fixture_.now += 31min;
    (void)computer_.gc();
    return standing() + static_cast<int>(computer_.open_pools().size());
  }
  std::vector<std::string> unaccounted() override { return unaccounted_; }
  std::vector<std::string> swept_ahead() override { return sweep_ahead(computer_); }
  bool refuse_all() override { return computer_.engine_->forbidden = true; }

 private:
  container::ContainerComputer computer_;
  std::string newest_;  // the name of the container that was seen last
  std::vector<std::string> unaccounted_;
};

template <typename S>
std::unique_ptr<Subject> make_subject() {
  return std::make_unique<S>();
}

const std::vector<SubjectRow>& subjects() {
  static const std::vector<SubjectRow> kSubjects = {
      {"local", make_subject<LocalSubject>},
      {"ssh", make_subject<SshSubject>},
      {"command", make_subject<CommandSubject>},
      {"aws", make_subject<AwsSubject>},
      {"fake", make_subject<FakeSubject>},
      {"digital_ocean", make_subject<DoubledSubject<digital_ocean::DigitalOceanComputer>>},
      {"verda", make_subject<DoubledSubject<verda::VerdaComputer>>},
      {"runpod", make_subject<DoubledSubject<runpod::RunPodComputer>>},
      {"kubernetes", make_subject<DoubledSubject<kubernetes::KubernetesComputer>>},
      {"slurm", make_subject<SlurmSubject>},
      {"container", make_subject<ContainerSubject>},
      {"vastai", make_subject<DoubledSubject<vast::VastComputer>>},
  };
  return kSubjects;
}

TEST(ConformanceRows, EveryCloudOfTheTableIsASubject) {
  for (const TableRow& row : provider_table()) {
    EXPECT_TRUE(std::ranges::any_of(subjects(), [&](const SubjectRow& subject) {
      return row.name == subject.name;
    })) << row.name;
  }
}

// ---- The body

class Conformance : public ::testing::TestWithParam<SubjectRow> {
 protected:
  ~Conformance() override {
    EXPECT_EQ(subject_->left(), 0);
    EXPECT_THAT(subject_->unaccounted(), IsEmpty());
  }

  Time soon() { return subject_->now() + 300s; }
  Cluster prepared(Provider& provider) {
    const auto offers = provider.offers(spec_, soon());
    EXPECT_TRUE(offers) << offers.error().message;
    const auto cluster = provider.prepare(spec_, offers->front(), soon());
    EXPECT_TRUE(cluster) << cluster.error().message;
    return *cluster;
  }
  std::vector<Instance> bought(Provider& provider, const Cluster& cluster, int count, int first) {
    const auto instances = provider.provision(cluster, count, first, soon());
    EXPECT_TRUE(instances) << instances.error().message;
    return instances.value_or(std::vector<Instance>{});
  }
  bool stands(Provider& provider, const Cluster& cluster, const std::string& id) {
    const auto found = provider.get_instance(cluster, id, soon());
    EXPECT_TRUE(found) << found.error().message;
    return found && found->has_value();
  }
  // Its machines end without a sweep.
  void end(Provider& provider, const Cluster& cluster) {
    const Status ended = provider.teardown(cluster, soon());
    EXPECT_TRUE(ended) << ended.error().message;
    EXPECT_EQ(subject_->standing(), 0);
  }
  // What failed, and what to do about it.
  static void expect_useful(const Error& error) {
    EXPECT_GT(error.message.size(), 15U) << error.message;
    EXPECT_FALSE(error.hint.empty()) << error.message;
    EXPECT_FALSE(error.message.ends_with('.')) << error.message;
  }

  const std::unique_ptr<Subject> subject_ = GetParam().make();
  PoolSpec spec_ = subject_->spec();
};

TEST_P(Conformance, ALifeGoesThroughAllVerbsAndLeavesNothing) {
  const auto provider = subject_->make();
  EXPECT_EQ(provider->name(), GetParam().name);
  ASSERT_TRUE(provider->check(spec_));
  const Cluster cluster = prepared(*provider);
  EXPECT_THAT(cluster.id, StartsWith(std::string(GetParam().name) + "-"));
  EXPECT_FALSE(cluster.instance_type.empty());
  const std::vector<Instance> instances = bought(*provider, cluster, 2, 0);
  ASSERT_THAT(instances, SizeIs(2));
  EXPECT_NE(instances[0].id, instances[1].id);
  for (const Instance& one : instances) {
    EXPECT_TRUE(stands(*provider, cluster, one.id));
    EXPECT_FALSE(one.private_ip.empty());
  }
  EXPECT_TRUE(provider->terminate(cluster, {instances[0].id, instances[1].id}, soon()));
  EXPECT_FALSE(stands(*provider, cluster, instances[0].id));
  end(*provider, cluster);
}

TEST_P(Conformance, OffersComeCheapestFirst) {
  const auto provider = subject_->make();
  const auto offers = provider->offers(spec_, soon());
  ASSERT_TRUE(offers) << offers.error().message;
  ASSERT_FALSE(offers->empty());
  for (std::size_t i = 1; i < offers->size(); ++i) {
    EXPECT_LE((*offers)[i - 1].price_on_demand.value_or(1e9),
              (*offers)[i].price_on_demand.value_or(1e9));
  }
  for (const Offer& offer : *offers) {
    EXPECT_FALSE(offer.instance_type.empty());
    EXPECT_FALSE(offer.region.empty());
  }
  const auto catalogue = provider->catalogue(soon());
  ASSERT_TRUE(catalogue) << catalogue.error().message;
  EXPECT_FALSE(catalogue->empty());
}

TEST_P(Conformance, EndingTwiceAndEndingWhatIsUnknownIsFine) {
  const auto provider = subject_->make();
  const Cluster cluster = prepared(*provider);
  const std::string id = bought(*provider, cluster, 1, 0).front().id;
  EXPECT_TRUE(provider->terminate(cluster, {"nobody-7", "", id}, soon()));
  EXPECT_TRUE(provider->terminate(cluster, {id}, soon()));
  EXPECT_TRUE(provider->terminate(cluster, {}, soon()));
  EXPECT_FALSE(stands(*provider, cluster, "nobody-7"));
  EXPECT_FALSE(stands(*provider, cluster, id));
  end(*provider, cluster);
  end(*provider, cluster);
}

TEST_P(Conformance, AnIdNeverComesBackAndNamesOneMachineOnly) {
  const auto provider = subject_->make();
  const Cluster cluster = prepared(*provider);
  std::set<std::string> seen;
  std::string old;
  for (int i = 0; i < 6; ++i) {
    const std::string id = bought(*provider, cluster, 1, 0).front().id;
    EXPECT_TRUE(seen.insert(id).second) << id;
    if (!old.empty()) {
      EXPECT_FALSE(stands(*provider, cluster, old));
      EXPECT_TRUE(provider->terminate(cluster, {old}, soon()));
    }
    EXPECT_TRUE(stands(*provider, cluster, id)) << "ending an old machine has ended a new one";
    EXPECT_TRUE(provider->terminate(cluster, {id}, soon()));
    old = id;
  }
  end(*provider, cluster);
}

TEST_P(Conformance, TeardownEndsWhatStillStands) {
  const auto provider = subject_->make();
  const Cluster cluster = prepared(*provider);
  (void)bought(*provider, cluster, 2, 0);
  end(*provider, cluster);
}

TEST_P(Conformance, AnotherProcessEndsAPoolByItsClusterAlone) {
  Cluster cluster;
  {
    const auto provider = subject_->make();
    cluster = prepared(*provider);
    (void)bought(*provider, cluster, 2, 0);
  }
  const auto other = subject_->make();
  end(*other, cluster);
}

// Its pools seem over there.
TEST_P(Conformance, ASweepOnAComputerWithAWrongClockRemovesNothing) {
  const auto provider = subject_->make();
  const Cluster cluster = prepared(*provider);
  const std::vector<Instance> instances = bought(*provider, cluster, 2, 0);
  EXPECT_THAT(subject_->swept_ahead(), IsEmpty());
  for (const Instance& one : instances) EXPECT_TRUE(stands(*provider, cluster, one.id));
  end(*provider, cluster);
}

TEST_P(Conformance, WithoutTimeNothingIsLeft) {
  const auto provider = subject_->make();
  const Cluster cluster = prepared(*provider);
  const auto instances = provider->provision(cluster, 2, 0, subject_->now());
  if (!instances) expect_useful(instances.error());
  end(*provider, cluster);
}

TEST_P(Conformance, WhatCannotBeIsRefusedBeforeAnythingIsLaunched) {
  const auto provider = subject_->make();
  spec_.agent_path = "/nowhere/agent";
  const Status refused = provider->check(spec_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  expect_useful(refused.error());
}

TEST_P(Conformance, RentedMachinesHaveNoPackagesOfThisComputer) {
  const ProviderSheet* sheet = find_provider_sheet(GetParam().name);
  if (sheet == nullptr || !sheet->rents) return;
  if (sheet->name == "slurm" || sheet->name == "kubernetes") return;  // may share a disk with us
  spec_.image.pip = {spec_.agent_path};
  const Status refused = subject_->make()->check(spec_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  expect_useful(refused.error());
}

TEST_P(Conformance, GpusAreSplitWhereNodesMayOrRefusedBeforeAnythingIsLaunched) {
  const ProviderSheet* sheet = find_provider_sheet(GetParam().name);
  const auto provider = subject_->make();
  spec_.accelerator = *catalogue_accelerator("A100", {.mig = "3g.40gb"});
  const Status possible = provider->check(spec_);
  if (!provider->capabilities().splits_gpus) {
    ASSERT_FALSE(possible);
    expect_useful(possible.error());
  } else if (sheet != nullptr && sheet->rents) {  // others may have no such GPU
    EXPECT_TRUE(possible) << possible.error().message;
  }
}

TEST_P(Conformance, APoolThatNobodyPreparedHasNoMachines) {
  const auto provider = subject_->make();
  const auto instances =
      provider->provision({.id = std::string(GetParam().name) + "-00000000"}, 1, 0, soon());
  ASSERT_FALSE(instances);
  EXPECT_EQ(instances.error().kind, ErrorKind::invalid);
  expect_useful(instances.error());
}

TEST_P(Conformance, RefusalsAreToldInTheOthersWords) {
  const auto provider = subject_->make();
  const Cluster cluster = prepared(*provider);
  const std::string id = bought(*provider, cluster, 1, 0).front().id;
  end(*provider, cluster);
  if (!subject_->refuse_all()) return;
  const auto offers = provider->offers(spec_, soon());
  ASSERT_FALSE(offers);
  EXPECT_EQ(offers.error().kind, ErrorKind::denied);
  expect_useful(offers.error());
  const auto found = provider->get_instance(cluster, id, soon());
  ASSERT_FALSE(found) << "who may not look does not know";
  expect_useful(found.error());
  const Status ended = provider->terminate(cluster, {id}, soon());
  ASSERT_FALSE(ended) << "who may not look does not know";
  expect_useful(ended.error());
}

TEST_P(Conformance, CapabilitiesAreHonest) {
  const auto provider = subject_->make();
  const Capabilities capabilities = provider->capabilities();
  const Cluster cluster = prepared(*provider);
  const Instance instance = bought(*provider, cluster, 1, 0).front();
  const Connection connection = provider->connection(cluster, instance);
  const Bootstrap bootstrap = provider->bootstrap(cluster, instance);
  EXPECT_FALSE(connection.command.empty());
  EXPECT_EQ(connection.agents.empty(), !connection.shell);
  // Memory goes by descriptor to a process of this machine, which no shell stands before.
  EXPECT_NE(capabilities.descriptors, connection.shell);
  EXPECT_TRUE(capabilities.spot || !instance.spot);
  const std::string& sign = capabilities.preemption;
  EXPECT_TRUE(sign.empty() || sign == "ec2" || sign.starts_with("file:")) << sign;
  EXPECT_GT(capabilities.greet_timeout, Duration{});
  // Who ends a machine by powering it off must know how.
  if (connection.shell) {
    EXPECT_EQ(capabilities.stop_ends_billing, !bootstrap.end_command.empty());
  }
  const Error told =
      provider->explain(instance, {.kind = ErrorKind::lost, .message = "the way is broken"});
  EXPECT_FALSE(told.message.empty());
  end(*provider, cluster);
}

INSTANTIATE_TEST_SUITE_P(Clouds, Conformance, ::testing::ValuesIn(subjects()),
                         [](const auto& made) { return std::string(made.param.name); });

}  // namespace
}  // namespace skyward::provider
