#pragma once

// The driver is killed before and after each of its requests, and before and after each write of
// its ledger, in one whole life of a pool at a cloud; then gc runs. The sums are kept in
// docs/leaks.md, which the test of each cloud holds to what it counts.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "skyward/provider/computer_fixture.h"
#include "skyward/provider/docs_pages_fixture.h"

namespace skyward::provider {

// What goes wrong beside the death.
struct DeathFault {
  const char* name;
  const char* words;
  Duration lag{};
  bool lost = false;       // every second reply is lost
  bool throttled = false;  // every second request is refused for its speed
  bool broken = false;     // every second reply is a 500
};

inline std::vector<DeathFault> death_faults() {
  return {{.name = "plain", .words = "nothing else goes wrong"},
          {.name = "lag", .words = "what was made is listed 60 s later", .lag = 60s},
          {.name = "lost", .words = "every second reply is lost", .lost = true},
          {.name = "throttled", .words = "every second request is throttled", .throttled = true},
          {.name = "broken", .words = "every second request gets a 500", .broken = true}};
}

inline std::string death_name(const ::testing::TestParamInfo<DeathFault>& made) {
  return made.param.name;
}

// Sanitizers try one boundary in four: they look for memory errors, other builds for leaked
// machines.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kOneDeathIn = 4;
#else
inline constexpr int kOneDeathIn = 1;
#endif

enum class DeathAt : std::uint8_t { before_request, after_request, before_write, after_write };

// `Computer` is a ComputerFixture with a cloud.
template <typename Computer>
class DeathsFixture : public ::testing::TestWithParam<DeathFault>, public Computer {
 protected:
  // Turns the fault on, in a cloud that has just been made.
  virtual void set_fault(const DeathFault& fault) = 0;
  // Before or after the request of that number; -1: never.
  virtual void die_at_request(int before, int after) = 0;
  virtual int requests() = 0;  // so far
  virtual int machines() = 0;  // that stand
  virtual int others() = 0;    // that was made beside them
  // Fewer of them would test too little.
  virtual int least_deaths() { return 40; }
  // Machines terminate themselves if no agent starts on them.
  virtual bool machines_end_themselves() { return true; }

  struct Counts {
    int points = 0;
    int machines_left = 0;  // standing when the driver had died
    int machines_after = 0;
    int others_after = 0;
    int pools_after = 0;
  };

  // Expects that the page has what it counts as a row of the table below `heading`.
  void die_everywhere(std::string_view heading) {
    set_fault(GetParam());
    {
      const auto cloud = this->provider();
      const auto life = this->live(*cloud);
      ASSERT_TRUE(life.status) << life.status.error().message;
    }
    const int all_requests = requests();
    const int all_writes = this->ledger_watch_.writes;
    Counts at_requests;
    Counts at_writes;
    for (const DeathAt at : {DeathAt::before_request, DeathAt::after_request, DeathAt::before_write,
                             DeathAt::after_write}) {
      const bool request = at == DeathAt::before_request || at == DeathAt::after_request;
      const int all = request ? all_requests : all_writes;
      for (int number = 1; number <= all; number += kOneDeathIn) {
        SCOPED_TRACE(fmt::format("boundary {} of kind {}", number, static_cast<int>(at)));
        EXPECT_TRUE(die(at, number));
        count(request ? at_requests : at_writes);
      }
    }
    for (const Counts& counts : {at_requests, at_writes}) {
      EXPECT_GT(counts.machines_left, 5 / kOneDeathIn)
          << "the deaths came too early to mean anything";
      EXPECT_EQ(counts.machines_after, 0);
      EXPECT_EQ(counts.others_after, 0);
      EXPECT_EQ(counts.pools_after, 0);
    }
    EXPECT_GT(at_requests.points, least_deaths() / kOneDeathIn);
    EXPECT_GT(at_writes.points, 15 / kOneDeathIn);
    if (kOneDeathIn > 1) return;
    expect_row_on_page(
        "leaks.md", heading,
        fmt::format("| {} | {} | {} | {} | {} | {} |", GetParam().words, at_requests.points,
                    at_writes.points, at_requests.machines_left + at_writes.machines_left,
                    at_requests.machines_after + at_writes.machines_after,
                    at_requests.others_after + at_writes.others_after));
  }

 private:
  // One life that ends there. False when it lives to its end.
  bool die(DeathAt at, int number) {
    this->forget();
    set_fault(GetParam());
    die_at_request(at == DeathAt::before_request ? number : -1,
                   at == DeathAt::after_request ? number : -1);
    if (at == DeathAt::before_write) this->ledger_watch_.die_before = number;
    if (at == DeathAt::after_write) this->ledger_watch_.die_after = number;
    bool died = false;
    try {
      const auto cloud = this->provider();
      (void)this->live(*cloud);
    } catch (const DriverDied&) {
      died = true;
    }
    die_at_request(-1, -1);
    this->ledger_watch_.die_before = this->ledger_watch_.die_after = -1;
    return died;
  }

  // What is left of it, by and by.
  void count(Counts& counts) {
    ++counts.points;
    counts.machines_left += machines();
    // With listings that lag, the machines' own timers come first.
    const bool timed = machines_end_themselves();
    if (GetParam().lag > Duration{}) this->fixture_.now += timed ? 920s : GetParam().lag;
    (void)this->gc();
    counts.machines_after += machines();
    // Machines shut down for minutes and keep their groups. A request that nobody answered stays
    // in the ledger until nothing can come of it.
    this->fixture_.now += 1800s;
    (void)this->gc();
    counts.machines_after += machines();
    counts.others_after += others();
    counts.pools_after += static_cast<int>(this->open_pools().size());
  }
};

}  // namespace skyward::provider
