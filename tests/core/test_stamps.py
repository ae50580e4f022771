"""The stamp of a parameter's memory changes with every write, whichever way it comes; where somebody else may write,
there is none. Convolutions keep their weights under it."""

import copy
import io
import itertools
import threading

import numpy as np
import pytest

import flambeau
from flambeau import _C, nn

numbers = itertools.count(2)  # so that no write repeats the one before
OPTIMIZERS = ("SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop",
              "Muon")


def step(name, weight, **options):
    if name == "Muon":
        weight = weight.flatten(1).detach()  # of matrices: a view of the same memory
    weight.grad = flambeau.ones_like(weight)
    getattr(flambeau.optim, name)([weight], lr=0.1, **options).step()
    weight.grad = None


def load(weight):
    layer = nn.Conv2d(16, 32, 3, bias=False)
    layer.weight = weight
    layer.load_state_dict({"weight": flambeau.rand(weight.shape)})


def load_file(weight):
    file = io.BytesIO()
    flambeau.save(flambeau.rand(weight.shape), file)
    file.seek(0)
    weight.copy_(flambeau.load(file))


def write_through_autograd(weight):
    with flambeau.enable_grad():
        base = weight.detach().requires_grad_()
        base.sum().backward()
        base.data.sub_(base.grad)


def replace(weight, new):
    weight.data = new


@flambeau.compile
def compiled(weight):
    weight.mul_(0.5)
    return weight.sum()


WRITES = {
    "in place": lambda w: w.add_(1), "item": lambda w: w.__setitem__((0, 0), next(numbers)),
    "view": lambda w: w[3].fill_(next(numbers)),
    "data": lambda w: w.data.mul_(2), "data of a view": lambda w: w[1].data.fill_(next(numbers)),
    "data of data": lambda w: w.data.data.neg_(),
    "a number in data": lambda w: w.data[0, 0].__setitem__((0, 0), next(numbers)),
    "detach": lambda w: w.detach().copy_(flambeau.rand(w.shape)), "out": lambda w: flambeau.add(w, 1, out=w),
    "product": lambda w: flambeau.mm(flambeau.rand(32, 8), flambeau.rand(8, 144), out=w.detach().view(32, 144)),
    "foreach": lambda w: flambeau._foreach_mul_([w.detach()], 3.0), "init": lambda w: nn.init.kaiming_normal_(w),
    "state_dict": load, "file": load_file, "gradient": write_through_autograd,
    "other memory": lambda w: replace(w, flambeau.rand(w.shape)),
    "other memory twice": lambda w: (replace(w, w.data.clone()), w.data.add_(1)),
    "set_": lambda w: w.detach().set_(w.detach()).add_(1),
    "bytes": lambda w: w.untyped_storage().fill_(60 + next(numbers) % 4),
    "NumPy": lambda w: np.add(w.detach().numpy(), 1, out=w.detach().numpy()),
    "NumPy of data": lambda w: w.data.numpy().fill(next(numbers)),
    "memoryview": lambda w: memoryview(w.data).cast("B").__setitem__(3, 60 + next(numbers) % 4),
    "DLPack": lambda w: np.from_dlpack(w.detach()).__iadd__(1),
    "shared": lambda w: w.share_memory_().data.fill_(next(numbers)),
    "compiled": lambda w: compiled(w), "compiled, of data": lambda w: compiled(w.data),
    "vector_to_parameters": lambda w: nn.utils.vector_to_parameters(flambeau.rand(w.numel()), [w]),
    "swap": lambda w: flambeau.utils.swap_tensors(w, nn.Parameter(flambeau.rand(w.shape))),
    **{name: lambda w, name=name: step(name, w) for name in OPTIMIZERS},
    **{f"{name}, alone": lambda w, name=name: step(name, w, foreach=False) for name in ("SGD", "Adam", "RMSprop")},
}


