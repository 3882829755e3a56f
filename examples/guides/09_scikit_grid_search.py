"""scikit-learn: a grid search on the pool finds what it finds here, fit by fit."""

from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from skyward.integrations import sklearn_backend

import skyward as sky


def main():
    x, y = load_iris(return_X_y=True)
    grid = {"C": [0.1, 1, 10], "kernel": ["linear", "rbf"]}
    with sky.ComputePool(nodes=2) as pool, sklearn_backend(pool):
        there = GridSearchCV(SVC(), grid, cv=5, n_jobs=-1).fit(x, y)
    here = GridSearchCV(SVC(), grid, cv=5).fit(x, y)
    print(f"best: {there.best_params_}, score {there.best_score_:.3f}")
    assert there.best_params_ == here.best_params_ and there.best_score_ == here.best_score_


if __name__ == "__main__":
    main()
