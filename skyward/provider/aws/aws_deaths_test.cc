// The driver is killed before and after each of its requests, and before and after each write of
// its ledger, in one whole life of a pool; then one gc runs. The sums are kept in docs/leaks.md,
// which this test holds to what it counts.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "skyward/io/file.h"
#include "skyward/provider/aws/aws_computer_fixture.h"

namespace skyward::provider::aws {
namespace {

using ::testing::IsEmpty;

// What goes wrong beside the death. With listings that lag, the machines' own timers come first.
struct Fault {
  const char* name;
  const char* words;
  Duration lag{};
  bool lost = false;       // every second reply is lost
  bool throttled = false;  // every second request is refused for its speed
  bool broken = false;     // every second reply is a 500
};

enum class At : std::uint8_t { before_request, after_request, before_write, after_write };

struct Counts {
  int points = 0;
  int machines_left = 0;  // standing when the driver had died
  int machines_after = 0;
  int groups_after = 0;
  int pools_after = 0;
};

class Deaths : public ::testing::TestWithParam<Fault>, public AwsComputer {
 protected:
  void set_faults() {
    const Fault& fault = GetParam();
    amazon_.listing_lag = fault.lag;
    if (fault.lost) amazon_.lose_reply = [this](const auto&) { return amazon_.requests % 2 == 0; };
    if (fault.throttled || fault.broken) {
      amazon_.refuse = [this, &fault](const auto&, const auto&) {
        if (amazon_.requests % 2 != 0) return std::pair(0, std::string());
        return fault.broken ? std::pair(500, std::string("InternalError"))
                            : std::pair(503, std::string("RequestLimitExceeded"));
      };
    }
  }

  // One life that ends there. False when it lives to its end.
  bool die(At at, int number) {
    forget();
    set_faults();
    if (at == At::before_request) amazon_.die_before = number;
    if (at == At::after_request) amazon_.die_after = number;
    if (at == At::before_write) ledger_watch_.die_before = number;
    if (at == At::after_write) ledger_watch_.die_after = number;
    bool died = false;
    try {
      const auto aws = provider();
      (void)live(*aws);
    } catch (const DriverDied&) {
      died = true;
    }
    amazon_.die_before = amazon_.die_after = -1;
    ledger_watch_.die_before = ledger_watch_.die_after = -1;
    return died;
  }

  // What is left of it, by and by.
  void count(Counts& counts) {
    ++counts.points;
    counts.machines_left += amazon_.standing();
    if (GetParam().lag > Duration{}) fixture_.now += 920s;  // the dead man's limit
    (void)gc();
    counts.machines_after += amazon_.standing();
    // Machines shut down for minutes and keep their groups. A request that nobody answered stays
    // in the ledger until nothing can come of it.
    fixture_.now += 1800s;
    (void)gc();
    counts.machines_after += amazon_.standing();
    counts.groups_after += static_cast<int>(amazon_.groups.size());
    counts.pools_after += static_cast<int>(open_pools().size());
  }
};

TEST_P(Deaths, AtEveryBoundaryOfALifeLeaveNothing) {
  set_faults();
  {
    const auto aws = provider();
    const Life life = live(*aws);
    ASSERT_TRUE(life.status) << life.status.error().message;
  }
  const int requests = amazon_.requests;
  const int writes = ledger_watch_.writes;
  Counts at_requests;
  Counts at_writes;
  for (const At at : {At::before_request, At::after_request, At::before_write, At::after_write}) {
    const bool request = at == At::before_request || at == At::after_request;
    for (int number = 1; number <= (request ? requests : writes); ++number) {
      SCOPED_TRACE(fmt::format("boundary {} of kind {}", number, static_cast<int>(at)));
      EXPECT_TRUE(die(at, number));
      count(request ? at_requests : at_writes);
    }
  }
  for (const Counts& counts : {at_requests, at_writes}) {
    EXPECT_GT(counts.machines_left, 5) << "the deaths came too early to mean anything";
    EXPECT_EQ(counts.machines_after, 0);
    EXPECT_EQ(counts.groups_after, 0);
    EXPECT_EQ(counts.pools_after, 0);
  }
  EXPECT_GT(at_requests.points, 40);
  EXPECT_GT(at_writes.points, 15);
  const std::string row =
      fmt::format("| {} | {} | {} | {} | {} | {} |", GetParam().words, at_requests.points,
                  at_writes.points, at_requests.machines_left + at_writes.machines_left,
                  at_requests.machines_after + at_writes.machines_after,
                  at_requests.groups_after + at_writes.groups_after);
  const auto page = io::read_file(SKYWARD_DOCS "/leaks.md");
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_TRUE(page->contains(row)) << "docs/leaks.md does not have this row:\n" << row;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, Deaths,
    ::testing::Values(
        Fault{.name = "plain", .words = "nothing else goes wrong"},
        Fault{.name = "lag", .words = "what was made is listed 60 s later", .lag = 60s},
        Fault{.name = "lost", .words = "every second reply is lost", .lost = true},
        Fault{.name = "throttled", .words = "every second request is throttled", .throttled = true},
        Fault{.name = "broken", .words = "every second request gets a 500", .broken = true}),
    [](const auto& made) { return std::string(made.param.name); });

}  // namespace
}  // namespace skyward::provider::aws
