"""distributed.tensorflow: MultiWorkerMirroredStrategy over the workers of a pool."""

import json
import os

import numpy

import skyward as sky

STEPS, BATCH, RATE = 5, 6, 0.1


def rows(count):
    random = numpy.random.default_rng(11)
    x = random.normal(size=(count, 3)).astype("f4")
    return x, (x @ numpy.array([[1.0], [-1.0], [2.0]], dtype="f4")).astype("f4")


def test_tensors_stay_tensors():
    import tensorflow as tf

    tensor = tf.cast(tf.reshape(tf.range(8), (4, 2)), tf.int16)
    part, names = sky.shard(tensor, "abcd", node=1, total_nodes=2)
    assert tf.is_tensor(part) and part.dtype == tf.int16
    assert part.numpy().tolist() == [[2, 3], [6, 7]] and names == ["b", "d"]
    assert sky.shard(tensor[:1], node=1, total_nodes=2).shape == (0, 2)


@sky.compute
@sky.distributed.tensorflow()
def train():
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    workers = strategy.num_replicas_in_sync
    x, y = sky.shard(*rows(STEPS * BATCH * workers))
    with strategy.scope():
        weights = tf.Variable(tf.zeros((3, 1)))

    @tf.function
    def step(x, y):
        def replica(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((x @ weights - y) ** 2) / (BATCH * workers)
            slope = tape.gradient(loss, weights)
            together = tf.distribute.get_replica_context()
            slope, loss = together.all_reduce(tf.distribute.ReduceOp.SUM, [slope, loss])
            weights.assign_sub(RATE * slope)
            return loss

        return strategy.run(replica, args=(x, y))

    losses = []
    for at in range(0, STEPS * BATCH, BATCH):
        here = slice(at, at + BATCH)
        losses.append(float(step(tf.constant(x[here]), tf.constant(y[here]))))
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    return task, workers, losses, weights.numpy()


def alone(workers):
    x, y = rows(STEPS * BATCH * workers)
    weights, losses = numpy.zeros((3, 1)), []
    for at in range(0, len(x), BATCH * workers):
        here = slice(at, at + BATCH * workers)
        error = x[here] @ weights - y[here]
        losses.append(float((error**2).mean()))
        weights = weights - RATE * 2 * x[here].T @ error / len(error)
    return losses, weights


def test_training_equals_one_process(pool):
    expected, weights = alone(pool.nodes)
    for round_ in range(2):
        for rank, (task, workers, losses, theirs) in enumerate(train() @ pool):
            assert task == {"type": "worker", "index": rank}, round_
            assert workers == pool.nodes
            assert numpy.allclose(losses, expected, rtol=0, atol=1e-5)
            assert numpy.allclose(theirs, weights, rtol=0, atol=1e-5)


@sky.compute
def configured():
    return "TF_CONFIG" in os.environ


def test_the_description_is_gone_after_the_call(pool):
    train() @ pool
    assert set(configured() @ pool) == {False}
