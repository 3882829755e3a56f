"""distributed.keras on each of its three backends: training equals training in one process."""

import numpy
import pytest

import skyward as sky

WORKERS, STEPS, BATCH = 2, 4, 8


def rows():
    random = numpy.random.default_rng(2)
    x = random.normal(size=(STEPS * BATCH * WORKERS, 6)).astype("f4")
    return x, numpy.sin(x.sum(axis=1, keepdims=True)).astype("f4")


def make_model():
    import keras

    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(9, "tanh")])
    model.add(keras.layers.Dense(1))
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    return model


def fit(x, y, batch):
    model = make_model()
    seen = model.fit(x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0)
    return seen.history["loss"], [numpy.asarray(part) for part in model.get_weights()]


def fit_with_torch(x, y, batch):
    """The same by hand: Keras leaves averaging gradients to torch."""
    import torch
    import torch.distributed as dist

    model = make_model()
    if dist.is_initialized():
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for at in range(0, len(x), batch):
            loss = torch.nn.functional.mse_loss(
                model(torch.from_numpy(x[at : at + batch])), torch.from_numpy(y[at : at + batch])
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses, [part.detach().numpy() for part in model.parameters()]


def training(backend):
    """How this backend trains, over all workers and alone."""
    way = fit_with_torch if backend == "torch" else fit

    @sky.compute
    @sky.distributed.keras(backend=backend)
    def together():
        import keras

        assert keras.backend.backend() == backend
        return way(*sky.shard(*rows()), BATCH)

    @sky.compute
    def alone():
        import os

        os.environ["KERAS_BACKEND"] = backend
        import keras

        keras.utils.set_random_seed(42)
        return way(*rows(), BATCH * WORKERS)

    return together, alone


@pytest.mark.parametrize("backend", ["jax", "tensorflow", "torch"])
def test_fit_equals_one_process(backend):
    together, alone = training(backend)
    env = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    with sky.ComputePool(nodes=1, env=env, display="quiet") as pool:
        losses, weights = alone() >> pool
    with sky.ComputePool(nodes=WORKERS, env=env, display="quiet") as pool:
        first, second = together() @ pool, together() @ pool
    for answers in (first, second):
        for (_, one), (_, other) in zip(answers, answers[1:], strict=False):
            for part, twin in zip(one, other, strict=True):
                assert numpy.array_equal(part, twin), "the workers end with one model"
        for part, twin in zip(answers[0][1], weights, strict=True):
            assert numpy.allclose(part, twin, rtol=0, atol=1e-5)
        mean = numpy.mean([theirs for theirs, _ in answers], axis=0)
        assert numpy.allclose(mean, losses, rtol=0, atol=1e-5)
