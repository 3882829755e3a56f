#pragma once

// The machines of one pool at a cloud that has no tags that can be trusted: their names carry the
// marks (marks.h), and one listing shows the whole account.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/marks.h"
#include "skyward/provider/pool_machines.h"
#include "skyward/provider/rest/api_error.h"

namespace skyward::provider {

struct NamedMachine {
  std::string name{};
  MachineStatus status{};
};

class NamedMachines : public MachineApi {
 public:
  const MachineApiFacts& facts() const override { return facts_; }
  Result<std::vector<MachineStatus>> find(std::string_view token, Time deadline) override;

 protected:
  // To find or terminate machines, `mark.pool` is enough. `provider`: as in read_name().
  NamedMachines(MachineApiFacts facts, std::string_view provider, Mark mark);

  // Every machine of the account.
  virtual ApiResult<std::vector<NamedMachine>> list(Time deadline) = 0;

  // Where names are ids: those of the pool.
  std::vector<std::string> ours(const std::vector<std::string>& ids) const;
  // Of the machine with this number in a batch.
  std::string name_of(const LaunchBatch& batch, int number) const;
  Error explained(const ApiError& error, std::string_view what) const;
  LaunchRefusal refusal(const ApiError& error) const;

 private:
  const MachineApiFacts facts_;
  const std::string_view provider_;
  const Mark mark_;
};

// Those of a cloud with a REST API, which looks at machines and terminates them by their ids.
class RestMachines : public NamedMachines {
 public:
  Result<std::vector<MachineStatus>> look_up(const std::vector<std::string>& ids,
                                             Time deadline) override;
  Result<std::vector<std::string>> terminate(const std::vector<std::string>& ids,
                                             Time deadline) override;
  std::string why_refused(const std::string& id) const override;

 protected:
  using NamedMachines::NamedMachines;

  // Nothing else may become part of a request: others than this cloud may have written the ledger.
  virtual bool is_id(std::string_view id) const = 0;
  virtual ApiResult<NamedMachine> get(const std::string& id, Time deadline) = 0;
  // One answer for each: `not_found` when there is none of that id; `conflict` while it cannot go
  // yet.
  virtual ApiResult<std::vector<ApiResult<void>>> remove_all(const std::vector<std::string>& ids,
                                                             Time deadline) = 0;
  // The answers where each takes a request: `remove(id)`.
  template <typename Remove>
  static std::vector<ApiResult<void>> remove_each(const std::vector<std::string>& ids,
                                                  Remove remove) {
    std::vector<ApiResult<void>> out;
    for (const std::string& id : ids) out.push_back(remove(id));
    return out;
  }
  // Completes what was found by what only the launch knows.
  virtual void complete(const std::vector<std::string>&, std::vector<MachineStatus>&, Time) {}

 private:
  Result<std::vector<MachineStatus>> look_up_each(const std::vector<std::string>& ids,
                                                  Time deadline);
  std::vector<std::string> ids_in(const std::vector<std::string>& asked) const;

  std::map<std::string, std::string> refused_;  // to terminate a machine: the cloud's words
};

}  // namespace skyward::provider
