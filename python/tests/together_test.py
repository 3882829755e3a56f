"""Calls on all workers: what is raised, who is stopped, what each start is told. No nodes."""

import pickle
from types import SimpleNamespace

import pytest
from skyward.call.pending import PendingCompute
from skyward.call.starts import START_ARGUMENT, STARTS_ATTRIBUTE, Starts
from skyward.distributed.decorate import failure_timed
from skyward.distributed.elastic import _checked, sources
from skyward.pool.restarts import run_together
from skyward.pool.together import in_order, run_once
from skyward.transport.remote_error import FAILED_AFTER_ATTRIBUTE, failed, raised

import skyward as sky
from skyward.pool import together
from skyward.worker import failures


class Outcome:
    node, worker, instance_id, tail = 0, 0, "i-0", ()
    preempted, attempts = False, 1

    def __init__(self, status="ok", kind="", message="", report=None, value=None, seconds=1.0):
        self.status, self.error_kind, self.error_message, self.error_hint = (
            status,
            kind,
            message,
            "",
        )
        self.run_seconds = seconds
        self._payload = pickle.dumps(value if report is None else report, 5), []

    def payload(self):
        return self._payload


def ok(value):
    return Outcome(value=value)


def fails(error, after=None, seconds=1.0):
    """As the worker reports it."""
    try:
        raise error
    except BaseException as caught:
        if after is not None:
            caught.__skyward_failed_after__ = after
        return Outcome("raised", report=failures.describe(caught), seconds=seconds)


DIED = "killed by signal 9 (SIGKILL)"
ABORTED = "killed by signal 6 (SIGABRT)"


def died(how=DIED):
    return Outcome("failed", "task", how, seconds=0.0)


def gone(kind, machine="i-1"):
    outcome = Outcome("failed", kind, "f: node 1 was lost while it ran this call", seconds=0.0)
    outcome.instance_id = machine
    return outcome


STOPPED = Outcome("failed", "cancelled", "f was cancelled", seconds=0.0)
LATE = Outcome("failed", "timeout", "f ran longer than 9 s", seconds=0.0)


class Handle:
    """Ends when `end` says so: at once, when it is stopped, or never."""

    task = 1

    def __init__(self, outcome, until_stopped=False):
        self.outcome, self.waits = outcome, until_stopped

    def wait(self, seconds=None):
        return self.done()

    def done(self):
        return not self.waits

    def take(self):
        return self.outcome

    def cancel(self):
        if self.waits:
            self.waits, self.outcome = False, STOPPED


class Engine:
    """`runs`: the handles of each start, by rank."""

    def __init__(self, runs):
        self.runs = list(runs)
        self.core = SimpleNamespace(instance_count=2, is_active=True)
        self.log, self.starts, self.said = [], [], []
        self.together = run

    def send_everywhere(self, pending, together=False):
        self.log.append(pending.name)
        assert together == (pending.fn is self.together)
        if pending.fn is not self.together:
            return SimpleNamespace(is_stream=False), [Handle(died()) for _ in range(2)]
        self.starts.append(pending.kwargs.get(START_ARGUMENT))
        return SimpleNamespace(is_stream=False), self.runs.pop(0)

    def send_to(self, pending, node, worker):
        self.log.append(f"{pending.name} {node}")
        return Handle(ok(pending.fn(*pending.args)))

    def tell_lines(self):
        pass

    def tell(self, text):
        self.said.append(text)


def run():
    """The function."""


def renew():
    pass


def discard(identity):
    pass


def call(engine, restarts):
    setattr(run, STARTS_ATTRIBUTE, Starts(renew, discard, restarts))
    return run_together(engine, PendingCompute(run, name="run"))


def workers(*handles):
    """An engine that has only them."""
    return SimpleNamespace(
        send_everywhere=lambda _, together: (SimpleNamespace(is_stream=False), list(handles)),
        tell_lines=lambda: None,
    )


def together_error(outcome):
    if outcome.status == "ok":
        return sky.SerializationError("its class is not here")
    if outcome.status == "failed":
        return failed(1, outcome)
    return raised(pickle.loads(outcome.payload()[0]), 1, outcome)


