"""Memory that was given to other libraries stays theirs, whatever happens to the tensor it came from."""

import gc

import numpy as np
import pytest

import flambeau

#: ways out: each gives something that NumPy reads
EXPORTS = {
    "numpy": lambda x: x.numpy(),
    "asarray": np.asarray,
    "memoryview": memoryview,
    "buffer": lambda x: np.frombuffer(x, np.float64),
    "dlpack": np.from_dlpack,
    "view": lambda x: x[:].numpy(),
    "array of a view alone": lambda x: x.view(-1, 2).t().numpy().T.reshape(-1),
    "data": lambda x: x.data.numpy(),
    "storage": lambda x: x.untyped_storage()._elements(flambeau.float64).numpy(),
    "from_numpy of numpy": lambda x: flambeau.from_numpy(x.numpy()).numpy(),
}


def set_data(x):
    x.data = flambeau.zeros(3)


def set_to_other(x):
    x.set_(flambeau.zeros(3, dtype=flambeau.float64))


def set_to_nothing(x):
    x.set_()


def resize(x):
    try:
        x.resize_(100_000)
    except RuntimeError as error:
        assert "keeps its size" in str(error)


def resize_storage(x):
    try:
        x.untyped_storage().resize_(800_000)
    except RuntimeError as error:
        assert "keeps its size" in str(error)


def out(x):
    flambeau.ones(50_000, dtype=flambeau.float64, out=x.set_() if not x._is_view() else None)


def share(x):
    x.share_memory_()


def nothing(x):
    pass


CHANGES = [set_data, set_to_other, set_to_nothing, resize, resize_storage, out, share, nothing]


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_exported_memory_stays(export, change):
    x = flambeau.arange(8, dtype=flambeau.float64)
    given = export(x)
    change(x)
    del x
    gc.collect()
    noise = [flambeau.full((8,), -1.0, dtype=flambeau.float64) for _ in range(50)]  # takes freed blocks
    assert np.asarray(given).tolist() == list(range(8))
    del noise


@pytest.mark.parametrize("export", EXPORTS.values(), ids=EXPORTS)
def test_memory_is_freed_with_its_last_user(export):
    def allocated():
        gc.collect()
        return flambeau.memory.stats()["allocated"]
    n = 100_000
    before = allocated()
    x = flambeau.zeros(8 * n, dtype=flambeau.float64)
    given = export(x)
    x.data = flambeau.zeros(1)
    assert allocated() - before >= 64 * n
    del x
    assert allocated() - before >= 64 * n
    del given
    assert allocated() - before < n


def test_numpy_after_set_data_still_writes_its_own_memory():
    x = flambeau.zeros(4)
    other = x[:]
    array = x.numpy()
    x.data = flambeau.ones(4)
    array[0] = 7
    assert other.tolist() == [7, 0, 0, 0] and x.tolist() == [1, 1, 1, 1]


def test_resize_of_exported_memory_is_refused():
    x = flambeau.ones(4)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="keeps its size"):
        x.resize_(100)
    assert array.tolist() == x.tolist() == [1, 1, 1, 1]


def test_data_of_resized_tensor():
    """`.data` shares the memory as it was: what grows afterwards moves away."""
    x = flambeau.ones(4)
    y = x.data
    x.resize_(100_000)
    noise = [flambeau.zeros(4) for _ in range(50)]
    assert y.tolist() == [1, 1, 1, 1] and x[:4].tolist() == [1, 1, 1, 1]
    del noise


def test_buffer_of_every_layout_keeps_its_shape():
    """Sizes and steps that a consumer holds are its own."""
    x = flambeau.arange(6, dtype=flambeau.float64).view(2, 3).t().clone()
    view = memoryview(x)
    x.data = flambeau.zeros(1, 1, 1)
    assert view.shape == (3, 2) and view.strides == (8, 24) and np.asarray(view).tolist() == [[0, 3], [1, 4], [2, 5]]
