"""The same names under their earlier module; see skyward.integrations."""

from skyward.integrations.joblib_pools import (
    JoblibPool,
    ScikitLearnPool,
    joblib_backend,
    sklearn_backend,
)

__all__ = ["JoblibPool", "ScikitLearnPool", "joblib_backend", "sklearn_backend"]
