"""Tensor types by dtype, legacy constructors, and what is not available."""

import pytest

import flambeau


def test_types_and_instances():
    x = flambeau.ones(2, 3)
    assert isinstance(x, flambeau.FloatTensor) and not isinstance(x, flambeau.LongTensor)
    assert isinstance(x.double(), flambeau.DoubleTensor) and isinstance(x > 0, flambeau.BoolTensor)
    assert not isinstance(x, flambeau.cuda.FloatTensor) and not isinstance(3, flambeau.FloatTensor)
    assert flambeau.FloatTensor.dtype is flambeau.float32 and flambeau.FloatTensor.__name__ == "FloatTensor"
    assert not issubclass(flambeau.FloatTensor, flambeau.Tensor)


@pytest.mark.parametrize("make, expected", [
    (lambda t: t.FloatTensor([1, 2]), "tensor([1., 2.])"),
    (lambda t: t.FloatTensor((2, 3)), "tensor([2., 3.])"),
    (lambda t: t.LongTensor([1.5, 2]), "tensor([1, 2])"),
    (lambda t: t.LongTensor(), "tensor([], dtype=torch.int64)"),
    (lambda t: t.BoolTensor([0, 1]), "tensor([False,  True])"),
    (lambda t: t.HalfTensor([1]), "tensor([1.], dtype=torch.float16)"),
    (lambda t: t.FloatTensor(2, 3).shape, "torch.Size([2, 3])"),
    (lambda t: t.FloatTensor(t.Size([2, 3]), device="cpu").shape, "torch.Size([2, 3])"),
    (lambda t: t.Tensor([1, 2]), "tensor([1., 2.])"),
    (lambda t: t.Tensor((1, 2)), "tensor([1., 2.])"),
    (lambda t: t.Tensor(), "tensor([])"),
    (lambda t: t.Tensor(2, device="cpu").shape, "torch.Size([2])"),
    (lambda t: t.Tensor(size=(2, 3)).shape, "torch.Size([2, 3])"),
    (lambda t: t.Tensor(data=[1]), "tensor([1.])"),
    (lambda t: t.Tensor(t.ones(2, dtype=t.int64)), "tensor([1, 1])"),
    (lambda t: t.Tensor(t.ones(3).storage()), "tensor([1., 1., 1.])"),
    (lambda t: t.ones(2).new([1, 2]), "tensor([1., 2.])"),
    (lambda t: t.ones(2).long().new([1, 2]), "tensor([1, 2])"),
    (lambda t: t.ones(2).new(t.Size([4])).shape, "torch.Size([4])"),
    (lambda t: t.ones(2).new().shape, "torch.Size([0])"),
    (lambda t: t.ones(2).type(t.LongTensor), "tensor([1, 1])"),
    (lambda t: t.ones(2).type("torch.DoubleTensor").dtype, "torch.float64"),
    (lambda t: t.ones(2).type(), "'torch.FloatTensor'"),
])
def test_constructors(make, expected):
    assert repr(make(flambeau)) == expected


@pytest.mark.parametrize("call, error", [
    (lambda t: t.Tensor(3.5), TypeError), (lambda t: t.Tensor(True), TypeError), (lambda t: t.Tensor("a"), TypeError),
    (lambda t: t.Tensor(None), TypeError), (lambda t: t.Tensor(-1), RuntimeError),
    (lambda t: t.Tensor(1.0, 2), TypeError),
    (lambda t: t.Tensor(device="cuda"), RuntimeError), (lambda t: t.FloatTensor(t.ones(2).double()), TypeError),
    (lambda t: t.ByteTensor(b"abc"), TypeError), (lambda t: t.cuda.FloatTensor(2), TypeError),
    (lambda t: t.Tensor(2**70), OverflowError), (lambda t: t.Tensor(nonsense=1), TypeError),
    (lambda t: t.ones(1).type("bad"), ValueError), (lambda t: t.ones(1).type(t.cuda.FloatTensor), RuntimeError),
    (lambda t: t.ones(1).type("torch.cuda.FloatTensor"), RuntimeError),
])
def test_bad_constructors(call, error):
    with pytest.raises(error):
        call(flambeau)


def test_default_tensor_type():
    try:
        flambeau.set_default_tensor_type(flambeau.DoubleTensor)
        assert flambeau.ones(1).dtype is flambeau.Tensor([1]).dtype is flambeau.float64
        flambeau.set_default_tensor_type("torch.FloatTensor")
        assert flambeau.ones(1).dtype is flambeau.float32
    finally:
        flambeau.set_default_dtype(flambeau.float32)
    for bad in (flambeau.LongTensor, flambeau.float32, 3, flambeau.cuda.FloatTensor):
        with pytest.raises(TypeError):
            flambeau.set_default_tensor_type(bad)


