#include "skyward/provider/renting/side_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

namespace skyward::provider {

namespace {

using namespace std::chrono_literals;

constexpr Duration kLookEvery = 2s;
// Requests for one thing, of which none was answered. One that is made twice has the same name, and
// both are removed.
constexpr int kMostTries = 3;
// What is in use may be free as soon as the machines have gone. What costs is worth a longer wait.
constexpr Duration kPatience = 20s;
constexpr Duration kCostlyPatience = 120s;
// Until every request knows of what was made.
constexpr Duration kKnownAfter = 60s;

Error explained(std::string_view cloud, std::string_view what, std::string_view kind,
                const ApiError& error) {
  std::string words(kind);
  std::ranges::replace(words, '_', ' ');
  return to_error(error, fmt::format("{}: {} the {}", cloud, what, words));
}

// The id of the thing with this name; empty without one.
Result<std::string> find_by_name(std::string_view cloud, SideResourceKind& kind,
                                 const std::string& name, Time deadline) {
  const auto found = kind.list(deadline);
  if (!found) return std::unexpected(explained(cloud, "looking for", kind.kind(), found.error()));
  const auto at = std::ranges::find(*found, name, &SideResource::name);
  return at == found->end() ? std::string() : at->id;
}

enum class Removed : std::uint8_t { gone, in_use };

// `made`: what was made a moment ago may be unknown, and is not gone for that.
ApiResult<Removed> remove_one(const World& world, SideResourceKind& kind, const std::string& id,
                              Time made, Time deadline) {
  const Time begin = world.now();
  while (true) {
    const auto done = kind.remove(id, deadline);
    if (done) return Removed::gone;
    const Refusal why = done.error().refusal;
    if (why != Refusal::not_found && why != Refusal::conflict) return std::unexpected(done.error());
    const Duration patience = kind.costs() ? kCostlyPatience : kPatience;
    const Time until = why == Refusal::conflict ? begin + patience : made + kKnownAfter;
    if (std::min(deadline, until) - world.now() <= kLookEvery) {
      return why == Refusal::conflict ? Removed::in_use : Removed::gone;
    }
    world.pause(kLookEvery, {});
  }
}

// What the pool has of one kind.
struct Belongings {
  struct Item {
    std::string name{};
    Time made{};  // long ago, where nobody knows
  };
  std::map<std::string, Item> made{};     // by id
  std::vector<std::string> unanswered{};  // names of requests of which nothing has come
};

ApiResult<Belongings> belongings(std::string_view provider, PoolBook& book, SideResourceKind& kind,
                                 Time deadline) {
  const World& world = book.world();
  const auto listed = kind.list(deadline);
  if (!listed) return std::unexpected(listed.error());
  Belongings out;
  for (const SideResource& one : *listed) {
    const auto name = read_name(one.name, provider);
    if (name && name->mark.pool == book.pool()) {
      out.made[one.id] = {.name = one.name, .made = world.now() - kKnownAfter};
    }
  }
  for (const LedgerEntry& entry : book.open_entries()) {
    if (entry.kind != kind.kind()) continue;
    const Time made = world.now() - book.age_of(entry);
    if (!entry.id.empty()) {
      out.made[entry.id] = {.name = entry.key, .made = made};
      continue;
    }
    const auto same = [&](const auto& one) { return one.second.name == entry.key; };
    const bool came = std::ranges::any_of(out.made, same);
    if (!came && world.now() - made >= kKnownAfter) out.unanswered.push_back(entry.key);
  }
  return out;
}

}  // namespace

std::string resource_name(const SideResourceKind& kind, const Mark& mark, int number) {
  std::string rest(kind.kind());
  std::ranges::replace(rest, '_', '-');
  if (number > 0) rest += fmt::format("-{}", number);
  return to_name({.mark = mark, .rest = std::move(rest)});
}

Result<std::string> make_resource(std::string_view cloud, PoolBook& book, SideResourceKind& kind,
                                  const Mark& mark, Time deadline, int number) {
  const std::string name = resource_name(kind, mark, number);
  const Status asked = book.ask({.key = name, .kind = std::string(kind.kind())});
  if (!asked) return fail(asked);
  for (int tries = 1;; ++tries) {
    auto made = kind.create(name, deadline);
    if (made && made->empty()) {
      made = std::unexpected(ApiError{.message = "the reply has no id", .maybe_done = true});
    }
    std::string id = made.value_or("");
    const bool refused =
        !made && is_certain(made.error()) && made.error().refusal != Refusal::conflict;
    if (refused) {
      book.gone({name});
    } else if (!made) {
      if (const auto found = find_by_name(cloud, kind, name, deadline)) id = *found;
    }
    if (!id.empty()) {
      if (Status status = book.made(name, {id}); !status) return fail(status);
      return id;
    }
    if (refused || tries == kMostTries || book.world().now() >= deadline) {
      return std::unexpected(explained(cloud, "creating", kind.kind(), made.error()));
    }
  }
}

bool remove_early(PoolBook& book, SideResourceKind& kind, const std::string& id, Time deadline) {
  const auto is_new = [&](const LedgerEntry& entry) {
    return entry.id == id && book.age_of(entry) < kKnownAfter;
  };
  const auto done = kind.remove(id, deadline);
  const bool unknown = !done && done.error().refusal == Refusal::not_found;
  if (!done && (!unknown || std::ranges::any_of(book.open_entries(), is_new))) return false;
  book.gone({id});
  return true;
}

Result<std::vector<std::string>> remove_resources(std::string_view cloud, std::string_view provider,
                                                  PoolBook& book,
                                                  std::span<SideResourceKind* const> kinds,
                                                  Time deadline) {
  std::vector<std::string> kept;
  Status first;
  for (SideResourceKind* const kind : kinds) {
    const auto note = [&](std::string_view what, const ApiError& error) {
      if (first) first = std::unexpected(explained(cloud, what, kind->kind(), error));
    };
    const auto ours = belongings(provider, book, *kind, deadline);
    if (!ours) {
      note("listing", ours.error());
      continue;
    }
    book.gone(ours->unanswered);
    for (const auto& [id, item] : ours->made) {
      const auto removed = remove_one(book.world(), *kind, id, item.made, deadline);
      if (!removed) {
        note("deleting", removed.error());
      } else if (*removed == Removed::in_use && kind->costs()) {
        note("deleting", {.refusal = Refusal::conflict, .message = id + " is still in use"});
      } else if (*removed == Removed::in_use) {
        kept.push_back(id);
      } else {
        // Under its id, or under its name when the reply that told the id was lost.
        book.gone({id, item.name});
      }
    }
  }
  if (!first) return fail(first);
  return kept;
}

}  // namespace skyward::provider
