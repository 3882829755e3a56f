"""cuML: code written for scikit-learn, run as it is and on a GPU, and what the GPU is worth.

Where the node has no GPU, or no cuML, both runs are scikit-learn's, and equally fast."""

import sys

import skyward as sky

SAMPLES = 52_667


@sky.compute
def forest(samples: int, accelerate: bool) -> tuple[bool, float, float]:
    """Whether cuML was used, the score on unseen data, and the seconds of training."""
    import importlib.util
    import time

    on_gpu = accelerate and importlib.util.find_spec("cuml") is not None
    if on_gpu:
        import cuml.accel

        cuml.accel.install()  # before scikit-learn is imported
    from sklearn.datasets import make_classification
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import train_test_split

    x, y = make_classification(samples, 20, n_informative=10, random_state=0)
    x, unseen_x, y, unseen_y = train_test_split(x.astype("float32"), y, random_state=0)
    model = RandomForestClassifier(n_estimators=20, max_depth=12, random_state=0)
    began = time.perf_counter()
    model.fit(x, y)
    return on_gpu, float(model.score(unseen_x, unseen_y)), time.perf_counter() - began


def main() -> None:
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    # On a cloud: provider=sky.AWS(), accelerator="T4", pip=["cuml-cu12"]. One node per run, because
    # cuML replaces parts of scikit-learn until the process ends.
    with sky.ComputePool(nodes=2) as pool:
        runs = sky.gather(forest(samples, False), forest(samples, True)) >> pool
    for on_gpu, score, seconds in runs:
        print(f"{'cuML' if on_gpu else 'scikit-learn'}: score {score:.3f} in {seconds:.2f} s")
    assert not runs[0][0] and min(score for _, score, _ in runs) > 0.85


if __name__ == "__main__":
    main()
