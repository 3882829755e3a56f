"""Calls on all workers: what is raised, who is stopped, what each start is told. No nodes."""

import itertools
import pickle
from types import SimpleNamespace

import pytest
from skyward.call.pending import PendingCompute
from skyward.call.starts import START_ARGUMENT, STARTS_ATTRIBUTE, Starts
from skyward.distributed.decorate import failure_timed
from skyward.distributed.elastic import sources
from skyward.pool.restarts import run_together
from skyward.pool.together import in_order, run_once
from skyward.transport.remote_error import FAILED_AFTER_ATTRIBUTE, raised

import skyward as sky
from skyward.pool import together
from skyward.worker import failures


class Outcome:
    node, worker, instance_id, tail = 0, 0, "i-0", ()

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

    def __init__(self, runs, nodes=2):
        self.runs, self.losses = list(runs), 0
        self.core = SimpleNamespace(instance_count=nodes, is_active=True)
        self.log, self.starts, self.said = [], [], []

    def send_everywhere(self, pending):
        if pending.fn is not run:
            self.log.append(pending.fn.__name__)
            return SimpleNamespace(is_stream=False), [Handle(died()) for _ in range(2)]
        self.log.append("start")
        self.starts.append(pending.kwargs.get(START_ARGUMENT))
        return SimpleNamespace(is_stream=False), self.runs.pop(0)

    def send_to(self, pending, node, worker):
        self.log.append(f"{pending.fn.__name__} {node}")
        return Handle(ok(pending.fn(*pending.args)))

    def tell_lines(self):
        pass

    def tell(self, text):
        self.said.append(text)


def run():
    """The function."""


addresses = itertools.count()


def place():
    return {"address": f"10.0.0.{next(addresses)}"}


def renew():
    pass


def discard(identity):
    pass


def call(engine, retries=0, **options):
    setattr(run, STARTS_ATTRIBUTE, Starts(place, renew, discard, **options))
    return run_together(engine, PendingCompute(run, name="run", retries=retries))


def ranks(*outcomes, arrived=None):
    outcomes = {rank: outcomes[rank] for rank in arrived or range(len(outcomes))}
    engine = SimpleNamespace(
        send_everywhere=lambda _: (
            SimpleNamespace(is_stream=False),
            [Handle(outcome) for _, outcome in sorted(outcomes.items())],
        ),
        tell_lines=lambda: None,
    )
    error = run_once(engine, PendingCompute(run, name="run"), lambda: False).error
    errors = {
        rank: sky.CancelledError() if outcome is STOPPED else together_error(outcome)
        for rank, outcome in outcomes.items()
        if outcome.status != "ok"
    }
    return in_order(errors, outcomes), error


def together_error(outcome):
    if outcome.status == "failed":
        return sky.ExecutionError(outcome.error_message)
    return raised(pickle.loads(outcome.payload()[0]), 1, outcome)


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    {
        "what was raised first, not what answered first": (
            [fails(ConnectionError("reset"), 3.1, 12.0), fails(LookupError("no row"), 3.0, 12.5)],
            [1, 0],
        ),
        "one clock for all: one failed before they were connected": (
            [fails(ConnectionError("reset"), 3.1, 12.0), fails(ImportError("torch"), None, 4.0)],
            [1, 0],
        ),
        "a death is a cause": ([fails(ConnectionError("reset"), 0.1), died()], [1, 0]),
        "an abort is what frameworks do when another is gone": (
            [died(ABORTED), fails(LookupError("no row"), 5.0)],
            [1, 0],
        ),
        "of two deaths": ([died(ABORTED), died()], [1, 0]),
        "who ran out of time or was stopped had waited": (
            [STOPPED, LATE, fails(LookupError("no row"), 9.0)],
            [2, 1, 0],
        ),
    }.values(),
)
def test_causes_come_before_consequences(outcomes, expected):
    order, error = ranks(*outcomes)
    assert order == expected
    assert type(error) is type(together_error(outcomes[expected[0]])) or outcomes[0] is STOPPED
    assert len(error.__notes__) >= len(expected) - 1


def test_of_several_deaths_the_first_one_is_told():
    assert ranks(died(), died(), arrived=[1, 0])[0] == [1, 0]


