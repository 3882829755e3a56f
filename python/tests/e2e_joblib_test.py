"""joblib and scikit-learn on a pool."""

import gc
import multiprocessing
import pathlib
import sys
import threading
import time
import types
import warnings
from importlib import metadata
from importlib.util import find_spec

import cloudpickle
import numpy
import pytest
from skyward.integrations import JoblibPool, ScikitLearnPool, joblib_backend, sklearn_backend
from skyward.transport.shared_arguments import MOST_STORED, SharedArguments

import skyward as sky

joblib = pytest.importorskip("joblib")
from joblib import Parallel, delayed, parallel_config  # noqa: E402
from waiting import wait_until  # noqa: E402


def where(_):
    info = sky.instance_info()
    return info.node if info.job_id else None


def square(x):
    return x * x


def fail_on(x, bad):
    if x == bad:
        raise LookupError(f"no {x}")
    return x


@pytest.fixture
def parallel(pool):
    with joblib_backend(pool) as active:
        assert active is pool
        yield Parallel(n_jobs=-1)


def test_all_slots_are_used_and_order_is_kept(parallel, pool):
    assert joblib.effective_n_jobs(-1) == joblib.effective_n_jobs(8) == pool.total_slots == 4
    assert joblib.effective_n_jobs(1) == 1 and joblib.effective_n_jobs(None) == 4
    assert parallel(delayed(square)(x) for x in range(300)) == [x * x for x in range(300)]
    assert set(parallel(delayed(where)(x) for x in range(40))) == {0, 1}


def test_one_job_stays_here(parallel):
    assert Parallel(n_jobs=1)(delayed(where)(x) for x in range(2)) == [None, None]
    with pytest.raises(ValueError, match="n_jobs == 0"):
        Parallel(n_jobs=0)(delayed(square)(x) for x in range(2))


def fail_all(x):
    raise LookupError(f"no {x}")


def test_a_failed_call_raises_one_error_and_logs_no_others(caplog):
    with sky.ComputePool(concurrency=4, display="quiet") as own, joblib_backend(own):
        with pytest.raises(LookupError, match=r"no \d"):
            Parallel(n_jobs=-1, batch_size=1)(delayed(fail_all)(x) for x in range(12))
    gc.collect()
    assert "nobody asked" not in caplog.text


def remember(value):
    sys.modules[__name__].remembered = value


def remembered_there(_):
    return sys.modules[__name__].remembered


def test_an_initializer_runs_in_every_worker_first(parallel):
    with parallel_config(backend="skyward", initializer=remember, initargs=(5,)):
        assert set(Parallel(n_jobs=-1)(delayed(remembered_there)(x) for x in range(40))) == {5}


SET = None


def test_functions_of_a_program_have_the_globals_that_an_initializer_has_left(parallel):
    def load(value):
        global SET
        SET = value

    def use(_):
        return SET

    with parallel_config(backend="skyward", initializer=load, initargs=(5,)):
        assert set(Parallel(n_jobs=-1)(delayed(use)(x) for x in range(40))) == {5}


def test_a_pool_of_one_slot_is_used(monkeypatch):
    with sky.ComputePool(nodes=1, display="quiet") as small, joblib_backend(small):
        assert joblib.effective_n_jobs(-1) == 1
        assert Parallel(n_jobs=-1)(delayed(where)(x) for x in range(3)) == [0, 0, 0]


def test_lambdas_closures_and_keywords(parallel):
    base = 10
    assert parallel(delayed(lambda x, plus=0: x + base + plus)(x, plus=1) for x in (1, 2)) == [
        12,
        13,
    ]


class Counted:
    """Counts how often it is pickled."""

    def __init__(self):
        self.times = 0

    def __reduce__(self):
        self.times += 1
        return int, (7,)


def test_a_function_is_serialized_once_for_all_batches(parallel):
    seven = Counted()
    loads = []

    def add(x):
        loads.append(x)  # of this worker
        return x + seven, len(loads)

    with parallel:
        answers = parallel(delayed(add)(x) for x in range(100))
        assert [sum_ for sum_, _ in answers] == [x + 7 for x in range(100)]
        assert max(length for _, length in answers) >= 25, "each worker keeps its function"
        assert seven.times == 1
        loads.append("a change between two calls is sent")
        assert min(length for _, length in parallel(delayed(add)(x) for x in range(4))) == 2


