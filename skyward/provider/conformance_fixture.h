#pragma once

// The clouds as the conformance test sees them: each with a place of its own to live in, and what
// a test may know of it beyond the contract. A new cloud is one row of subjects() in
// conformance_test.cc.

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

  // A provider as another process would make it: it shares with the others what lies on disk and
  // at the cloud, and nothing else.
  virtual std::unique_ptr<Provider> make() = 0;
  // A pool of two machines that are available.
  virtual PoolSpec spec() = 0;
  virtual Time now() = 0;
  // Machines, groups, leases: whatever stands, at the cloud or here.
  virtual int left() = 0;
  // What was asked of the cloud before the ledger had it. Empty where nothing costs anything.
  virtual std::vector<std::string> unaccounted() = 0;
  // From now on each request is answered with a refusal; false where nobody is asked.
  virtual bool refuse_all() { return false; }
};

// A directory with a program in it that can stand for the agent.
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
