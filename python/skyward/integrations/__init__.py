"""Libraries that can send their work to a pool.

    with JoblibPool(nodes=4, concurrency=4):
        results = joblib.Parallel(n_jobs=-1)(joblib.delayed(f)(x) for x in data)

    with ScikitLearnPool(nodes=4):
        GridSearchCV(estimator, parameters, n_jobs=-1).fit(X, y)

    with sky.ComputePool(nodes=4) as pool, joblib_backend(pool):
        ...  # the same with a pool that is there already

joblib itself is loaded when one of these is entered."""

from skyward.integrations.joblib_pools import (
    JoblibPool,
    ScikitLearnPool,
    joblib_backend,
    sklearn_backend,
)

__all__ = ["JoblibPool", "ScikitLearnPool", "joblib_backend", "sklearn_backend"]