def test_each_item_may_have_a_function_of_its_own(parallel):
    def times(factor):
        return lambda x: x * factor

    answers = parallel(delayed(times(i))(i) for i in range(200))
    assert answers == [i * i for i in range(200)]


def test_after_the_block_joblib_is_as_before(pool):
    before = joblib.effective_n_jobs(-1)
    with joblib_backend(pool):
        pass
    assert joblib.effective_n_jobs(-1) == before
    with pytest.raises(sky.NotProvisionedError, match="joblib_backend"):
        parallel_config(backend="skyward")


def test_the_name_can_be_used(pool):
    with joblib_backend(pool):
        with parallel_config(backend="skyward", n_jobs=2):
            assert set(Parallel()(delayed(where)(x) for x in range(20))) == {0, 1}
        with parallel_config(backend="threading", n_jobs=2):
            assert set(Parallel()(delayed(where)(x) for x in range(4))) == {None}


def test_the_first_error_arrives_with_its_type(parallel):
    with pytest.raises(LookupError, match="no 3") as caught:
        parallel(delayed(fail_on)(x, 3) for x in range(100))
    assert isinstance(caught.value, sky.ExecutionError)
    again = Parallel(n_jobs=-1)  # joblib itself mixes the calls of one that has failed up
    assert again(delayed(square)(x) for x in (2, 3)) == [4, 9]


def test_an_error_in_the_input_arrives(parallel):
    def inputs():
        for x in range(50):
            if x == 30:
                raise KeyError("input")
            yield delayed(square)(x)

    with pytest.raises(KeyError, match="input"):
        parallel(inputs())


def test_a_task_that_cannot_travel_arrives_as_an_error(parallel):
    tasks = [delayed(square)(x) for x in range(20)]
    tasks.append(delayed(square)(threading.Lock()))
    with pytest.raises(sky.SerializationError, match="lock"):
        parallel(tasks)


def linger(path, seconds):
    import os
    import threading

    try:
        open(f"{path}/{os.getpid()}", "w").close()
        threading.Event().wait(seconds)
    except KeyboardInterrupt:
        open(f"{path}/interrupted-{os.getpid()}", "w").close()
        raise


def test_timeout_cancels_what_runs(parallel, tmp_path):
    def runs_out(folder):
        """How many tasks had begun by then; all of them are interrupted."""
        folder.mkdir()
        started = time.monotonic()
        with pytest.raises(multiprocessing.TimeoutError):
            Parallel(n_jobs=-1, timeout=0.5)(delayed(linger)(str(folder), 120) for _ in range(4))
        assert time.monotonic() - started < 60
        assert Parallel(n_jobs=-1)(delayed(square)(x) for x in (2, 3)) == [4, 9]
        count = lambda pattern: len(list(folder.glob(pattern)))
        wait_until(lambda: count("interrupted-*") == count("[0-9]*"))
        return count("[0-9]*")

    assert any(runs_out(tmp_path / str(n)) == 4 for n in range(8)), "they never began in time"
    assert Parallel(n_jobs=-1)(delayed(square)(x) for x in (2, 3)) == [4, 9]


def test_an_error_cancels_the_others(parallel, tmp_path):
    tasks = [delayed(linger)(str(tmp_path), 120) for _ in range(3)]

    def fail_when_they_run():
        import pathlib
        import threading

        while len(list(pathlib.Path(str(tmp_path)).iterdir())) < 3:
            threading.Event().wait(0.01)
        raise LookupError("now")

    with pytest.raises(LookupError, match="now"):
        Parallel(n_jobs=-1, batch_size=1)([*tasks, delayed(fail_when_they_run)()])
    wait_until(lambda: len(list(tmp_path.glob("interrupted-*"))) == 3)


def wait_for(path):
    import os
    import threading

    while not os.path.exists(path):
        threading.Event().wait(0.01)
    return path.rpartition("/")[2]


