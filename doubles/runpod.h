#pragma once

// RunPod's API as far as renting pods needs it: REST v2, and GraphQL for bids, where every refusal
// has status 200. A pod is a container; it knows a key with which it can end itself by GraphQL and
// do nothing else. Simplified: clusters, templates and delayed ends (terminateAfter) are missing.

#include "doubles/cloud.h"
#include "doubles/graphql.h"
#include "doubles/runpod_facts.h"

namespace skyward::doubles {

class RunPod final : public Cloud {
 public:
  explicit RunPod(std::uint64_t seed = 1);

  std::map<std::string, std::string> environment(const std::string& url) const override;

  // Of all bids; pods that are rented keep theirs.
  void multiply_bids(double times) { least_bid_ *= times; }

  std::string api_key{};

 private:
  using Names = std::vector<std::string>;
  // What a pod runs on, and what it was promised.
  struct Lease {
    const PodGpu* gpu = nullptr;
    const PodCpu* cpu = nullptr;
    int count = 1;  // GPUs or processors
    std::string cloud = "SECURE";
    double market = 0;  // dollars an hour that a bid must reach
    std::string key{};
    Json env = Json::object();
    bool networked = false;
    std::string cuda{};  // that the host's driver supports; empty without
  };
  // What is asked for, by REST or by GraphQL.
  struct Wish {
    Json body{};  // as REST says it
    Lease lease{};
    std::string place{};  // empty: anywhere
    double price = 0;
    bool bid = false;
  };
  struct Volume {
    std::string id{};
    Json body{};
    Time made{};
  };
  struct Route {
    const char* method;
    const char* pattern;
    std::vector<const char*> query;
    io::HttpReply (RunPod::*perform)(const Request&, const Names&);
  };
  // A refusal that GraphQL tells with status 200.
  struct Refused {
    int status = 0;
    std::string what{};
  };
  static const std::vector<Route>& routes();

  io::HttpReply perform(const Request& request) override;
  io::HttpReply refusal(int status, const std::string& what) override;
  std::vector<Pace> paces(const Request& request) const override;
  void finish(const Request& request, io::HttpReply& reply) override;
  double bill(const Machine& one, Time at) const override;
  double side_bill(Time at) const override;
  std::vector<std::string> side_things() const override;
  void on_preempted(Machine& one) override { one.stop(now()); }

  // What is on sale.
  int stock(const std::string& gpu, const std::string& place) const;
  std::string level(int stock) const;
  Json gpu_json(const PodGpu& gpu, const Request& request) const;
  Json cpu_json(const PodCpu& cpu, const Request& request) const;
  std::vector<std::string> wrong_catalog(const Request& request, bool gpus) const;
  io::HttpReply list_gpus(const Request& request, const Names&);
  io::HttpReply list_cpus(const Request& request, const Names&);
  io::HttpReply list_places(const Request& request, const Names&);

  // Pods.
  std::string status_of(const Machine& one) const;
  bool is_reached(const Machine& one) const;
  Json pod_json(const Machine& one);
  std::vector<std::string> wrong_form(const Json& body) const;
  std::string broken_rule(const Json& body) const;
  std::string find_place(const Wish& wish) const;  // empty: there is no room
  // The oldest driver that will do; empty: there is none.
  static std::string find_driver(const Wish& wish);
  std::expected<Machine*, Refused> make_pod(Wish wish);
  io::HttpReply create_pod(const Request& request, const Names&);
  io::HttpReply list_pods(const Request&, const Names&);
  io::HttpReply get_pod(const Request&, const Names& names);
  io::HttpReply delete_pod(const Request&, const Names& names);
  io::HttpReply act(const Request& request, const Names& names);
  void start(Machine& one);

  // The rest of the account.
  io::HttpReply list_keys(const Request&, const Names&);
  io::HttpReply replace_keys(const Request& request, const Names&);
  io::HttpReply list_volumes(const Request&, const Names&);
  io::HttpReply get_volume(const Request&, const Names& names);
  io::HttpReply create_volume(const Request& request, const Names&);
  io::HttpReply delete_volume(const Request&, const Names& names);
  io::HttpReply list_registries(const Request&, const Names&);

  // GraphQL.
  io::HttpReply graphql(const Request& request, const std::string& key);
  std::expected<Json, Refused> resolve(const Selection& field, const std::string& key);
  std::expected<Json, Refused> rent(const Json& input, bool bid);
  std::expected<Json, Refused> change_pod(const std::string& name, const Json& input);
  Json user_json();
  Json old_gpu_json(const PodGpu& gpu, const Selection& field) const;
  Json old_pod_json(const Machine& one);

  std::map<std::string, Lease> leases_{};  // by machine
  double least_bid_ = 0.5;                 // times the price on demand
  std::vector<std::string> keys_{};
  std::vector<Volume> volumes_{};
};

}  // namespace skyward::doubles
