"""scikit-learn: a grid search over several kinds of estimators, its fits spread over the pool."""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from skyward.integrations import sklearn_backend

import skyward as sky

GRID = [
    {"model": [SVC()], "model__C": [1, 10], "model__gamma": ["scale", 0.01]},
    {"model": [RandomForestClassifier(random_state=0)], "model__n_estimators": [20, 40]},
    {"model": [LogisticRegression(max_iter=300)], "model__C": [0.1, 1.0]},
]


def main():
    x, x_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    steps = Pipeline([("scale", StandardScaler()), ("model", SVC())])
    # To install scikit-learn on the nodes, write ScikitLearnPool(nodes=2, concurrency=2).
    with sky.ComputePool(nodes=2, concurrency=2) as pool, sklearn_backend(pool):
        search = GridSearchCV(steps, GRID, cv=3, n_jobs=-1).fit(x, y)
    best = search.best_params_
    print(f"{len(search.cv_results_['params'])} candidates, best: {best}")
    print(f"accuracy on the test images: {search.score(x_test, y_test):.1%}")
    assert search.score(x_test, y_test) > 0.95


if __name__ == "__main__":
    main()