def test_generators(parallel, tmp_path):
    ordered = Parallel(n_jobs=-1, return_as="generator")(delayed(square)(x) for x in range(20))
    assert next(ordered) == 0 and list(ordered) == [x * x for x in range(1, 20)]

    paths = [str(tmp_path / name) for name in ("a", "b")]
    unordered = Parallel(n_jobs=-1, return_as="generator_unordered", batch_size=1)(
        delayed(wait_for)(path) for path in paths
    )
    (tmp_path / "b").touch()
    assert next(unordered) == "b"
    (tmp_path / "a").touch()
    assert list(unordered) == ["a"]


# joblib reports how many results were not read, if any.
@pytest.mark.filterwarnings("ignore:[0-9]+ tasks have been successfully executed")
def test_a_generator_that_is_dropped_leaves_others_alone(parallel):
    first = Parallel(n_jobs=-1, return_as="generator")(delayed(square)(x) for x in range(50))
    assert next(first) == 0
    assert parallel(delayed(square)(x) for x in range(50)) == [x * x for x in range(50)]
    first.close()
    assert parallel(delayed(square)(x) for x in range(5)) == [0, 1, 4, 9, 16]


def outer(x):
    from joblib import effective_n_jobs

    inner = Parallel(n_jobs=-1)(delayed(where)(y) for y in range(3))
    return x, effective_n_jobs(-1), inner


def test_nested_calls_stay_on_their_worker(parallel):
    for _, jobs, nodes in parallel(delayed(outer)(x) for x in range(6)):
        assert jobs == 1 and len(set(nodes)) == 1 and nodes[0] in (0, 1)


def test_a_call_in_the_input_of_a_call(parallel, pool):
    remote = sky.compute(square)

    def inputs():
        for x in range(20):
            yield delayed(square)(pool.submit(remote(x)).result(60))

    assert parallel(inputs()) == [x**4 for x in range(20)]


def test_threads_may_make_calls_at_the_same_time(pool):
    results = {}

    def work(name):
        with joblib_backend(pool):
            results[name] = Parallel(n_jobs=-1)(delayed(square)(x + name) for x in range(60))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {name: [(x + name) ** 2 for x in range(60)] for name in range(3)}


def blas_threads():
    import numpy  # noqa: F401
    from threadpoolctl import threadpool_info

    return [entry["num_threads"] for entry in threadpool_info()]


def test_threads_inside_a_task_can_be_limited(pool):
    pytest.importorskip("threadpoolctl")
    with joblib_backend(pool), parallel_config(backend="skyward", inner_max_num_threads=1):
        for counts in Parallel(n_jobs=-1)(delayed(blas_threads)() for _ in range(2)):
            assert counts and set(counts) == {1}


# ---------------------------------------------------------------------------- shared arguments


@pytest.fixture
def backend(pool):
    from joblib.parallel import get_active_backend

    with joblib_backend(pool):
        yield get_active_backend()[0]


def test_each_parallel_call_begins_with_batches_of_one_item(backend, monkeypatch):
    submit, sizes = type(backend).submit, []

    def note_size(self, batch, callback=None):
        sizes.append(len(batch.items))
        return submit(self, batch, callback)

    for size in (1, 2, 4, 8):  # of quick tasks, before
        backend.batch_completed(size, 0.001)
    assert backend.compute_batch_size() == 16
    monkeypatch.setattr(type(backend), "submit", note_size)
    assert Parallel(n_jobs=-1)(delayed(square)(x) for x in range(8)) == [x * x for x in range(8)]
    assert sizes[:4] == [1, 1, 1, 1]


def test_the_limit_of_the_pool_is_that_of_each_item_of_a_batch():
    with (
        sky.ComputePool(concurrency=2, default_compute_timeout=1, display="quiet") as limited,
        joblib_backend(limited),
    ):
        naps = (delayed(time.sleep)(0.2) for _ in range(8))
        assert Parallel(n_jobs=-1, batch_size=8)(naps) == [None] * 8
        with pytest.raises(sky.TimeoutError):
            Parallel(n_jobs=-1, batch_size=2)(delayed(time.sleep)(x) for x in (60, 0))


def column_sum(x, column):
    return float(x[:, column].sum())