# --- what is not available says so -----------------------------------------------------------------------------------

@pytest.mark.parametrize("call, word", [
    (lambda: flambeau.ones(2)._indices(), "sparse"), (lambda: flambeau.ones(2).to_padded_tensor(0.0), "nested"),
    (lambda: flambeau.ones(1).q_scale(), "quantized"), (lambda: flambeau.ones(1, dtype=flambeau.qint8), "qint8"),
    (lambda: flambeau.ones(1, dtype=flambeau.bcomplex32), "bcomplex32"),
    (lambda: flambeau.parse_ir("graph"), "TorchScript"), (lambda: flambeau.ones(1).xpu(), "device"),
])
def test_refusals_name_the_way_out(call, word):
    with pytest.raises(NotImplementedError, match=word):
        call()


def test_dense_answers():
    x = flambeau.ones(2, 3)
    assert x.to_dense() is x and x.sparse_dim() == 0 and x.dense_dim() == 2 and not x.is_sparse
    assert x.dequantize().dtype is flambeau.float32 and x.is_signed() and not flambeau.is_inference(x)
    assert x.grad_dtype is flambeau.float32 and x.const_data_ptr() == x.data_ptr()
    for name in ("indices", "values", "coalesce", "crow_indices", "ccol_indices"):
        with pytest.raises(RuntimeError, match="this one is strided"):
            getattr(x, name)()
    with pytest.raises(AttributeError):
        _ = flambeau.no_such_name


def test_small_questions():
    assert flambeau.compile(abs, backend="eager")(-1) == 1 and flambeau.compile(abs, disable=True) is abs
    assert flambeau.compile(backend="eager")(flambeau.compiler.is_compiling)() and not flambeau.compiler.is_compiling()
    assert flambeau.sym_max(2, 3.0) == 3.0 and isinstance(flambeau.sym_min(2, 3.0), float)
    assert flambeau.Stream().query() and flambeau.Event().query()
    assert flambeau.accelerator.device_count() == 0 and flambeau.accelerator.current_accelerator() is None
    with pytest.raises(RuntimeError, match="accelerator"):
        flambeau.accelerator.synchronize()
    assert issubclass(flambeau.AcceleratorError, RuntimeError)
    assert flambeau.get_device_module() is flambeau.cpu


# --- what may be assigned and made ----------------------------------------------------------------------------------

@pytest.mark.parametrize("make, expected", [
    (lambda t: t.tensor([-1], dtype=t.uint8), [255]), (lambda t: t.asarray(b"ab", dtype=t.uint8), [97, 98]),
    (lambda t: t.tensor([1e8, -1e8, 464.0]).to(t.float8_e4m3fn), [448, -448, 448]),
    (lambda t: t.tensor([1.0, 2.0, 3.0]).to(t.float8_e5m2), [1, 2, 3]),
    (lambda t: t.tensor(2**63, dtype=t.uint64), 2**63),
])
def test_values(make, expected):
    assert make(flambeau).tolist() == expected


@pytest.mark.parametrize("call, error", [
    (lambda t: t.tensor(None), RuntimeError), (lambda t: t.tensor({1, 2}), RuntimeError),
    (lambda t: t.tensor("a"), TypeError), (lambda t: t.tensor(2**63), ValueError),
    (lambda t: t.tensor([256], dtype=t.uint8), RuntimeError),
    (lambda t: setattr(t.ones(1), "requires_grad", 1), RuntimeError),
    (lambda t: setattr(t.ones(1), "data", 3), TypeError), (lambda t: setattr(t.ones(1), "grad", 3), TypeError),
    (lambda t: setattr(t.ones(1), "grad", t.ones(2)), RuntimeError),
    (lambda t: t.inference_mode()(lambda: t.ones(2))().requires_grad_(), RuntimeError),
])
def test_refused_values(call, error):
    with pytest.raises(error):
        call(flambeau)


@pytest.mark.parametrize("name, call", [
    ("Pow", lambda x: x.square()), ("MaxBackward1", lambda x: x.max()), ("View", lambda x: x.reshape(-1)),
    ("Transpose", lambda x: x.mT), ("Clone", lambda x: x.t().contiguous()), ("LinalgVectorNorm", lambda x: x.norm()),
    ("Mm", lambda x: x @ x.t()), ("Select", lambda x: x[0]), ("Hardtanh", flambeau.nn.functional.relu6),
    ("NativeLayerNorm", lambda x: flambeau.nn.functional.layer_norm(x, (3,))),
])
def test_node_names(name, call):
    assert call(flambeau.ones(2, 3, requires_grad=True)).grad_fn.name().startswith(name)


