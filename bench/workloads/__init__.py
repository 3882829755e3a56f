"""One file for each workload: what it measures (FIGURES: unit, and whether more is better), what
Skyward is to reach (TARGETS) and how (measure)."""

from workloads import calls, gather, large_argument, mapping, submit

ALL = [calls, gather, mapping, submit, large_argument]