def test_a_large_array_is_stored_once(backend):
    x = numpy.random.default_rng(0).normal(size=(50 << 20 >> 7, 16))
    assert x.nbytes == 50 << 20
    expected = x.sum(axis=0)
    for _ in range(2):  # the second call of joblib's finds it on the nodes
        got = Parallel(n_jobs=-1, batch_size=1)(delayed(column_sum)(x, c % 16) for c in range(40))
        assert numpy.allclose(got[:16], expected)
    assert backend._arguments.stored_bytes == x.nbytes


def test_a_large_array_travels_once_to_each_node(tmp_path):
    x = numpy.random.default_rng(0).normal(size=(50 << 20 >> 7, 16))  # 50 MB that compress badly
    shell = [sys.executable, str(pathlib.Path(__file__).with_name("counting_shell.py"))]
    files = [tmp_path / name for name in ("first", "second")]
    there = sky.Command([[*shell, str(file)] for file in files], python=sys.executable)
    with sky.ComputePool(there, nodes=2, display="quiet") as pool:
        sky.compute(square)(1) @ pool
        before = [int(file.read_text()) for file in files]
        with joblib_backend(pool):
            for _ in range(3):
                calls = (delayed(column_sum)(x, c % 16) for c in range(24))
                got = Parallel(n_jobs=-1, batch_size=1)(calls)
                assert numpy.allclose(got[:16], x.sum(axis=0))
        sent = [int(file.read_text()) - was for file, was in zip(files, before, strict=True)]
    for size in sent:  # never more than the array and a little beside it
        assert size < 1.01 * x.nbytes + 200_000
    assert sum(sent) > x.nbytes


def test_an_array_that_was_written_to_is_sent_again(backend):
    x = numpy.zeros((1 << 17, 1))
    for value in range(5):
        x[77_777] = value
        assert Parallel(n_jobs=-1)([delayed(column_sum)(x, 0)]) == [value]
    assert backend._arguments.stored_bytes == 5 * x.nbytes


def spoil(x):
    x[:] = 7
    return float(x.sum())


def test_a_task_that_writes_to_it_spoils_nothing(backend):
    x = numpy.ones(1 << 16)
    assert Parallel(n_jobs=-1)(delayed(spoil)(x) for _ in range(8)) == [7 * x.size] * 8
    assert Parallel(n_jobs=-1)(delayed(numpy.sum)(x) for _ in range(8)) == [x.size] * 8
    assert backend._arguments.stored_bytes == x.nbytes


def total_length(texts, extra):
    return sum(map(len, texts)) + extra


def test_long_lists_are_stored_once_too(backend):
    texts = [f"{n:0500}" for n in range(2000)]
    got = Parallel(n_jobs=-1, batch_size=1)(delayed(total_length)(texts, n) for n in range(20))
    assert got == [500 * 2000 + n for n in range(20)]
    assert 1_000_000 < backend._arguments.stored_bytes < 1_100_000


def size_of_mixed(mixed, extra):
    texts, numbers = mixed[:-1], mixed[-1]
    numbers += extra  # of this task alone
    return sum(map(len, texts)) + float(numbers[0])


def test_texts_beside_numbers_are_stored_once(backend):
    texts, numbers = [f"{n:0500}" for n in range(2000)], numpy.zeros(1 << 16)
    mixed = [*texts, numbers]
    got = Parallel(n_jobs=-1, batch_size=1)(delayed(size_of_mixed)(mixed, n) for n in range(20))
    assert got == [500 * 2000 + n for n in range(20)]
    assert 1_000_000 < backend._arguments.stored_bytes - numbers.nbytes < 1_100_000


def test_times_are_stored_once(backend):
    times = numpy.arange(1 << 16).astype("datetime64[s]")
    got = Parallel(n_jobs=-1, batch_size=1)(delayed(numpy.max)(times) for _ in range(20))
    assert got == [times[-1]] * 20
    assert times.nbytes <= backend._arguments.stored_bytes < times.nbytes + 10_000


def test_without_threads_no_parallel_call_waits_for_ever(pool, monkeypatch):
    real, refused = threading.Thread.start, []

    def start(thread):
        if thread.name == "skyward-joblib":
            refused.append(thread)
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with joblib_backend(pool):
        got = Parallel(n_jobs=-1, batch_size=1, timeout=30)(delayed(square)(x) for x in range(20))
    assert got == [x * x for x in range(20)] and refused