CASES = {
    "what was raised first, not what answered first": (
        [fails(ConnectionError("reset"), 3.1, 12.0), fails(LookupError("no row"), 3.0, 12.5)],
        [1, 0],
    ),
    "by one clock, since one failed before they were connected": (
        [fails(ConnectionError("reset"), 3.1, 12.0), fails(ImportError("torch"), None, 4.0)],
        [1, 0],
    ),
    "a death is a cause": ([fails(ConnectionError("reset"), 0.1), died()], [1, 0]),
    "of several deaths, the first one": ([died(), died()], [0, 1]),
    "frameworks abort when another is gone": (
        [fails(LookupError("no row"), 5.0), died(ABORTED)],
        [0, 1],
    ),
    "an abort that comes first is a death": (
        [died(ABORTED), fails(LookupError("no row"), 5.0)],
        [0, 1],
    ),
    "an abort after a death": ([died(), died(ABORTED)], [0, 1]),
    "what an MPI world ended, also when it says so itself": (
        [
            fails(sky.CancelledError("the MPI world ended"), None, 1.0),
            fails(LookupError(), None, 2.0),
        ],
        [1, 0],
    ),
    "results that cannot be rebuilt here": ([Outcome(seconds=2.0), Outcome(seconds=1.0)], [1, 0]),
    "who ran out of time or was stopped had waited": (
        [STOPPED, LATE, fails(LookupError("no row"), 9.0)],
        [2, 1, 0],
    ),
}


