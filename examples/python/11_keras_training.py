"""Keras: ``model.fit`` on two nodes, JAX below, each node with its part of handwritten digits."""

import skyward as sky


@sky.compute
@sky.distributed.keras(backend="jax")
def train(images, labels, epochs):
    """Returns the loss of each epoch, and the accuracy on images that nobody trained with."""
    import keras

    held_out = 300
    x, y = sky.shard(images[held_out:], labels[held_out:], drop_last=True)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy")
    seen = model.fit(x, y, batch_size=32, epochs=epochs, verbose=0)
    weights = model.get_weights()

    # All nodes have the same weights, so one node alone can evaluate them.
    keras.distribution.set_distribution(None)
    alone = keras.models.clone_model(model)
    alone.set_weights(weights)
    chosen = keras.ops.argmax(alone(images[:held_out]), axis=1)
    right = keras.ops.mean(keras.ops.cast(keras.ops.equal(chosen, labels[:held_out]), "float32"))
    return seen.history["loss"], float(right)


def main():
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = (digits.images[..., None] / 16).astype("f4")
    with sky.ComputePool(nodes=2) as pool:
        for node, (losses, right) in enumerate(train(images, digits.target, epochs=8) @ pool):
            print(f"node {node}: loss {losses[0]:.3f} to {losses[-1]:.3f}, {right:.1%} right")
            assert right > 0.85


if __name__ == "__main__":
    main()
