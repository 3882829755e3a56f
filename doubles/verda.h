#pragma once

// Verda's API, v1, as far as renting machines needs it. Written from what its own clients send and
// expect: a published specification does not exist. Ids come as plain text, sometimes in quotes;
// prices as text or numbers; a request for several machines may succeed for some.

#include "doubles/cloud.h"
#include "doubles/verda_facts.h"

namespace skyward::doubles {

class Verda final : public Cloud {
 public:
  explicit Verda(std::uint64_t seed = 1);

  std::map<std::string, std::string> environment(const std::string& url) const override;

  std::string client_id{};
  std::string client_secret{};

 private:
  using Names = std::vector<std::string>;
  struct NamedText {  // a key or a script
    std::string id{};
    std::string account{};
    std::string name{};
    std::string text{};
    Time made{};
  };
  struct Volume {
    std::string id{};
    std::string account{};
    std::string name{};
    std::string type{};
    std::string place{};
    std::string machine{};   // empty: detached
    Time detached = kNever;  // ... from then on, too
    std::string on_spot_discontinue{};
    int size_gb = 0;
    bool is_os = false;
    Time made{};
    Time trashed = kNever;
    Time gone = kNever;
  };
  struct Route {
    const char* method;
    const char* pattern;
    std::vector<const char*> query;
    io::HttpReply (Verda::*perform)(const Request&, const Names&);
  };
  static const std::vector<Route>& routes();

  io::HttpReply perform(const Request& request) override;
  io::HttpReply refusal(int status, const std::string& what) override;
  std::vector<std::string> side_things() const override;
  double side_bill(Time at) const override;
  void on_preempted(Machine& machine) override;

  io::HttpReply log_in(const Request& request);
  bool is_logged_in(const Request& request) const;
  // A new thing's id: plain text, sometimes in quotes.
  io::HttpReply new_id(int status, const std::string& id);

  io::HttpReply balance(const Request&, const Names&);
  io::HttpReply types(const Request& request, const Names&);
  io::HttpReply availabilities(const Request& request, const Names&);
  io::HttpReply availability(const Request& request, const Names& names);
  io::HttpReply places(const Request&, const Names&);
  io::HttpReply images(const Request& request, const Names&);

  std::deque<NamedText>& texts(const Request& request);
  Json texts_json(const Request& request);
  io::HttpReply list_texts(const Request& request, const Names&);
  io::HttpReply create_text(const Request& request, const Names&);
  io::HttpReply get_text(const Request& request, const Names& names);
  io::HttpReply delete_text(const Request& request, const Names& names);
  io::HttpReply delete_texts(const Request& request, const Names&);
  bool has_text(const std::deque<NamedText>& all, const Json& id) const;

  io::HttpReply list_instances(const Request& request, const Names&);
  io::HttpReply get_instance(const Request&, const Names& names);
  io::HttpReply create_instance(const Request& request, const Names&);
  io::HttpReply act_on_instances(const Request& request, const Names&);
  std::vector<std::string> wrong_create(const Json& body) const;
  io::HttpReply refuse_wish(const Json& body);
  // Empty, or why not.
  std::string act(const std::string& id, const Json& body);
  void discontinue(Machine& machine, const Json& body);
  std::string status_of(const Machine& one) const;
  Json instance_json(const Machine& one) const;

  io::HttpReply list_volume_types(const Request&, const Names&);
  io::HttpReply list_volumes(const Request& request, const Names&);
  io::HttpReply list_trash(const Request&, const Names&);
  io::HttpReply get_volume(const Request&, const Names& names);
  io::HttpReply create_volume(const Request& request, const Names&);
  io::HttpReply act_on_volumes(const Request& request, const Names&);
  io::HttpReply delete_volume(const Request& request, const Names& names);
  Volume& add_volume(const Json& said, const std::string& place, const std::string& machine);
  Volume* find_volume(const std::string& id);
  void remove_volume(Volume& volume, bool permanently);
  bool is_attached(const Volume& one) const { return !one.machine.empty() && now() < one.detached; }
  bool is_erasing(const Volume& one) const { return one.gone != kNever && now() < one.gone; }
  std::string volume_status(const Volume& one) const;
  std::string remove_free_volume(const std::string& id, bool permanently);
  Json volume_json(const Volume& one) const;

  std::map<std::string, Time> access_{};   // token → when it expires
  std::map<std::string, Time> refresh_{};  // each good for one use
  std::deque<NamedText> keys_{};
  std::deque<NamedText> scripts_{};
  std::deque<Volume> volumes_{};
};

}  // namespace skyward::doubles
