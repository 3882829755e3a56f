"""Hurts pools of this machine in many ways: abuse.py [--seed N] [--seconds S] [ACT …].

Every act runs once, then acts drawn at random until the time is over. Each has a seed of its own,
which repeats its choices (not the machine's timing); a failure tells how to run it again.
"""

import argparse
import random
import sys
import time
import traceback

from acts import ACTS
from bed import Bed, Skipped


def run(name, seed):
    """'passed', 'failed' or 'skipped'."""
    bed = Bed(seed)
    began = time.monotonic()
    try:
        ACTS[name](bed)
        verdict = "passed"
        told = "; ".join(program.out.splitlines()[-1][:80] for program in bed.programs)
        print(f"ok      {name} --seed {seed}: {time.monotonic() - began:.1f} s; {told}", flush=True)
    except Skipped as reason:
        verdict = "skipped"
        print(f"SKIPPED {name}: {reason}", flush=True)
    except Exception:
        verdict = "failed"
        print(f"FAILED  {name}; again: ./dev abuse --seed {seed} {name}")
        traceback.print_exc(file=sys.stdout)
        for program in bed.programs:
            print("its output ended with:", program.out[-2000:], program.err[-4000:], sep="\n")
        print("left:", bed.processes(), flush=True)
    finally:
        bed.close()
    return verdict


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("acts", nargs="*", metavar="ACT", help=", ".join(ACTS))
    chosen = parser.parse_args()
    unknown = set(chosen.acts) - set(ACTS)
    if unknown:
        parser.error(f"no act {', '.join(sorted(unknown))}; there are {', '.join(ACTS)}")
    if chosen.acts:
        todo = [(name, chosen.seed) for name in chosen.acts]
    else:
        todo = [(name, chosen.seed) for name in ACTS]
    draw = random.Random(chosen.seed)
    end = time.monotonic() + chosen.seconds
    count = {"passed": 0, "failed": 0, "skipped": 0}
    while todo or (not chosen.acts and time.monotonic() < end):
        name, seed = todo.pop(0) if todo else (draw.choice(list(ACTS)), draw.randrange(1 << 30))
        count[run(name, seed)] += 1
    print(", ".join(f"{number} {verdict}" for verdict, number in count.items()))
    return 1 if count["failed"] or not count["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