@pytest.mark.parametrize(("outcomes", "expected"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("turned", [False, True], ids=["", "ranks the other way round"])
def test_causes_come_before_consequences(outcomes, expected, turned):
    ranks = list(range(len(outcomes)))
    if turned:
        ranks.reverse()
    arrived = dict(zip(ranks, outcomes, strict=True))
    errors = {rank: together_error(arrived[rank]) for rank in sorted(arrived)}
    assert in_order(errors, arrived) == [ranks[place] for place in expected]


def test_the_likely_cause_is_raised_and_the_others_are_in_its_notes():
    outcomes = fails(ConnectionError("reset"), 3.1), fails(LookupError("no row"), 3.0)
    with pytest.raises(LookupError) as caught:
        run_once(workers(*map(Handle, outcomes)), PendingCompute(run, name="run"))
    assert "worker 0 failed too: ConnectionError: reset" in caught.value.__notes__


@pytest.mark.parametrize("error", [LookupError("no row"), SystemExit(3)])
def test_when_a_function_failed_travels_with_the_report(error):
    with pytest.raises(type(error)) as caught, failure_timed():
        raise error
    report = failures.describe(caught.value)
    assert 0 <= report["failed_after"] < 60
    assert not vars(error), "nothing of ours is pickled"
    assert getattr(raised(report, 1, Outcome()), FAILED_AFTER_ATTRIBUTE) == report["failed_after"]


@pytest.mark.parametrize("kind", ["lost", "unreachable"])
def test_after_a_loss_the_others_are_stopped_at_once_also_in_their_grace(monkeypatch, kind):
    monkeypatch.setattr(together, "GRACE_SECONDS", 1e9)
    outcomes = [fails(ConnectionError("reset"), 0.1), gone(kind)]
    engine = workers(*map(Handle, outcomes), Handle(None, until_stopped=True))
    with pytest.raises(sky.ExecutionError, match="node 1 was lost") as caught:
        run_once(engine, PendingCompute(run, name="run"))
    assert "worker 0 failed too: ConnectionError: reset" in caught.value.__notes__


def test_each_start_is_told_its_number_and_begins_in_new_processes():
    bad = [Handle(fails(LookupError("no row"), 1.0)), Handle(ok(2))]
    engine = Engine([bad, [Handle(ok(1)), Handle(ok(2))]])
    assert call(engine, restarts=3) == (1, 2)
    assert engine.log == ["run", "run: renew", "run", "run: discard 0", "run: discard 1"]
    first, second = engine.starts
    assert first == {"id": second["id"], "restart": 0, "of": 3}
    assert second["restart"] == 1
    (said,) = engine.said
    assert "LookupError: no row" in said and "restart 1 of 3" in said


@pytest.mark.parametrize("kind", ["lost", "unreachable"])
def test_a_loss_starts_it_again_and_is_named_when_all_restarts_are_used_up(kind):
    engine = Engine([[Handle(gone(kind)), Handle(None, until_stopped=True)] for _ in range(2)])
    with pytest.raises(sky.InstanceTerminatedError, match="a node was lost") as caught:
        call(engine, restarts=1)
    assert "max_restarts=" in str(caught.value)
    assert "node 1 was lost" in str(caught.value.__cause__)
    assert engine.log.count("run") == 2 and engine.log[-1] == "run: discard 1"
    assert "a node was lost" in engine.said[0]


def test_a_preemption_is_named_when_all_restarts_are_used_up():
    preempted = gone("lost")
    preempted.preempted = True
    engine = Engine(
        [[Handle(one), Handle(None, until_stopped=True)] for one in (gone("lost"), preempted)]
    )
    with pytest.raises(sky.PreemptionError, match="a node was lost") as caught:
        call(engine, restarts=1)
    assert caught.value.attempts == 2 and isinstance(caught.value.__cause__, sky.PreemptionError)


def test_without_a_machine_for_each_node_there_is_nothing_to_start_on():
    engine = Engine([[Handle(gone("lost", machine="")) for _ in range(2)]])
    with pytest.raises(sky.InstanceTerminatedError, match="node 1 was lost"):
        call(engine, restarts=3)
    assert engine.log == ["run", "run: discard 0", "run: discard 1"]


def test_what_the_function_says_of_another_pool_is_no_loss():
    error = sky.InstanceTerminatedError("i-9", "of a pool that it has opened")
    engine = Engine([[Handle(fails(error, 1.0)), Handle(ok(2))] for _ in range(2)])
    with pytest.raises(sky.InstanceTerminatedError, match="i-9"):
        call(engine, restarts=1)
    assert "a node was lost" not in engine.said[0]


def test_a_retry_waits_until_every_node_answers():
    bad = [Handle(fails(LookupError("no row"), 1.0)), Handle(ok(2))]
    engine = Engine([bad, [Handle(ok(1)), Handle(ok(2))]])
    pending = PendingCompute(lambda: None, name="run", retries=1)
    engine.together = pending.fn
    assert run_together(engine, pending) == (1, 2)
    assert engine.log == ["run", "run: retry", "run"]


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_pool_that_ends_meanwhile_does_not_hide_why(restarts):
    engine = Engine([[Handle(gone("lost")), Handle(ok(2))]])

    def close(pending, together=False):
        if not together:
            engine.core.is_active = False
        return Engine.send_everywhere(engine, pending, together)

    engine.send_everywhere = close
    with pytest.raises(sky.InstanceTerminatedError, match="node 1 was lost"):
        if restarts:
            call(engine, restarts)
        else:
            engine.together = lambda: None
            run_together(engine, PendingCompute(engine.together, name="run", retries=1))
    assert engine.log.count("run") == 1


def test_each_file_comes_from_whoever_has_changed_it_last():
    lists = [
        {"last.pt": (5, "a"), "part-0": (4, "b")},
        {"last.pt": (9, "c"), "part-1": (8, "d")},
        {"last.pt": (7, "e"), "part-2": (6, "f"), "part-0": (3, "g")},
    ]
    assert sources(lists) == [("last.pt", 1), ("part-0", 0), ("part-1", 1), ("part-2", 2)]
    assert sources([{}, {}]) == []


@pytest.mark.parametrize("name", ["/etc/x", "../x", "a/../../x", ""])
def test_checkpoints_of_other_workers_stay_in_their_folder(name):
    assert _checked({"a/b..pt": [1, "digest"]}) == {"a/b..pt": (1, "digest")}
    with pytest.raises(ValueError, match="is not the name of a checkpoint"):
        _checked({name: [1, "digest"]})