@pytest.mark.parametrize("way", WRITES)
def test_convolutions_see_every_write(way):
    x = flambeau.rand(1, 16, 24, 24)
    layer = nn.Conv2d(16, 32, 3)
    weight = layer.weight
    stamp = _C.stamp_of(weight)
    assert stamp is not None
    with flambeau.no_grad():
        for _ in range(2):
            for _ in range(3):  # from the second on they are kept
                before = layer(x)
            WRITES[way](weight)
            after, fresh = layer(x), nn.functional.conv2d(x, layer.weight.clone(), layer.bias)
            assert flambeau.allclose(after, fresh, rtol=1e-4, atol=1e-4, equal_nan=True)
            assert not flambeau.equal(after, before), "nothing was written"
    assert _C.stamp_of(weight) != stamp


def test_kept_weights_are_found_again():
    """As long as nobody writes, nothing is put in order twice; nor does reading change anything."""
    x, layer = flambeau.rand(1, 16, 24, 24), nn.Conv2d(16, 32, 3)
    with flambeau.no_grad():
        for _ in range(3):
            layer(x)
        kept, stamp = _C.graph_counts()["packed"], _C.stamp_of(layer.weight)
        for read in (lambda w: w.data.sum(), lambda w: w.tolist(), copy.deepcopy, lambda w: w.norm(), repr):
            read(layer.weight)
        layer(x)
        assert _C.stamp_of(layer.weight) == stamp and _C.graph_counts()["packed"] == kept
        nn.functional.conv2d(x, layer.weight[:16])
        assert _C.stamp_of(layer.weight) == stamp


def test_parts_of_one_memory_are_told_apart():
    x, weight = flambeau.rand(1, 16, 24, 24), nn.Parameter(flambeau.rand(64, 16, 3, 3))
    with flambeau.no_grad():
        for _ in range(3):
            first, second = (nn.functional.conv2d(x, part) for part in weight.chunk(2))
        assert flambeau.allclose(flambeau.cat([first, second], 1), nn.functional.conv2d(x, weight.clone()), rtol=1e-4)


def test_a_write_beside_a_convolution_is_seen_after_it():
    """A convolution may put weights in order that another thread is writing: they must not be kept for what they are
    when all is written."""
    x, layer = flambeau.rand(1, 128, 24, 24), nn.Conv2d(128, 256, 3)
    values = [flambeau.rand(layer.weight.shape) for _ in range(2)]

    def write():
        with flambeau.no_grad():
            for k in range(40):
                layer.weight.copy_(values[k % 2])

    writer = threading.Thread(target=write)
    with flambeau.no_grad():
        writer.start()
        while writer.is_alive():
            layer(x)
        writer.join()
        fresh = nn.functional.conv2d(x, layer.weight.clone(), layer.bias)
        assert flambeau.allclose(layer(x), fresh, rtol=1e-4, atol=1e-3)


def test_later_memory_at_the_same_address():
    x = flambeau.rand(1, 16, 24, 24)
    with flambeau.no_grad():
        for k in range(4):
            layer = nn.Conv2d(16, 32, 3)  # its memory is that of the layer before
            for _ in range(3):
                found = layer(x)
            fresh = nn.functional.conv2d(x, layer.weight.clone(), layer.bias)
            assert flambeau.allclose(found, fresh, rtol=1e-4, atol=1e-5), k


@pytest.mark.parametrize("give", [
    lambda w: w.data_ptr(), lambda w: w.detach().numpy(), lambda w: w.data.numpy(), lambda w: memoryview(w.detach()),
    lambda w: w.detach().__dlpack__(), lambda w: w.untyped_storage().data_ptr(), lambda w: w.share_memory_()])
def test_whose_address_is_known_has_none(give):
    weight = nn.Parameter(flambeau.rand(8))
    kept = give(weight)
    assert _C.stamp_of(weight) is None
    weight.detach().add_(1)
    assert _C.stamp_of(weight) is None and _C.stamp_of(nn.Parameter(weight.detach())) is None
    del kept


def test_who_has_a_stamp():
    assert _C.stamp_of(flambeau.rand(3)) is None
    foreign = nn.Parameter(flambeau.from_numpy(np.ones(3, np.float32)))
    assert _C.stamp_of(foreign) is None
    layer = nn.Conv2d(4, 4, 3)
    assert len({_C.stamp_of(p) for p in layer.parameters()}) == 2
    assert _C.stamp_of(layer.double().weight) is not None  # what .to() puts in its place
    with pytest.raises(TypeError, match="expected a Tensor"):
        _C.stamp_of(3)
