#include "skyward/call/remote_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "skyward/call/map_blob.h"

namespace skyward {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename E>
std::string thrown(const Outcome& outcome) {
  try {
    throw_unless_ok(outcome, "train", 7, &map_blob);
  } catch (const E& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(RemoteError, WhatBecameOfAMachineHasItsClass) {
  Outcome outcome{.error = {ErrorKind::lost, "node 1 was lost", "ask for less"}, .node = 1};
  EXPECT_EQ(thrown<InstanceTerminatedError>(outcome),
            "node 1 was lost\nin train (task 7 on node 1)\n  hint: ask for less");
  outcome.error.kind = ErrorKind::unreachable;
  EXPECT_THAT(thrown<ConnectionLostError>(outcome), HasSubstr("on node 1)"));
  outcome.error.kind = ErrorKind::over_budget;
  outcome.worker = 0;
  EXPECT_THAT(thrown<BudgetExceededError>(outcome), HasSubstr("on node 1, worker 0)"));
}

TEST(RemoteError, CarriesTheLastOutput) {
  Outcome outcome;
  outcome.status = OutcomeStatus::raised;
  outcome.payload = write_exception("std::range_error", "too far");
  outcome.tail = {"one", "two"};
  EXPECT_THAT(thrown<RemoteError>(outcome), HasSubstr("std::range_error: too far"));
  try {
    throw_unless_ok(outcome, "train", 7, &map_blob);
  } catch (const RemoteError& error) {
    EXPECT_THAT(error.output(), ElementsAre("one", "two"));
  }
}

}  // namespace
}  // namespace skyward