@pytest.mark.parametrize("module", ["__mp_main__", "helpers_by_value"])
def test_lists_of_what_goes_by_value_stay_as_they_are(pool, monkeypatch, module):
    helpers = types.ModuleType(module)
    exec("class Text(str):\n    def twice(self):\n        return 2 * self", vars(helpers))
    monkeypatch.setitem(sys.modules, module, helpers)
    texts = [helpers.Text(f"{n:0500}") for n in range(600)]
    cloudpickle.register_pickle_by_value(helpers)
    try:
        with joblib_backend(pool):
            got = Parallel(n_jobs=-1)(delayed(lambda x: x[5].twice())(texts) for _ in range(2))
    finally:
        cloudpickle.unregister_pickle_by_value(helpers)
    assert got == [2 * texts[5]] * 2


def test_what_is_used_once_makes_room(pool):
    core = pool._engine().core
    kept = SharedArguments(pool, limit=5 * 100_000)
    often = bytes(range(256)) * 400
    for n in range(20):
        once = numpy.full(12_500, n)
        kept.buffers(core, [memoryview(often), memoryview(once).cast("B")])
        assert kept.kept_bytes <= 5 * 100_000
    assert kept.stored_bytes == len(often) + 20 * 100_000
    huge = memoryview(bytes(600_000))
    assert kept.buffers(core, [huge])[0] is kept.buffers(core, [huge])[0], "larger than the limit"
    kept.close()


@pytest.mark.parametrize("size", [300_000, 450_000, 600_000])
def test_what_is_used_again_stays_whatever_is_sent_before_it(pool, size):
    core = pool._engine().core
    kept = SharedArguments(pool, limit=500_000)
    often = memoryview(bytes(size))
    stored = kept.buffers(core, [often])[0]
    assert stored is not often
    for n in range(10):
        once = memoryview(numpy.full(12_500, float(n))).cast("B")
        first, second = kept.buffers(core, [once, often])
        assert second is stored
        assert (first is once) == (size + once.nbytes > 500_000)
        assert kept.kept_bytes <= max(500_000, size)
    kept.close()
    new = kept.buffers(core, [once, often])
    assert new[1] is kept.buffers(core, [often])[0], "the larger one is stored first"
    kept.close()


def test_only_so_many_arguments_are_kept(pool):
    core = pool._engine().core
    kept = SharedArguments(pool)
    often = memoryview(bytes(range(256)) * 300)
    arrays = [numpy.full(8_750, float(n)) for n in range(300)]
    views = [memoryview(array).cast("B") for array in arrays]
    kept.buffers(core, [often])
    for view in views:
        assert kept.buffers(core, [often, view])[1] is not view
        assert kept.kept_buffers <= MOST_STORED
    assert kept.stored_bytes == len(often) + 300 * 70_000, "what is used again stays"
    sent = kept.buffers(core, views)
    assert kept.kept_buffers == MOST_STORED
    assert sum(buffer is view for buffer, view in zip(sent, views, strict=True)) == 300 - 64
    kept.close()


@pytest.mark.parametrize("batch_size", [1, 100])
def test_many_large_arguments_are_taken(backend, batch_size):
    calls = (delayed(numpy.sum)(numpy.full(8_750, float(n))) for n in range(300))
    got = Parallel(n_jobs=-1, batch_size=batch_size)(calls)
    assert got == [8_750 * n for n in range(300)]
    assert backend._arguments.kept_buffers <= MOST_STORED


# ---------------------------------------------------------------------------- scikit-learn


@pytest.fixture(scope="module")
def digits():
    datasets = pytest.importorskip("sklearn.datasets")
    return datasets.load_digits(return_X_y=True)


def test_grid_search_scores_as_alone(pool, digits):
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    def search(jobs):
        steps = make_pipeline(StandardScaler(), SVC(random_state=0))
        grid = {"svc__C": [0.1, 1.0], "svc__gamma": ["scale", 0.01]}
        found = GridSearchCV(steps, grid, n_jobs=jobs, cv=3).fit(digits[0][:600], digits[1][:600])
        return found.cv_results_["mean_test_score"], found.best_params_

    with sklearn_backend(pool):
        scores, best = search(-1)
    alone, best_alone = search(1)
    assert numpy.array_equal(scores, alone) and best == best_alone


