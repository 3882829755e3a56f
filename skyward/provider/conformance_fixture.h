#pragma once

// The clouds under the conformance test: each has a directory of its own, and tells the test what
// the contract does not. A new cloud is one row of subjects() in conformance_test.cc.

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "skyward/base/error.h"
#include "skyward/base/time.h"
#include "skyward/io/machine.h"
#include "skyward/io/private_directory.h"
#include "skyward/provider/provider.h"
#include "skyward/spec/pool_spec.h"

namespace skyward::provider {

class Subject {
 public:
  virtual ~Subject() = default;

  // A provider as another process would create it: it shares only the disk and the cloud with the
  // others.
  virtual std::unique_ptr<Provider> make() = 0;
  // A pool of two machines that are available.
  virtual PoolSpec spec() = 0;
  virtual Time now() = 0;
  // How many machines cost money now. None of providers that cost nothing.
  virtual int standing() { return 0; }
  // How many machines, groups and leases exist, at the cloud or here, when all has been swept.
  virtual int left() = 0;
  // Requests that reached the cloud before the ledger had them. Empty for providers that cost
  // nothing.
  virtual std::vector<std::string> unaccounted() = 0;
  // What a sweep removes on another computer, whose clock is two hours ahead. Empty where the
  // cloud's double tells no time, or nothing is swept.
  virtual std::vector<std::string> swept_ahead() { return {}; }
  // From now on the cloud refuses every request; false if the provider sends none.
  virtual bool refuse_all() { return false; }
};

// A directory with a program that plays the agent.
class SubjectHome {
 public:
  SubjectHome() {
    std::filesystem::create_directories(path);
    std::ofstream(agent()) << "#!/bin/sh\n";
    std::filesystem::permissions(agent(), std::filesystem::perms::owner_all);
    std::ofstream(path + "/package.tar") << "modules";
  }
  SubjectHome(const SubjectHome&) = delete;
  SubjectHome& operator=(const SubjectHome&) = delete;
  ~SubjectHome() { (void)io::remove_tree(path); }

  std::string agent() const { return path + "/agent"; }
  PoolSpec spec(std::string provider) const {
    PoolSpec spec;
    spec.provider.name = std::move(provider);
    spec.nodes = 2;
    spec.spot = Spot::Never();
    spec.timeout = std::chrono::hours(1);
    spec.agent_path = agent();
    spec.runtime.command = {agent()};
    return spec;
  }

  const std::string path =
      std::filesystem::temp_directory_path().string() + "/skyward-subject-" + io::random_hex(8);
};

struct SubjectRow {
  const char* name;
  std::unique_ptr<Subject> (*make)();
};

}  // namespace skyward::provider
