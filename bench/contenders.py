"""The systems that bench.py compares, each behind the same verbs.

A contender runs `workers` worker processes on this machine. Every verb uses the system's own
recommended way: futures where it tracks tasks one by one, its object store where it has one.
"""

from __future__ import annotations

import concurrent.futures
import importlib
import importlib.metadata
import os
import sys
import warnings


def echo(x):
    return x


def touch(array):
    """Reads one value of every page, so that the bytes have really arrived."""
    return float(array[:: 4096 // array.itemsize].sum())


def make(count):
    """A large result."""
    import numpy as np

    return np.full(count, 0.5)


def completed(executor, function, items):
    futures = [executor.submit(function, item) for item in items]
    return [future.result() for future in concurrent.futures.as_completed(futures)]


class Contender:
    name = "?"
    package: str | None = None  # what must be installed
    parallel_limit = 20_000  # tasks of the throughput run: less for slow systems
    map_limit: int | None = None  # items of `map`, where it takes more of them

    def __init__(self, workers: int):
        self.workers = workers

    @classmethod
    def version(cls) -> str:
        return importlib.metadata.version(cls.package) if cls.package else sys.version.split()[0]

    @classmethod
    def missing(cls) -> str | None:
        if cls.package is None:
            return None
        try:
            importlib.metadata.version(cls.package)
        except importlib.metadata.PackageNotFoundError:
            return f"{cls.package} is not installed"
        return None

    def start(self) -> None: ...
    def close(self) -> None: ...
    def call(self, function, *args): ...
    def many(self, function, items) -> list: ...

    def map(self, function, items) -> list:
        return self.many(function, items)

    def as_completed(self, function, items) -> list:
        return self.many(function, items)


class Skyward(Contender):
    name = "skyward"
    parallel_limit = 100_000

    @classmethod
    def version(cls):
        import skyward

        return skyward.__version__

    def start(self):
        import skyward as sky

        self.sky = sky
        self.lazy = {function: sky.compute(function) for function in (echo, touch, make)}
        self.pool = sky.ComputePool(
            provider=sky.Local(), nodes=self.workers, display="quiet", collect_metrics=False
        )
        self.pool.__enter__()

    def close(self):
        self.pool.__exit__(None, None, None)

    def call(self, function, *args):
        return self.lazy[function](*args) >> self.pool

    def many(self, function, items):
        lazy = self.lazy[function]
        return list(self.sky.gather(*[lazy(item) for item in items]) >> self.pool)

    def map(self, function, items):
        return list(self.pool.map(self.lazy[function], items))

    def as_completed(self, function, items):
        with self.sky.Executor(pool=self.pool) as executor:
            return completed(executor, function, items)


class ProcessPool(Contender):
    name = "ProcessPoolExecutor"

    def start(self):
        from concurrent.futures import ProcessPoolExecutor

        self.pool = ProcessPoolExecutor(self.workers)

    def close(self):
        self.pool.shutdown()

    def call(self, function, *args):
        return self.pool.submit(function, *args).result()

    def many(self, function, items):
        futures = [self.pool.submit(function, item) for item in items]
        return [future.result() for future in futures]

    def as_completed(self, function, items):
        return completed(self.pool, function, items)


class MultiprocessingPool(Contender):
    name = "multiprocessing.Pool"
    parallel_limit = 100_000

    def start(self):
        import multiprocessing

        self.pool = multiprocessing.Pool(self.workers)

    def close(self):
        self.pool.terminate()
        self.pool.join()

    def call(self, function, *args):
        return self.pool.apply(function, args)

    def many(self, function, items):
        results = [self.pool.apply_async(function, (item,)) for item in items]
        return [result.get() for result in results]

    def map(self, function, items):
        return self.pool.map(function, items)


class Loky(Contender):
    name = "joblib/loky"
    package = "joblib"
    parallel_limit = 5_000
    map_limit = 100_000  # with few items, the sizes of its batches do not grow to what it likes

    def start(self):
        from joblib.externals.loky import ProcessPoolExecutor

        self.pool = ProcessPoolExecutor(self.workers)

    def close(self):
        self.pool.shutdown(wait=True)

    call = ProcessPool.call
    many = ProcessPool.many
    as_completed = ProcessPool.as_completed

    def map(self, function, items):
        from joblib import Parallel, delayed

        return Parallel(n_jobs=self.workers)(delayed(function)(item) for item in items)


class Dask(Contender):
    name = "dask.distributed"
    package = "distributed"
    parallel_limit = 1_000

    def start(self):
        warnings.filterwarnings("ignore")
        from distributed import Client, LocalCluster

        self.cluster = LocalCluster(
            n_workers=self.workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        )
        self.client = Client(self.cluster)

    def close(self):
        self.client.close()
        self.cluster.close()

    def call(self, function, *args):
        return self.client.submit(function, *args, pure=False).result()

    def many(self, function, items):
        return self.client.gather(
            [self.client.submit(function, item, pure=False) for item in items]
        )


class Ray(Contender):
    name = "ray"
    package = "ray"
    parallel_limit = 5_000

    def start(self):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        ray = importlib.import_module("ray")
        self.ray = ray
        ray.init(
            num_cpus=self.workers,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _node_ip_address="127.0.0.1",
        )
        self.remote = {f: ray.remote(f) for f in (echo, touch, make)}

    def close(self):
        self.ray.shutdown()

    def call(self, function, *args):
        args = [self.ray.put(a) if hasattr(a, "nbytes") else a for a in args]
        return self.ray.get(self.remote[function].remote(*args))

    def many(self, function, items):
        return self.ray.get([self.remote[function].remote(item) for item in items])


ALL = [Skyward, ProcessPool, MultiprocessingPool, Loky, Dask, Ray]