def test_cross_validation_and_forests_score_as_alone(pool, digits):
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    x, y = digits[0][:500], digits[1][:500]

    def scores(jobs):
        model = LogisticRegression(max_iter=200)
        forest = RandomForestClassifier(30, random_state=3, n_jobs=jobs).fit(x, y)
        return cross_val_score(model, x, y, n_jobs=jobs, cv=4), forest.predict_proba(x)

    with sklearn_backend(pool):
        remote = scores(-1)
    alone = scores(1)
    assert numpy.array_equal(remote[0], alone[0])
    assert numpy.array_equal(remote[1], alone[1])


def test_the_data_of_a_search_travels_once(backend, digits):
    from sklearn.model_selection import GridSearchCV
    from sklearn.tree import DecisionTreeClassifier

    x = numpy.tile(digits[0], (8, 1))
    y = numpy.tile(digits[1], 8)
    grid = {"max_depth": [1, 2, 3], "min_samples_leaf": [1, 2]}
    search = GridSearchCV(DecisionTreeClassifier(random_state=0), grid, n_jobs=-1, cv=3)
    search.fit(x, y)
    indices = 3 * len(x) * 8  # of each split: what it trains on and what it tests on
    assert x.nbytes < backend._arguments.stored_bytes <= x.nbytes + y.nbytes + indices


def test_filters_of_foreign_warnings_stay_here(pool, digits):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    class Foreign(UserWarning):
        pass

    Foreign.__module__ = "not_installed_over_there"
    with warnings.catch_warnings(), sklearn_backend(pool):
        warnings.simplefilter("ignore", Foreign)
        warnings.simplefilter("ignore", UserWarning)
        model = LogisticRegression(max_iter=500)
        assert len(cross_val_score(model, digits[0][:200], digits[1][:200], n_jobs=-1, cv=2)) == 2


def test_pools_add_their_package():
    assert JoblibPool().image.pip == [f"joblib=={joblib.__version__}"]
    assert JoblibPool(image=sky.Image(pip=["joblib"])).image.pip == ["joblib"]
    assert JoblibPool(joblib_version="1.5.1").image.pip == ["joblib==1.5.1"]
    both = JoblibPool(image=sky.Image(pip=["numpy", "joblib"]), joblib_version="1.5.1")
    assert both.image.pip == ["numpy", "joblib==1.5.1"]
    here = metadata.version("scikit-learn") if find_spec("sklearn") else ""
    with_it = [f"scikit-learn=={here}".rstrip("=")]
    major = int(metadata.version("numpy").partition(".")[0])
    assert ScikitLearnPool(nodes=3).image.pip == [*with_it, f"numpy<{major + 1}"]
    named = ScikitLearnPool(image=sky.Image(pip=["numpy==2.1.0"])).image.pip
    assert named == ["numpy==2.1.0", *with_it]
    assert ScikitLearnPool(sklearn_version="1.7.0").image.pip == ["scikit-learn==1.7.0"]
    with pytest.raises(sky.ConfigurationError, match="joblib==1.4"):
        JoblibPool(image=sky.Image(pip=["joblib==1.4"]), joblib_version="1.5")


def test_joblib_pool_is_a_pool_and_a_backend():
    image = sky.Image(pip=[f"joblib=={joblib.__version__}"])
    here = lambda x: (x, sky.instance_info().total_nodes)  # by value: nodes have no numpy
    with JoblibPool(provider=sky.Local(), nodes=2, image=image, display="quiet") as pool:
        assert pool.is_active and isinstance(pool, sky.ComputePool)
        assert Parallel(n_jobs=-1)(delayed(here)(x) for x in range(5)) == [(x, 2) for x in range(5)]
        assert sky.compute(here)(3) >> pool == (3, 2)
    assert not pool.is_active and Parallel(n_jobs=1)([delayed(where)(0)]) == [None]


def test_no_pool_is_named(pool):
    with pytest.raises(TypeError, match="takes an open pool"), joblib_backend(3):
        pass
