"""The standard library's tests of ProcessPoolExecutor, run with sky.Executor."""

import pytest
from conftest import FOLDER

import skyward as sky

if (FOLDER / "standard_suite.missing").exists():
    pytest.skip((FOLDER / "standard_suite.missing").read_text(), allow_module_level=True)
suite = pytest.importorskip("standard_suite", reason="./dev peers fetches it")


class SkywardMixin(suite.ExecutorMixin):
    @staticmethod
    def executor_type(max_workers=None, mp_context=None, **options):
        return sky.Executor(max_workers=max_workers, display="quiet", **options)

    def get_context(self):
        return None


def of(tests):
    return type(tests.__name__, (SkywardMixin, tests, suite.BaseTestCase), {})


TestShutdown = of(suite.ExecutorShutdownTest)
TestWait = of(suite.WaitTests)
TestAsCompleted = of(suite.AsCompletedTests)
TestExecutor = of(suite.ProcessPoolExecutorTest)
TestDeadlock = of(suite.ExecutorDeadlockTest)
TestInitializer = of(suite.InitializerMixin)
TestFailingInitializer = of(suite.FailingInitializerMixin)
