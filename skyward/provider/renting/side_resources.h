#pragma once

// What a pool makes at a cloud beside its machines, the same at every cloud: keys, firewalls, tags,
// scripts. Each is in the book before it is requested, bears the pool's marks, and leaves the book
// when the cloud says that it is gone.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/marks.h"
#include "skyward/provider/pool_book.h"
#include "skyward/provider/rest/api_error.h"

namespace skyward::provider {

struct SideResource {
  std::string id{};
  std::string name{};
};

// All of one kind in one account. Ids of different kinds differ.
class SideResourceKind {
 public:
  virtual ~SideResourceKind() = default;

  virtual std::string_view kind() const = 0;  // in the ledger, and for people: "ssh_key"
  // Whether it costs money: then a pool is not closed before it is gone.
  virtual bool costs() const { return false; }
  // Asks once and returns the id. A name that is taken is a `conflict`.
  virtual ApiResult<std::string> create(const std::string& name, Time deadline) = 0;
  virtual ApiResult<std::vector<SideResource>> list(Time deadline) = 0;
  // `not_found` when there is none of that id; `conflict` while something uses it.
  virtual ApiResult<void> remove(const std::string& id, Time deadline) = 0;
};

// The name of a pool's resource of a kind; `number` tells those of one kind apart.
std::string resource_name(const SideResourceKind& kind, const Mark& mark, int number = 0);

// The id of the pool's resource of that kind, made now. When nobody answers, it looks for what was
// made. `cloud` as messages name it.
Result<std::string> make_resource(std::string_view cloud, PoolBook& book, SideResourceKind& kind,
                                  const Mark& mark, Time deadline, int number = 0);

// Removes one that is of no more use while the pool is open. Returns whether it is gone; else it
// stays in the book, for remove_resources().
bool remove_early(PoolBook& book, SideResourceKind& kind, const std::string& id, Time deadline);

// Removes what the pool has of these kinds, in this order: by the book and by the marks. Returns
// the ids of what something still uses; it stays in the book. Fails if that costs money.
// `provider`: as in read_name().
Result<std::vector<std::string>> remove_resources(std::string_view cloud, std::string_view provider,
                                                  PoolBook& book,
                                                  std::span<SideResourceKind* const> kinds,
                                                  Time deadline);

}  // namespace skyward::provider