@pytest.mark.parametrize("error", [LookupError("no row"), SystemExit(3)])
def test_when_a_function_failed_travels_with_the_report(error):
    with pytest.raises(type(error)) as caught, failure_timed():
        raise error
    report = failures.describe(caught.value)
    assert 0 <= report["failed_after"] < 60
    assert not vars(error), "nothing of ours is pickled"
    assert getattr(raised(report, 1, Outcome()), FAILED_AFTER_ATTRIBUTE) == report["failed_after"]


def test_after_a_loss_the_others_are_stopped_at_once_also_in_their_grace(monkeypatch):
    monkeypatch.setattr(together, "GRACE_SECONDS", 1e9)
    lost = iter([False, False, True])
    handles = [Handle(fails(ConnectionError("reset"), 0.1)), Handle(None, until_stopped=True)]
    engine = SimpleNamespace(
        send_everywhere=lambda _: (SimpleNamespace(is_stream=False), handles),
        tell_lines=lambda: None,
    )
    ended = run_once(engine, PendingCompute(run, name="run"), lambda: next(lost))
    assert isinstance(ended.error, ConnectionError) and ended.was_cut
    assert next(lost, None) is None


def test_each_start_is_told_where_the_nodes_are():
    engine = Engine([[Handle(ok(1)), Handle(ok(2))]])
    assert call(engine) == (1, 2)
    assert engine.log == ["place 0", "place 1", "start", "discard 0", "discard 1"]
    (start,) = engine.starts
    assert len({at["address"] for at in start["places"]}) == 2 and "id" not in start


def test_one_node_needs_no_telling():
    engine = Engine([[Handle(ok(1))]], nodes=1)
    assert call(engine) == (1,)
    assert engine.starts == [None]


def test_a_node_that_is_lost_while_it_is_asked_is_asked_again():
    engine = Engine([[Handle(ok(1)), Handle(ok(2))]])
    asked = engine.send_to

    def send_to(pending, node, worker):
        if len(engine.log) == 1:
            engine.losses += 1
        return asked(pending, node, worker)

    engine.send_to = send_to
    assert call(engine) == (1, 2)
    assert engine.log[:5] == ["place 0", "place 1", "place 0", "place 1", "start"]


def test_a_further_start_begins_in_new_processes():
    bad = [Handle(fails(LookupError("no row"), 1.0)), Handle(ok(2))]
    engine = Engine([bad, [Handle(ok(1)), Handle(ok(2))]])
    assert call(engine, restarts=3) == (1, 2)
    steps = [step for step in engine.log if not step.startswith(("place", "discard"))]
    assert steps == ["start", "renew", "start"]
    first, second = engine.starts
    assert first["id"] == second["id"] and (first["restart"], second["restart"]) == (0, 1)
    (said,) = engine.said
    assert "LookupError: no row" in said and "restart 1 of 3" in said


@pytest.mark.parametrize(("cut", "renewed"), [(False, 0), (True, 1)])
def test_after_the_last_failure_processes_stay_unless_some_were_stopped(cut, renewed):
    other = LATE if cut else fails(LookupError("no row"), 1.1)
    engine = Engine([[Handle(fails(LookupError("no row"), 1.0)), Handle(other)]])
    with pytest.raises(LookupError):
        call(engine)
    assert engine.log.count("renew") == renewed


@pytest.mark.parametrize(
    ("options", "hint"),
    [({}, "retries=1"), ({"retries": 1}, "retries="), ({"restarts": 1}, "max_restarts=")],
)
def test_a_loss_is_named_when_nothing_is_left_to_try(options, hint):
    tries = 1 + max(options.values(), default=0)
    engine = Engine([[Handle(ok(1)), Handle(None, until_stopped=True)] for _ in range(tries)])
    sent = engine.send_everywhere

    def send_everywhere(pending):
        engine.losses += pending.fn is run
        return sent(pending)

    engine.send_everywhere = send_everywhere
    with pytest.raises(sky.InstanceTerminatedError, match="a node was lost") as caught:
        call(engine, **options)
    assert hint in str(caught.value) and isinstance(caught.value.__cause__, sky.CancelledError)
    assert engine.log.count("start") == tries


def test_files_come_from_whoever_wrote_last_and_parts_from_whoever_has_them():
    lists = [
        {"last.pt": (5, "a"), "part-0": (4, "b")},
        {"last.pt": (9, "c"), "part-1": (8, "d")},
        {"last.pt": (7, "e"), "part-2": (6, "f"), "part-0": (3, "g")},
    ]
    assert sources(lists) == [("last.pt", 1), ("part-0", 0), ("part-1", 1), ("part-2", 2)]
    assert sources([{}, {}]) == []
