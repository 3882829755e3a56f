"""Fetches the suites that others wrote for their own executors: fetch.py FOLDER.

The standard library's comes from this distribution's package of Python tests, joblib's from the
joblib that is installed. Each becomes a module in FOLDER under a name of its own, so that workers
can import it. What is not available is skipped, and the tests say why.
"""

import platform
import shutil
import subprocess
import sys
from pathlib import Path


def standard_library(folder):
    package = "libpython{}.{}-testsuite".format(*platform.python_version_tuple())
    if not shutil.which("apt-get"):
        return "this system has no apt"
    done = subprocess.run(
        ["apt-get", "download", "-q", package], cwd=folder, capture_output=True, text=True
    )
    archives = sorted(folder.glob(f"{package}_*.deb"))
    if done.returncode or not archives:
        return f"no package {package} here: {(done.stderr.strip() or 'no reason given')[-300:]}"
    subprocess.run(["dpkg-deb", "-x", archives[-1], folder / "package"], check=True)
    found = next((folder / "package").rglob("test_concurrent_futures.py"), None)
    if found is None:
        return f"{package} has no test_concurrent_futures.py"
    shutil.copy(found, folder / "standard_suite.py")
    return None


def joblibs(folder):
    import joblib.test

    source = (Path(joblib.test.__file__).parent / "test_parallel.py").read_text()
    before = 'PROCESS_BACKENDS = ["multiprocessing", "loky"]'
    if before not in source:
        return "joblib's test_parallel.py names its backends in another way than we know"
    # Where it says which backends have processes, it says ours.
    (folder / "joblib_suite.py").write_text(
        source.replace(before, 'PROCESS_BACKENDS = ["skyward"]')
    )
    return None


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, get in (("standard_suite", standard_library), ("joblib_suite", joblibs)):
        missing = get(folder)
        if missing:
            (folder / f"{name}.missing").write_text(missing)
            print(f"{name}: {missing}")


if __name__ == "__main__":
    main()
