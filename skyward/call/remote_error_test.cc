#include "skyward/call/remote_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>
#include <string>

#include "skyward/base/type_text.h"
#include "skyward/call/map_blob.h"
#include "skyward/call/thrown_type.h"
#include "skyward/spec/loss.h"

namespace skyward {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

template <typename E>
std::string thrown(const Outcome& outcome) {
  try {
    throw_unless_ok(outcome, "train", 7, &map_blob);
  } catch (const E& error) {
    return error.what();
  } catch (const SkywardError&) {
    return "another error";
  }
  return "nothing was thrown";
}

TEST(RemoteError, WhatBecameOfAMachineHasItsClass) {
  Outcome outcome{.error = {ErrorKind::lost, "node 1 was lost", "ask for less"}, .node = 1};
  EXPECT_EQ(thrown<InstanceTerminatedError>(outcome),
            "node 1 was lost\nin train (task 7 on node 1)\n  hint: ask for less");
  outcome.error.kind = ErrorKind::unreachable;
  EXPECT_THAT(thrown<ConnectionLostError>(outcome), HasSubstr("on node 1)"));
  outcome.error.kind = ErrorKind::lost;
  outcome.error = with_loss(outcome.error, {.preempted = true, .attempts = 3});
  EXPECT_THAT(thrown<PreemptionError>(outcome), HasSubstr("on node 1)"));
  outcome.error.facts.clear();
  outcome.error.kind = ErrorKind::over_budget;
  outcome.worker = 0;
  EXPECT_THAT(thrown<BudgetExceededError>(outcome), HasSubstr("on node 1, worker 0)"));
}

// Who catches it opens a pool elsewhere, and pays again.
TEST(RemoteError, IsNoFailureToProvision) {
  for (const ErrorKind kind : {ErrorKind::over_budget, ErrorKind::unreachable, ErrorKind::lost}) {
    EXPECT_EQ(thrown<ProvisioningError>({.error = {kind, "x", {}}}), "another error")
        << to_string(kind);
  }
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

TEST(RemoteError, SaysInOneLineWhatFailed) {
  Outcome outcome;
  outcome.status = OutcomeStatus::raised;
  outcome.payload = write_exception("std::range_error", "too far\nby two");
  EXPECT_EQ(failure_line(outcome, "train", &map_blob), "train failed: std::range_error: too far");
  outcome.payload = {};
  EXPECT_EQ(failure_line(outcome, "train", &map_blob),
            "train failed: an exception that cannot be read");
  outcome.status = OutcomeStatus::failed;
  outcome.error.message = "train: the worker process died\nof a signal";
  EXPECT_EQ(failure_line(outcome, "train", &map_blob), "train: the worker process died");
}

TEST(Retry, IsForFailuresThatMayPass) {
  const auto retried = [](OutcomeStatus status, ErrorKind kind) {
    Outcome outcome;
    outcome.status = status;
    outcome.error.kind = kind;
    outcome.begun = true;
    return may_retry(outcome);
  };
  EXPECT_TRUE(retried(OutcomeStatus::raised, ErrorKind::invalid));
  EXPECT_FALSE(retried(OutcomeStatus::ok, ErrorKind::task));
  for (const ErrorKind kind :
       {ErrorKind::task, ErrorKind::lost, ErrorKind::unreachable, ErrorKind::unavailable}) {
    EXPECT_TRUE(retried(OutcomeStatus::failed, kind)) << to_string(kind);
  }
  for (const ErrorKind kind :
       {ErrorKind::invalid, ErrorKind::denied, ErrorKind::exhausted, ErrorKind::over_budget,
        ErrorKind::unsupported, ErrorKind::undelivered, ErrorKind::cancelled, ErrorKind::timeout}) {
    EXPECT_FALSE(retried(OutcomeStatus::failed, kind)) << to_string(kind);
  }
}

TEST(Retry, IsNotForAPoolWithoutMachines) {
  for (const ErrorKind kind : {ErrorKind::lost, ErrorKind::unreachable}) {
    EXPECT_FALSE(may_retry({.error = {kind, "node 0 was lost and could not be replaced", {}}}))
        << to_string(kind);
  }
}

struct Numbered : std::runtime_error {
  using std::runtime_error::runtime_error;
  int number = 0;
  bool broken = false;
  template <typename Archive>
  void serialize(Archive& archive) {
    if (broken) throw std::logic_error("cannot be written");
    archive(number);
  }
};
const ThrownType<Numbered> numbered;
struct Derived : Numbered {
  using Numbered::Numbered;
};

template <typename E>
Outcome outcome_of(E error) {
  error.number = 5;
  Outcome outcome;
  outcome.status = OutcomeStatus::raised;
  outcome.payload = write_exception("Numbered", error.what(), &error);
  return outcome;
}

TEST(ThrownType, ComesBackWithWhatItHas) {
  try {
    throw_unless_ok(outcome_of(Numbered("five")), "train", 7, &map_blob);
    FAIL() << "nothing was thrown";
  } catch (const Numbered& error) {
    EXPECT_STREQ(error.what(), "five");
    EXPECT_EQ(error.number, 5);
    EXPECT_THROW(std::rethrow_if_nested(error), RemoteError);
  }
}

template <typename E>
Outcome nested_outcome() {
  Outcome outcome;
  outcome.status = OutcomeStatus::raised;
  try {
    try {
      try {
        throw std::logic_error("disk full");
      } catch (const std::exception&) {
        std::throw_with_nested(std::range_error("row 5"));
      }
    } catch (const std::exception&) {
      std::throw_with_nested(E("the file"));
    }
  } catch (const std::exception& error) {
    outcome.payload = write_exception(type_text(typeid(error)), error.what(), &error);
  }
  return outcome;
}

TEST(ThrownType, ComesBackFromAroundAnother) {
  try {
    throw_unless_ok(nested_outcome<Numbered>(), "train", 7, &map_blob);
    FAIL() << "nothing was thrown";
  } catch (const Numbered& error) {
    EXPECT_STREQ(error.what(), "the file");
    try {
      std::rethrow_if_nested(error);
    } catch (const RemoteError& around) {
      EXPECT_THAT(around.what(), HasSubstr("Numbered: the file\n"
                                           "caused by std::range_error: row 5\n"
                                           "caused by std::logic_error: disk full\nin train"));
    }
  }
}

TEST(RemoteError, SaysWhatAnExceptionWasNestedAround) {
  const std::string text = thrown<RemoteError>(nested_outcome<std::runtime_error>());
  EXPECT_THAT(text,
              StartsWith("std::runtime_error: the file\ncaused by std::range_error: row 5\n"));
}

// function_test.cc has another type of this name.
struct Twin : std::runtime_error {
  using std::runtime_error::runtime_error;
};
const ThrownType<Twin> twin;

TEST(ThrownType, TypesOfEqualNameInTwoFilesAreTwo) {
  Outcome outcome;
  outcome.status = OutcomeStatus::raised;
  const Twin error("of this file");
  outcome.payload = write_exception("Twin", error.what(), &error);
  EXPECT_THAT(thrown<Twin>(outcome), HasSubstr("of this file"));
}

TEST(ThrownType, ATypeThatOnlyDerivesFromItIsUnknown) {
  EXPECT_THAT(thrown<RemoteError>(outcome_of(Derived("five"))), HasSubstr("five"));
}

TEST(ThrownType, WhatCannotBeWrittenArrivesAsText) {
  Numbered error("five");
  error.broken = true;
  EXPECT_THAT(thrown<RemoteError>(outcome_of(error)), HasSubstr("Numbered: five"));
}

// Bytes of another machine.
TEST(ThrownType, WhatCannotBeReadIsARemoteError) {
  Outcome outcome = outcome_of(Numbered("five"));
  ByteView stream = outcome.payload.buffers.front().bytes.view;
  stream = stream.first(stream.size() - sizeof(int));
  outcome.payload.buffers.front() =
      wire::small_buffer(SharedBytes(Bytes(stream.begin(), stream.end())));
  EXPECT_THAT(thrown<RemoteError>(outcome), HasSubstr("Numbered: five"));
}

}  // namespace
}  // namespace skyward
