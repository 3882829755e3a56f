#pragma once

// DigitalOcean's API, v2, as far as renting machines needs it: account, balance, offers, keys,
// droplets and their actions, tags, firewalls. Written from the published specification.

#include "doubles/cloud.h"
#include "doubles/digitalocean_facts.h"

namespace skyward::doubles {

bool is_tag(const std::string& name);

class DigitalOcean final : public Cloud {
 public:
  explicit DigitalOcean(std::uint64_t seed = 1);

  std::map<std::string, std::string> environment(const std::string& url) const override;

  // Tokens, and what each may do: "droplet:delete"; "*" for everything.
  std::map<std::string, std::set<std::string>> tokens{};
  std::string token{};  // one that may do everything
  // Of tokens that are another account's than dials.account: they see nothing of this one.
  std::map<std::string, std::string> accounts{};

 private:
  struct Key {
    std::int64_t id = 0;
    std::string account{};
    std::string fingerprint{};
    std::string public_key{};
    std::string name{};
    Time made{};
  };
  struct Action {
    std::int64_t id = 0;
    std::string machine{};
    std::string type{};
    Time began{};
    Time ends{};
    bool fails = false;
    std::string place{};
  };
  struct Firewall {
    std::string id{};
    std::string account{};
    Time made{};
    Json said{};  // as it was asked for
  };
  struct Route {
    const char* method;
    const char* pattern;
    const char* scope;
    std::vector<const char*> query;
    bool paged;
    io::HttpReply (DigitalOcean::*perform)(const Request&, const std::vector<std::string>&);
  };
  using Names = std::vector<std::string>;
  static const std::vector<Route>& routes();

  io::HttpReply perform(const Request& request) override;
  io::HttpReply perform_with(const std::set<std::string>& scopes, const Request& request);
  io::HttpReply refusal(int status, const std::string& what) override;
  std::vector<Pace> paces(const Request& request) const override;
  void finish(const Request& request, io::HttpReply& reply) override;
  std::vector<std::string> side_things() const override;

  // Empty, or why the request is none for this route.
  std::vector<std::string> wrong_query(const Request& request, const Route& route) const;
  io::HttpReply page(const Request& request, const char* name, const Json& all);

  io::HttpReply account(const Request&, const Names&);
  io::HttpReply balance(const Request&, const Names&);
  io::HttpReply regions(const Request& request, const Names&);
  io::HttpReply sizes(const Request& request, const Names&);
  io::HttpReply images(const Request& request, const Names&);

  io::HttpReply list_keys(const Request& request, const Names&);
  io::HttpReply create_key(const Request& request, const Names&);
  io::HttpReply get_key(const Request&, const Names& names);
  io::HttpReply delete_key(const Request&, const Names& names);
  Key* find_key(const std::string& id_or_fingerprint);
  bool has_spread(const Key& key) const { return now() >= key.made + dials.key_lag; }

  io::HttpReply list_droplets(const Request& request, const Names&);
  io::HttpReply create_droplets(const Request& request, const Names&);
  io::HttpReply get_droplet(const Request&, const Names& names);
  io::HttpReply delete_droplet(const Request&, const Names& names);
  io::HttpReply delete_tagged(const Request& request, const Names&);
  std::vector<std::string> wrong_create(const Json& body) const;
  // Empty, or why DigitalOcean has no such machine for us: no fault of form.
  std::string unavailable(const Json& body);
  std::string wrong_keys(const Json& body);
  io::HttpReply sell(const Request& request, const std::vector<std::string>& wanted, bool many);
  bool is_pending(const Machine& one) const;
  Json droplet_json(const Machine& one);

  io::HttpReply act(const Request& request, const Names& names);
  io::HttpReply list_actions(const Request& request, const Names& names);
  io::HttpReply get_action(const Request&, const Names& names);
  Action& add_action(const Machine& one, const char* type, Duration length, bool fails);
  Json action_json(const Action& one);

  io::HttpReply list_tags(const Request& request, const Names&);
  io::HttpReply create_tag(const Request& request, const Names&);
  io::HttpReply get_tag(const Request&, const Names& names);
  io::HttpReply delete_tag(const Request&, const Names& names);
  io::HttpReply tag_droplets(const Request& request, const Names& names);
  Json tag_json(const std::string& name);

  io::HttpReply list_firewalls(const Request& request, const Names&);
  io::HttpReply create_firewall(const Request& request, const Names&);
  io::HttpReply get_firewall(const Request&, const Names& names);
  io::HttpReply delete_firewall(const Request&, const Names& names);
  std::vector<std::string> wrong_firewall(const Json& body) const;
  Json firewall_json(const Firewall& one);

  std::deque<Key> keys_{};
  std::deque<Action> actions_{};
  std::deque<Firewall> firewalls_{};
  std::map<std::string, std::set<std::string>> tags_{};  // by account
  std::int64_t last_id_ = 500'000'000;
};

}  // namespace skyward::doubles
