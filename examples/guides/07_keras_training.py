"""Keras: ``model.fit`` on two nodes as it is written for one; each has its part of the digits."""

import skyward as sky


@sky.compute
@sky.distributed.keras(backend="jax")
def train(images, labels):
    import keras

    x, y = sky.shard(images, labels, drop_last=True)
    model = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model.fit(x, y, batch_size=32, epochs=8, verbose=0).history["accuracy"]


def main():
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    with sky.ComputePool(nodes=2) as pool:
        for node, accuracy in enumerate(train((images / 16).astype("f4"), labels) @ pool):
            print(f"node {node}: {accuracy[0]:.1%} right at first, {accuracy[-1]:.1%} at the end")
            assert accuracy[-1] > 0.85


if __name__ == "__main__":
    main()
