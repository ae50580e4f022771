"""scikit-learn's own check of its array API estimators, on tensors: `python -m tests.array_api.estimators`.

Prints a line for each estimator and dtype: "ok" or what is wrong. It fits the estimator on NumPy arrays and on tensors,
and compares the attributes and what the methods give, whose type it checks too.
"""

import os

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import warnings
from unittest import SkipTest

from sklearn.decomposition import PCA
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import all_estimators, get_tags
from sklearn.utils._test_common.instance_generator import _construct_instances
from sklearn.utils.estimator_checks import check_array_api_input_and_values

import flambeau

#: estimators whose default instance the check cannot compare, and those it can
INSTEAD = {
    # the check's data have rank 9 of 10: any basis of what is left is right
    "PCA": [PCA(n_components=2, svd_solver=solver, random_state=0) for solver in ("full", "covariance_eigh")],
    "LabelEncoder": [],  # takes labels alone: labels() checks it
}


def estimators():
    """(name, instance) of all that say they take arrays of any library."""
    for name, cls in all_estimators():
        try:
            found = INSTEAD[name] if name in INSTEAD else list(_construct_instances(cls))
            found = [estimator for estimator in found if get_tags(estimator).array_api_support]
        except (AttributeError, TypeError, SkipTest):  # needs another estimator to be made of
            continue
        yield from ((name, estimator) for estimator in found)


def labels():
    y = flambeau.tensor([30, 10, 30, 20])
    encoder = LabelEncoder()
    codes = encoder.fit_transform(y)
    assert isinstance(codes, flambeau.Tensor) and codes.tolist() == [2, 0, 2, 1]
    assert encoder.inverse_transform(codes).tolist() == y.tolist()


def main():
    import sklearn
    warnings.simplefilter("ignore")
    for name, estimator in estimators():
        for dtype in ("float32", "float64"):
            flambeau.set_default_dtype(getattr(flambeau, dtype))  # scores are means in the default dtype
            try:
                check_array_api_input_and_values(name, estimator, "flambeau.array_api", None, dtype)
                print(name, dtype, "ok")
            except Exception as error:
                print(name, dtype, type(error).__name__, " ".join(str(error).split())[:300])
    with sklearn.config_context(array_api_dispatch=True):
        labels()
    print("LabelEncoder int64 ok")


if __name__ == "__main__":
    main()