def test_names_without_effect():
    assert flambeau.Tag.pointwise.name == "pointwise" and flambeau.AggregationType.SUM == 0
    assert flambeau.DispatchKey.CPU is not flambeau.DispatchKey.CUDA
    assert repr(flambeau.sparse_csc) == "torch.sparse_csc" and flambeau.dequantize(flambeau.ones(1)).item() == 1
    assert flambeau.ones(3).index([flambeau.tensor([0, 2])]).tolist() == [1, 1]
    with pytest.raises(NotImplementedError):
        flambeau.Generator().graphsafe_get_state()
    try:
        flambeau.compiler.set_default_backend("eager")
        assert flambeau.compile(flambeau.compiler.is_compiling)()
        with pytest.raises(RuntimeError, match="inductor"):
            flambeau.compiler.set_default_backend("nvfuser")
    finally:
        flambeau.compiler.set_default_backend(None)


def test_overridable_functions():
    found = flambeau.overrides.get_overridable_functions()
    assert flambeau.add in found[flambeau] and flambeau.Tensor.add in found[flambeau.Tensor]
    assert flambeau.overrides.resolve_name(flambeau.add) == "torch.add"
    assert flambeau.overrides.is_tensor_method_or_property(flambeau.Tensor.add)
    assert flambeau.add in flambeau.overrides.get_testing_overrides()
    assert flambeau.set_num_threads in flambeau.overrides.get_ignored_functions()

    @flambeau.overrides.wrap_torch_function(lambda x: (x,))
    def twice(x):
        return x * 2

    class Mine(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "mine" if func is twice else super().__torch_function__(func, types, args, kwargs or {})

    assert twice(flambeau.ones(1)).item() == 2 and twice(flambeau.ones(1).as_subclass(Mine)) == "mine"


def test_whoever_overrides_is_asked_wherever_it_stands():
    class Answers:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return 3

    x = flambeau.ones(3)
    assert flambeau.nanquantile(x, q=range(3), interpolation=Answers()) == 3
    assert flambeau.sum(x, Answers()) == 3 and x.reshape(Answers(), 1) == 3
    assert flambeau.nn.functional.pad(x, [1, Answers()]) == 3


def test_whoever_overrides_is_asked_as_an_index_and_as_a_value():
    asked = []

    class Answers:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            asked.append((function, types))
            return 3

    class Tensors(Answers, flambeau.Tensor):
        pass

    x = flambeau.arange(3)
    assert x[Answers()] == x[0, Answers()] == x[Answers():] == x[Tensors()] == x[Tensors(),] == 3
    x[Tensors()], x[Answers()], x[0] = 1, 1, Answers()
    assert x.tolist() == [0, 1, 2] and {f for f, _ in asked[-3:]} == {flambeau.Tensor.__setitem__}
    assert [types for _, types in asked[-3:]] == [(Tensors,), (Answers,), (Answers,)]


def test_a_function_asks_and_is_called_back_past_the_question():
    from flambeau.overrides import handle_torch_function, has_torch_function, redispatch_function
    asked = []

    class Mine(flambeau.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(getattr(func, "__name__", func))
            return redispatch_function(func, types, args, kwargs)

    def scaled(a, b, plus=0):
        if has_torch_function((a, b)):
            return handle_torch_function(scaled, (a, b), a, b, plus=plus)
        return flambeau.mul(a, b) + plus

    x = flambeau.tensor([3.0]).as_subclass(Mine)
    assert scaled(x, x, plus=1).tolist() == [10] and asked == ["scaled", "mul"]
    assert scaled(flambeau.ones(1), flambeau.ones(1)).tolist() == [1] and len(asked) == 2
    assert has_torch_function((x,))


def test_types_of_sparse_tensors():
    for types, module in ((flambeau.sparse, "torch.sparse"), (flambeau.cuda.sparse, "torch.cuda.sparse")):
        assert types.FloatTensor.__module__ == module and types.LongTensor.is_sparse
        assert isinstance(flambeau.ones(2).to_sparse(), types.FloatTensor) == (not types.FloatTensor.is_cuda)
    assert flambeau.cuda.sparse.HalfTensor.is_cuda and not flambeau.sparse.HalfTensor.is_cuda


def test_the_memory_of_a_tensor_as_another_class_by_keywords():
    x = flambeau.ones(2)
    made = flambeau.Tensor._make_subclass(type("Mine", (flambeau.Tensor,), {}), data=x, require_grad=True)
    assert type(made).__name__ == "Mine" and made.requires_grad and made.data_ptr() == x.data_ptr()
    with pytest.raises(NotImplementedError, match="dispatch_"):
        flambeau.Tensor._make_subclass(flambeau.Tensor, x, dispatch_device=True)


def test_a_type_has_no_subclasses():
    with pytest.raises(TypeError, match=r"Own: FloatTensor .* subclass Tensor"):
        class Own(flambeau.FloatTensor):
            pass
