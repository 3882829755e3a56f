#pragma once

// Vast.ai's API as far as renting machines needs it: a market of offers that hold one machine each
// and are gone when somebody took them, bids that lose, refusals with status 200, refusals that
// made a machine all the same.

#include "doubles/cloud.h"

namespace skyward::doubles {

class Vast final : public Cloud {
 public:
  explicit Vast(std::uint64_t seed = 1);

  std::map<std::string, std::string> environment(const std::string& url) const override;
  // Of all offers; machines that are rented keep theirs.
  void multiply_prices(double times);

  std::string api_key{};

 private:
  using Names = std::vector<std::string>;
  // A machine's contract: what it took, and at what price.
  struct Contract {
    Json offer{};
    double disk_gb = 0;
    double price = 0;   // what we pay for each hour of running
    double market = 0;  // what a bid must reach to run
    bool is_bid = false;
    std::string key{};  // with which the machine may end itself
    Json keys = Json::array();
  };
  struct Key {
    int id = 0;
    std::string account{};
    std::string text{};
    Time made{};
  };
  struct Overlay {
    int id = 0;
    std::string account{};
    std::string name{};
    Json cluster{};
    Json instances = Json::array();
  };
  struct Route {
    const char* method;
    const char* pattern;
    std::vector<const char*> query;
    io::HttpReply (Vast::*perform)(const Request&, const Names&);
  };
  static const std::vector<Route>& routes();

  io::HttpReply perform(const Request& request) override;
  io::HttpReply refusal(int status, const std::string& what) override;
  std::vector<Pace> paces(const Request& request) const override;
  bool tells_retry_after() const override { return false; }
  double bill(const Machine& one, Time at) const override;
  std::vector<std::string> side_things() const override;

  io::HttpReply refuse(int status, const std::string& error, const std::string& what,
                       const Json& more = Json::object());

  io::HttpReply user(const Request&, const Names&);
  void make_offers();
  Json priced(const Json& offer, const std::string& type, double storage_gb) const;
  io::HttpReply search(const Request& request, const Names&);
  io::HttpReply take_ask(const Request& request, const Names& names);
  std::vector<std::string> wrong_take(const Json& body) const;
  io::HttpReply sell(const Json& offer, const Json& body);

  std::string status_of(const Machine& one) const;
  Json instance_json(const Machine& one);
  io::HttpReply get_instance(const Request&, const Names& names);
  io::HttpReply list_instances(const Request&, const Names&);
  io::HttpReply list_pages(const Request& request, const Names&);
  io::HttpReply change_instance(const Request& request, const Names& names);
  io::HttpReply destroy_instance(const Request&, const Names& names);
  io::HttpReply change_bid(const Request& request, const Names& names);
  io::HttpReply attach_key(const Request& request, const Names& names);

  io::HttpReply list_keys(const Request&, const Names&);
  io::HttpReply create_key(const Request& request, const Names&);
  io::HttpReply delete_key(const Request&, const Names& names);

  io::HttpReply list_overlays(const Request&, const Names&);
  io::HttpReply create_overlay(const Request& request, const Names&);
  io::HttpReply join_overlay(const Request& request, const Names&);
  io::HttpReply delete_overlay(const Request& request, const Names&);

  std::vector<Json> offers_{};
  std::map<std::string, Contract> contracts_{};  // by machine
  std::deque<Key> keys_{};
  std::deque<Overlay> overlays_{};
  int last_id_ = 20'000'000;
};

// Whether an object is as filters want it: {"gpu_name": {"in": ["H100 SXM"]}}. What is wrong with
// the filters goes to `wrong`.
bool fits_filters(const Json& object, const Json& filters, std::vector<std::string>& wrong);

}  // namespace skyward::doubles
