"""A cloud for tests: its machines are processes on this computer, and cost nothing.

    def test_survives_two_preemptions():
        cloud = sky.testing.FakeCloud(preemptions=2, seed=7)
        with sky.ComputePool(provider=cloud, accelerator="A100", nodes=4) as pool:
            train() @ pool
        assert cloud.preempted == 2 and cloud.bill() < 3 and cloud.running == 0

It has its own clock, which runs ``speed`` times as fast as this computer's. It refuses what real
clouds tolerate but careful clients never do, and records that in ``violations``."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from skyward.base.suggest import suggesting
from skyward.exceptions import ConfigurationTypeError
from skyward.providers.local import Local

PRICES: Mapping[str, float] = {"cpu": 0.1, "T4": 0.5, "A100": 4.0, "H100": 8.0}
"""What a fake cloud sells by default: dollars an hour for one device, or 8 CPUs, on demand."""

_BY_NAME = ("prices", "spot_prices", "capacity", "spot_capacity")


class FakeCloud:
    """A provider for ``ComputePool(provider=cloud)``, and the cloud itself.

    All times are of the cloud's clock, in seconds. Names are those of accelerators, and "cpu" for
    machines without one.

    Args:
        prices: what is sold, in dollars an hour for one device on demand; "cpu": for 8 CPUs.
            Machines have 1, 2, 4 or 8 devices, or 8, 16, 32 or 64 CPUs.
        spot_prices: prices of spot machines; by default two fifths of `prices`.
        price_volatility: spot prices move by about this share, every five minutes.
        capacity: number of machines, of any size, in each of the two zones; names left out:
            unlimited.
        spot_capacity: how many of them are sold as spot machines.
        quota: machines that the account may have at the same time.
        preemptions: number of spot machines to preempt; `seed` decides which.
        preempt_after: about how long they have been in use by then.
        notice: time between the notice and the preemption.
        storms: at these times since the beginning, all spot machines are preempted.
        launch_delay: time until a machine runs, give or take a third.
        listing_lag: time until listings show a change.
        requests_per_second: beyond it, requests are throttled; 0: any number.
        lost_replies: share of requests that succeed but are never answered.
        server_errors: share of requests that fail, before or after they took effect.
        failed_boots: share of machines that never start.
        leaked_disks: share of disks that outlive their machine.
        seed: seed of everything left to chance. With ``speed=0``, a seed is a run.
        speed: speed of its clock. 60: a second here is a minute there. 0: only ``advance()`` moves
            it.
    """

    name: ClassVar[str] = "fake"

    @suggesting
    def __init__(
        self,
        prices: Mapping[str, float] = PRICES,
        *,
        spot_prices: Mapping[str, float] | None = None,
        price_volatility: float = 0.0,
        capacity: Mapping[str, int] | None = None,
        spot_capacity: Mapping[str, int] | None = None,
        quota: int | None = None,
        preemptions: int = 0,
        preempt_after: float = 60.0,
        notice: float = 120.0,
        storms: Iterable[float] = (),
        launch_delay: float = 30.0,
        listing_lag: float = 0.0,
        requests_per_second: float = 0.0,
        lost_replies: float = 0.0,
        server_errors: float = 0.0,
        failed_boots: float = 0.0,
        leaked_disks: float = 0.0,
        seed: int = 1,
        speed: float = 60.0,
    ) -> None:
        from skyward import _core

        options = _core.FakeCloudOptions()
        given: dict[str, Any] = {
            "prices": prices,
            "spot_prices": {} if spot_prices is None else spot_prices,
            "price_volatility": price_volatility,
            "capacity": {} if capacity is None else capacity,
            "spot_capacity": {} if spot_capacity is None else spot_capacity,
            "quota": quota,
            "preemptions": preemptions,
            "preempt_after": preempt_after,
            "notice": notice,
            "storms": storms,
            "launch_delay": launch_delay,
            "listing_lag": listing_lag,
            "requests_per_second": requests_per_second,
            "lost_replies": lost_replies,
            "server_errors": server_errors,
            "failed_boots": failed_boots,
            "leaked_disks": leaked_disks,
            "seed": seed,
            "speed": speed,
        }
        for name, value in given.items():
            expected = "a number"
            try:
                if name in _BY_NAME:
                    expected = 'a mapping such as {"A100": 4}'
                    setattr(options, name, dict(value))
                elif name == "storms":
                    expected = "a list of times"
                    setattr(options, name, list(value))
                else:
                    setattr(options, name, value)
            except (TypeError, ValueError):
                raise ConfigurationTypeError(
                    f"FakeCloud({name}={value!r}): {expected} is expected"
                ) from None
        self._cloud: Any = _core.FakeCloud(options)

    @property
    def remote(self) -> bool:
        """Whether its nodes share no files with this machine."""
        return False

    def settings(self) -> dict[str, str]:
        """What the engine's provider needs to know of this side."""
        return {**Local().settings(), **self._cloud.settings()}

    def advance(self, seconds: float = 0.0, *, minutes: float = 0.0, hours: float = 0.0) -> None:
        """Lets this much time pass there at once: machines are billed, boot, and are preempted."""
        self._cloud.advance(seconds + 60 * minutes + 3600 * hours)

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, there."""
        return float(self._cloud.elapsed())

    def preempt(self, node: int = 0, *, notice: float | None = None) -> None:
        """Preempts the machine of this node."""
        self._cloud.preempt(node, notice)

    def storm(self, *, notice: float | None = None) -> int:
        """Preempts all spot machines; returns how many."""
        return int(self._cloud.storm(notice))

    def set_spot_price(self, name: str, price: float) -> None:
        """Sets the price of spot machines with this accelerator, in dollars an hour."""
        self._cloud.set_spot_price(name, price)

    def set_capacity(self, name: str, machines: int) -> None:
        """Sets how many machines, of any size, each zone has. Machines that run stay."""
        self._cloud.set_capacity(name, machines)

    def bill(self) -> float:
        """What all machines have cost, in dollars, by the cloud's own account."""
        return float(self._cloud.bill())

    @property
    def running(self) -> int:
        """Machines that it bills now."""
        return int(self._cloud.running())

    @property
    def launched(self) -> int:
        """Machines that it has ever sold."""
        return int(self._cloud.launched())

    @property
    def preempted(self) -> int:
        """Machines that it has preempted, or has announced it will."""
        return int(self._cloud.preempted())

    @property
    def requests(self) -> int:
        return int(self._cloud.requests())

    @property
    def left(self) -> list[str]:
        """Everything that exists now: machines, disks, groups, keys."""
        return list(self._cloud.left())

    @property
    def violations(self) -> list[str]:
        """Mistakes of Skyward's that a real cloud would tolerate; each is a bug in Skyward."""
        return list(self._cloud.violations())

    def __repr__(self) -> str:
        return f"FakeCloud({self.running} running, {self.preempted} preempted, ${self.bill():.2f})"
