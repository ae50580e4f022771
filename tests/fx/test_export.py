"""Exported programs: what they compute, what they ask of their arguments, and their files."""

import dataclasses
import io
import math

import pytest

import flambeau
from flambeau import nn
from flambeau._symbolic.shape_env import ConstraintViolationError, UserError
from flambeau.export import AdditionalInputs, Dim, ShapesCollection, dims, export, load, save
from flambeau.export._validating import SpecViolationError
from flambeau.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes
from flambeau.export.experimental import _export_forward_backward
from flambeau.export.passes import move_to_device_pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.register_buffer("scale", flambeau.full((3,), 2.0))
        self.register_buffer("shift", flambeau.ones(1), persistent=False)
        self.table = flambeau.arange(3.0)

    def forward(self, x):
        y = self.second(flambeau.relu(self.first(x)))
        return y * self.scale + self.table * self.shift, x.shape[0]


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        y = flambeau.relu(self.norm(self.conv(x)))
        return self.head(nn.functional.adaptive_avg_pool2d(nn.functional.max_pool2d(y, 2), 1).flatten(1))


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(flambeau.randn(16, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.layer(x + self.table[:x.shape[1]])


class Wrapping(nn.Module):
    """A function as a module, with the arguments that it has."""

    def __init__(self, function):
        super().__init__()
        self.forward = function


def written(program):
    file = io.BytesIO()
    save(program, file)
    return file.getvalue()


def reread(program):
    """The program of a file, which is written as it was."""
    content = written(program)
    again = load(io.BytesIO(content))
    assert str(load(io.BytesIO(written(again)))) == str(again)
    return again


#: (module, example, what is said of its sizes, other arguments that it takes)
MODELS = {
    "mlp": (Net, (5, 4), {0: Dim("batch")}, [(1, 4), (2, 4), (17, 4)]),
    "cnn": (Images, (2, 3, 16, 12), {0: Dim("batch"), 2: Dim("h", min=4), 3: Dim("w", min=4)},
            [(1, 3, 8, 9), (3, 3, 30, 4)]),
    "transformer": (Positions, (2, 5, 8), {0: Dim("batch"), 1: Dim("length", max=16)}, [(1, 1, 8), (4, 16, 8)]),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_for_other_sizes_and_from_files(name):
    make, example, said, others = MODELS[name]
    flambeau.manual_seed(0)
    net = make().eval()
    program = export(net, (flambeau.randn(example),), dynamic_shapes=(said,))
    program.validate()
    for again in (program, reread(program)):
        assert again.range_constraints == program.range_constraints
        assert str(again.graph_signature) == str(program.graph_signature)
        module = again.module()
        for shape in (example, *others):
            x = flambeau.randn(shape)
            found, expected = module(x), net(x)
            if isinstance(found, tuple):
                assert found[1] == expected[1]
                found, expected = found[0], expected[0]
            assert flambeau.equal(found, expected), shape


def test_an_operator_that_cannot_count_large_sizes_teaches_nothing():
    """The sizes that are tried must be small enough for a convolution's count of bytes."""
    net = nn.Conv2d(3, 64, 7, 2, 3)
    program = export(net, (flambeau.randn(2, 3, 64, 64),),
                     dynamic_shapes=({0: Dim("batch"), 2: Dim("h", min=32), 3: Dim("w", min=32)},))
    assert repr(program.range_constraints) == "{s0: VR[0, int_oo], s1: VR[32, int_oo], s2: VR[32, int_oo]}"


def test_names_and_signature():
    net = Net()
    program = export(net, (flambeau.randn(5, 4),), dynamic_shapes={"x": {0: Dim("batch")}})
    assert [n.name for n in program.graph.nodes] == [
        "p_first_weight", "p_first_bias", "p_second_weight", "p_second_bias", "b_scale", "b_shift", "c_table", "x",
        "linear", "relu", "linear_1", "mul", "mul_1", "add", "sym_size_int", "output"]
    signature = program.graph_signature
    assert signature.parameters == ("first.weight", "first.bias", "second.weight", "second.bias")
    assert signature.buffers == ("scale", "shift") and signature.non_persistent_buffers == ("shift",)
    assert signature.lifted_tensor_constants == ("table",) and signature.user_inputs == ("x",)
    assert signature.user_outputs == ("add", "sym_size_int") and signature.inputs_to_buffers["b_scale"] == "scale"
    assert str(signature).splitlines()[5] == "b_scale: BUFFER target='scale' persistent=True"
    assert repr(program.range_constraints) == "{s0: VR[0, int_oo]}"
    assert set(program.state_dict) == {*signature.parameters, "scale"} and set(program.constants) == {"shift", "table"}
    assert program.state_dict["first.weight"] is net.first.weight
    assert [name for name, _ in program.named_parameters()] == list(signature.parameters)
    assert len(list(program.buffers())) == 2 and program.example_inputs[1] == {}
    x = program.graph.find_nodes(op="placeholder")[-1]
    assert repr(x.meta["val"].shape) == "torch.Size([s0, 4])"
    flat = [program._value(target) for target in (*signature.parameters, *signature.buffers, "table")]
    given = flambeau.randn(3, 4)
    assert flambeau.equal(program.graph_module(*flat, given)[0], net(given)[0])
    with pytest.raises(RuntimeError, match="module"):
        program(given)


class Trees(nn.Module):
    def forward(self, x, d, *args, k=1, **more):
        return {"r": x * k + d["a"] + args[0] + more["z"], "n": None, "l": [x.sum(), 3]}


def test_trees_of_arguments_and_results():
    ones = flambeau.ones(2)
    program = export(Trees(), (ones, {"a": ones, "b": [ones]}, ones), {"z": ones, "k": 3})
    assert [n.name for n in program.graph.nodes][:6] == ["x", "d_a", "d_b_0", "args_0", "z", "k"]
    for again in (program, reread(program)):
        result = again.module()(2 * ones, {"a": ones, "b": [ones]}, ones, z=4 * ones, k=3)
        assert result["r"].tolist() == [12, 12] and result["n"] is None and result["l"][1] == 3
        with pytest.raises(AssertionError, match="k must be 3"):
            again.module()(ones, {"a": ones, "b": [ones]}, ones, z=ones, k=4)


def test_arguments_of_other_sizes_are_refused():
    program = export(Net(), (flambeau.randn(5, 4),), dynamic_shapes=({0: Dim("batch", min=2, max=8)},))
    module = program.module()
    for shape, words in (((5, 5), r"x\.shape\[1\] must be 4, got 5"), ((9, 4), r"s0 must be in VR\[2, 8\], got 9"),
                         ((1, 4), "got 1"), ((4,), "2 dimensions")):
        with pytest.raises(AssertionError, match=words):
            module(flambeau.randn(shape))
    with pytest.raises(RuntimeError, match=r"s0 must be in VR\[2, 8\], got 9"):
        program.module(check_guards=False)(flambeau.randn(9, 4))
    assert program.module(check_guards=False)(flambeau.randn(7, 4))[1] == 7


def test_errors_suggest_what_dynamic_shapes_should_be():
    a, b = Dim("a"), Dim("b")
    x = flambeau.ones(5)
    for function, args, shapes, wanted in (
            (lambda x, y: x + y, (x, x), {"x": {0: a}, "y": {0: b}}, {"x": {0: a}, "y": {0: a}}),
            (lambda x: x + flambeau.ones(5), (x,), {"x": {0: a}}, {"x": {0: 5}}),
            (lambda x: x if x.shape[0] > 3 else x + 1, (x,), {"x": (a,)}, {"x": (Dim("a", min=4),)})):
        model = Wrapping(function)
        with pytest.raises(ConstraintViolationError, match="Suggested fixes") as error:
            export(model, args, dynamic_shapes=shapes)
        refined = refine_dynamic_shapes_from_suggested_fixes(error.value.msg, shapes)
        assert repr(refined).replace("b", "a") == repr(wanted).replace("b", "a")
        assert export(model, args, dynamic_shapes=refined).module()(*args).shape == (5,)
    with pytest.raises(UserError, match=r"also names.*'c'"):
        refine_dynamic_shapes_from_suggested_fixes("Suggested fixes:\n  c = 4", (a,))


def test_programs_are_moved_to_other_devices():
    net = nn.Sequential(nn.Linear(4, 2), nn.BatchNorm1d(2)).eval()
    program = export(Wrapping(lambda x: net(x) + flambeau.ones(2, device="cpu")), (flambeau.randn(5, 4),))
    moved = move_to_device_pass(program, {"cpu": "meta"})
    tensors = [*moved.state_dict.values(), *moved.constants.values(), moved.example_inputs[0][0],
               *(n.meta["val"] for n in moved.graph.nodes if isinstance(n.meta.get("val"), flambeau.Tensor))]
    assert {t.device.type for t in tensors} == {"meta"} and moved.module()(flambeau.empty(5, 4, device="meta")).is_meta
    with pytest.raises(RuntimeError, match="expected a device"):
        move_to_device_pass(moved, 3)


def test_programs_that_are_not_whole_are_found():
    def program():
        made = export(nn.Linear(4, 2), (flambeau.randn(5, 4),))
        made.validate()
        return made

    def step(program):
        return next(n for n in program.graph.nodes if n.op == "call_function")

    for damage in (lambda p: setattr(step(p), "target", print), lambda p: step(p).meta.pop("val"),
                   lambda p: p.state_dict.pop("weight"), lambda p: p.graph_signature.input_specs.pop(),
                   lambda p: p.graph_signature.output_specs.pop()):
        damaged = program()
        damage(damaged)
        with pytest.raises(SpecViolationError, match="validate"):
            damaged.validate()


def test_what_a_program_consists_of_is_not_set():
    program = export(nn.Linear(4, 2), (flambeau.randn(5, 4),))
    for name in ("graph", "state_dict", "graph_signature", "dialect"):
        with pytest.raises(RuntimeError, match=f"{name} is not set"):
            setattr(program, name, None)
    for change in (program.module().train, program.module().eval):
        with pytest.raises(NotImplementedError, match="export the module again"):
            change()
    signature = program.graph_signature
    assert signature.lifted_custom_objs == signature.input_tokens == () and signature.assertion_dep_token is None


def test_the_run_leaves_no_attributes():
    class Counts(nn.Module):
        count = 3

        def forward(self, x):
            self.count, self.seen = 4, x
            return x + 1

    net = Counts()
    export(net, (flambeau.ones(2),))
    assert net.count == 3 and not hasattr(net, "seen")


def test_branches_that_take_weights_are_written():
    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(flambeau.tensor([2.0, 3.0]))

        def forward(self, x):
            return flambeau.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a * self.weight, (x,))

    net, x = Branches(), -flambeau.ones(2)
    assert reread(export(net, (x,))).module()(x).tolist() == net(x).tolist() == [-2, -3]


def test_sizes_that_cannot_stay_open_say_so():
    x = flambeau.randn(5, 4)
    with pytest.raises(ConstraintViolationError, match="width was to be open, but the program needs it to be 4"):
        export(Net(), (x,), dynamic_shapes=({1: Dim("width")},))
    with pytest.raises(ConstraintViolationError, match=r"use Dim\('length', max=16\)"):
        export(Positions().eval(), (flambeau.randn(2, 5, 8),), dynamic_shapes=({1: Dim("length")},))
    with pytest.raises(ConstraintViolationError, match="2 or more"):
        export(Net(), (x[:1],), dynamic_shapes=({0: Dim("batch")},))
    with pytest.raises(ConstraintViolationError, match="outside"):
        export(Net(), (x,), dynamic_shapes=({0: Dim("batch", max=4)},))

    class Sum(nn.Module):
        def forward(self, a, b):
            return a + b

    with pytest.raises(ConstraintViolationError, match=r"second was to be open by itself.*needs it to be first"):
        export(Sum(), (x, x), dynamic_shapes=({0: Dim("first")}, {0: Dim("second")}))
    batch = Dim("batch")
    program = export(Sum(), (x, x), dynamic_shapes=({0: batch}, {0: batch}))
    assert program.module()(x[:3], x[:3]).shape == (3, 4)
    with pytest.raises(AssertionError, match=r"b\.shape\[0\] must be s0, which is 3 here"):
        program.module()(x[:3], x[:2])


def test_hints():
    x = flambeau.randn(5, 4)
    program = export(Net(), (x,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    assert repr(program.range_constraints) == "{s0: VR[2, int_oo]}"
    with pytest.raises(ConstraintViolationError, match=r"Dim\.AUTO"):
        export(Net(), (x,), dynamic_shapes=({1: Dim.DYNAMIC},))
    assert not export(Net(), (x,), dynamic_shapes=({0: Dim.STATIC},)).range_constraints
    assert repr(Dim.AUTO(min=3, max=9)) == "DimHint(AUTO, min=3, max=9)"
    program = export(Positions().eval(), (flambeau.randn(2, 5, 8),), dynamic_shapes=({1: Dim.AUTO},))
    assert repr(program.range_constraints) == "{s0: VR[2, 16]}"


def test_dims_that_depend_on_each_other():
    class Pairs(nn.Module):
        def forward(self, a, b):
            return a.reshape(-1, 2, 3).sum(1) + b

    half = Dim("half", min=1, max=20)
    program = export(Pairs(), (flambeau.randn(8, 3), flambeau.randn(4, 3)), dynamic_shapes=({0: 2 * half}, {0: half}))
    assert program.module()(flambeau.randn(6, 3), flambeau.randn(3, 3)).shape == (3, 3)
    for bad in ((6, 4), (7, 3)):
        with pytest.raises(AssertionError):
            program.module()(flambeau.randn(bad[0], 3), flambeau.randn(bad[1], 3))
    assert repr(2 * half + 1) == "2*half + 1" and (2 * half).max == 40
    assert [d.__name__ for d in dims("a", "b")] == ["a", "b"]


def test_decisions_about_one_row_keep_it_out():
    class Decides(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] != 1 else x

    program = export(Decides(), (flambeau.ones(3),), dynamic_shapes=({0: Dim("n")},))
    assert repr(program.range_constraints) == "{s0: VR[2, int_oo]}"
    with pytest.raises(AssertionError):
        program.module()(flambeau.ones(1))

    class Bounded(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[0] > 5 else x

    with pytest.raises(ConstraintViolationError, match=r"Dim\('n', min=6\)"):
        export(Bounded(), (flambeau.ones(8),), dynamic_shapes=({0: Dim("n")},))


def test_buffers_are_written_to():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", flambeau.zeros(2))

        def forward(self, x):
            self.n.add_(1)
            return x + self.n

    net = Counts()
    program = export(net, (flambeau.ones(2),))
    assert net.n.tolist() == [0, 0]
    module = program.module()
    assert module(flambeau.ones(2)).tolist() == [2, 2] and module(flambeau.ones(2)).tolist() == [3, 3]
    training = export(Images(), (flambeau.randn(4, 3, 8, 8),))
    module = training.module()
    before = module.norm.running_mean.clone()
    module(flambeau.randn(4, 3, 8, 8))
    assert not flambeau.equal(before, module.norm.running_mean) and module.norm.num_batches_tracked == 1


def test_gradients_go_through():
    net = Net()
    module = export(net, (flambeau.randn(5, 4),), dynamic_shapes=({0: Dim("batch")},)).module()
    x = flambeau.randn(3, 4)
    module(x)[0].sum().backward()
    found = net.first.weight.grad.clone()
    net.zero_grad()
    net(x)[0].sum().backward()
    assert flambeau.equal(found, net.first.weight.grad) and module.first.weight is net.first.weight


class Derives(nn.Module):
    """Transforms and gradients inside of forward, over operators that are one step elsewhere."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))

    def forward(self, x):
        F = nn.functional
        rows = flambeau.vmap(lambda r: F.gelu(F.pad(r, (1, 1)))[:3] + F.mse_loss(r, r * 2))(x)
        slope = flambeau.func.grad(lambda y: F.cross_entropy(self.net(y), flambeau.tensor([0, 1, 2])))(x[:3])
        forward = flambeau.func.jvp(lambda y: F.glu(F.pad(y, (0, 1))), (x,), (x,))[1]
        y = x.detach().requires_grad_()
        found, = flambeau.autograd.grad(F.pad(self.net(y), (1, 1)).square().sum(), y)
        return rows, slope, forward, found


def test_derivatives_in_a_program():
    net = Derives().eval()
    program = export(net, (flambeau.randn(4, 3),))
    x = flambeau.randn(4, 3)
    for again in (program, reread(program), program.run_decompositions()):
        for found, expected in zip(again.module()(x), net(x), strict=True):
            assert flambeau.allclose(found, expected, atol=1e-6)


def test_control_flow_in_a_program():
    class Choice(nn.Module):
        def forward(self, x):
            return flambeau.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))

    program = export(Choice(), (flambeau.ones(3),))
    for again in (program, reread(program)):
        for x in (flambeau.ones(3), -flambeau.ones(3)):
            assert flambeau.equal(again.module()(x), Choice()(x))


class Counts(nn.Module):
    def forward(self, x, n):
        k = n.item()
        flambeau._check(k >= 1)
        flambeau._check(k <= x.shape[0], lambda: "at most one for each row")
        found = x[x > 0]
        return flambeau.ones(k, 2) * x.sum(), found * 2, (x > 0.5).nonzero().shape[0], x * x.mean().item()


def test_numbers_that_values_decide():
    program = export(Counts(), (flambeau.randn(3, 4), flambeau.tensor(2)), dynamic_shapes=({0: Dim("rows")}, None))
    for again in (program, reread(program)):
        x = flambeau.randn(6, 4)
        for found, expected in zip(again.module()(x, flambeau.tensor(5)), Counts()(x, flambeau.tensor(5)), strict=True):
            assert flambeau.equal(found, expected) if isinstance(found, flambeau.Tensor) else found == expected
        for bad in (0, 7):
            with pytest.raises(RuntimeError, match="does not hold"):
                again.module()(x, flambeau.tensor(bad))


def test_examples_say_what_is_open():
    net, x = Net(), flambeau.randn(5, 4)
    more = AdditionalInputs()
    more.add((flambeau.randn(7, 4),))
    program = export(net, (x,), dynamic_shapes=more.dynamic_shapes(net, (x,)))
    more.verify(program)
    assert len(program.range_constraints) == 1
    shapes = ShapesCollection()
    shapes[x] = {0: Dim("batch")}
    assert len(export(net, (x,), dynamic_shapes=shapes.dynamic_shapes(net, (x,))).range_constraints) == 1
    with pytest.raises(ValueError, match="not among"):
        shapes.dynamic_shapes(net, (flambeau.randn(5, 4),))


def test_mistakes():
    net, x = Net(), flambeau.randn(5, 4)
    for bad, words in (({"y": None}, "is none of them"), (({0: Dim("a")}, None), "1 arguments"),
                       (({2: Dim("a")},), "2 dimensions"), (({0: 7},), "expected a Dim"), ((Dim("a"),), "a tensor")):
        with pytest.raises((ValueError, TypeError), match=words):
            export(net, (x,), dynamic_shapes=bad)
    with pytest.raises(ValueError, match="expected a Module"):
        export(lambda x: x, (x,))
    with pytest.raises(TypeError, match="tuple"):
        export(net, x)
    with pytest.raises(ValueError, match="no module of the program"):
        export(net, (x,), preserve_module_call_signature=("third",))

    class Reads(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x

    with pytest.raises(RuntimeError, match=r"depends on|no values"):
        export(Reads(), (x,))


class Joint(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.frozen = nn.Parameter(flambeau.ones(2), requires_grad=False)
        self.register_buffer("scale", flambeau.full((2,), 2.0))

    def forward(self, x, y, *, weight=None):
        made = self.linear(x) * self.scale * self.frozen
        return made, ((made - y) ** 2).mean() if weight is None else (weight * (made - y) ** 2).mean()


@pytest.mark.parametrize("open_sizes", [False, True])
def test_programs_with_their_gradients(open_sizes):
    module, rows = Joint(), flambeau.export.Dim("rows")
    shapes = {"x": {0: rows}, "y": {0: rows}, "weight": {0: rows}} if open_sizes else None
    example = (flambeau.ones(4, 3, requires_grad=True), flambeau.ones(4, 2))
    program = flambeau.export.export(module, example, {"weight": flambeau.ones(4, 1)}, dynamic_shapes=shapes)
    assert program.graph_signature.backward_signature is None
    joint = _export_forward_backward(program, 1)
    signature = joint.graph_signature.backward_signature
    assert isinstance(signature, flambeau.export.ExportBackwardSignature)
    assert list(signature.gradients_to_parameters.values()) == ["linear.weight", "linear.bias"]
    assert list(signature.gradients_to_user_inputs.values()) == ["x"]
    assert signature.loss_output == joint.graph_signature.output_specs[1].arg.name
    n = 6 if open_sizes else 4
    x, y, weight = flambeau.randn(n, 3, requires_grad=True), flambeau.randn(n, 2), flambeau.rand(n, 1)
    given = [*(joint._value(s.target) for s in joint.graph_signature.input_specs if s.target), x, y, weight]
    made, loss = module(x, y, weight=weight)
    expected = [made, loss, *flambeau.autograd.grad(loss, [module.linear.weight, module.linear.bias, x])]
    found = joint.graph_module(*given)
    assert len(found) == 5 and all(flambeau.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_which_result_is_the_loss():
    program = flambeau.export.export(Joint(), (flambeau.ones(4, 3), flambeau.ones(4, 2)))
    for wrong in (2, -1, "loss"):
        with pytest.raises(RuntimeError, match="joint_loss_index must name one of the 2 results"):
            _export_forward_backward(program, wrong)
    with pytest.raises(RuntimeError, match="only an output of one element"):
        _export_forward_backward(program, 0)


def test_a_constant_that_the_program_makes_and_writes_begins_anew():
    class Counts(nn.Module):
        def forward(self, x):
            made = flambeau.tensor([3.0])
            made.add_(1)
            made[0] = made[0] * 2
            return x + made

    x, file = flambeau.zeros(1), io.BytesIO()
    program = export(Counts(), (x,))
    save(program, file)
    file.seek(0)
    for one in (program, program.run_decompositions(), load(file)):
        module = one.module()
        assert [module(x).item() for _ in range(2)] == [8, 8]
    traced = flambeau.jit.trace(Counts(), x)
    assert [traced(x).item() for _ in range(2)] == [8, 8]


def test_gradients_end_where_the_module_detaches():
    """Trained, a program has its module's gradients: detach() and .data are steps of it."""
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(flambeau.tensor([1.0, 2.0]))

        def forward(self, x):
            return ((x * self.w).detach() * self.w + x.data * x).sum()

    def gradients(net):
        x = flambeau.tensor([3.0, 4.0], requires_grad=True)
        return [g.tolist() for g in flambeau.autograd.grad(net(x), [x, *net.parameters()])]

    expected = gradients(Net())
    program = flambeau.export.export(Net(), (flambeau.ones(2),))
    assert gradients(program.module()) == expected == [[3, 4], [3, 8]]
    assert gradients(program.run_decompositions().module()) == expected


class Picks(flambeau.nn.Module):
    def forward(self, x, at):
        k = at.item()
        flambeau._check(k >= 0)
        flambeau._check(k < x.shape[0])
        y = x.clone()
        y.select(0, k).add_(k)
        return x[k] + k, y, x[:k], x.nonzero()[k]


@pytest.mark.parametrize("open_rows", [False, True])
def test_places_that_values_decide(open_rows):
    shapes = {"x": {0: flambeau.export.Dim("rows", min=3, max=50)}, "at": None} if open_rows else None
    x, at = flambeau.randn(5, 3), flambeau.tensor(2)
    program = flambeau.export.export(Picks(), (x, at), dynamic_shapes=shapes).module()
    for rows in (x, flambeau.randn(9, 3)) if open_rows else (x,):
        for k in (0, len(rows) - 1):
            args = rows, flambeau.tensor(k)
            assert all(flambeau.equal(a, b) for a, b in zip(program(*args), Picks()(*args), strict=True))


class Does(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def exported_like(function, example, *others, dynamic_shapes=None, files=True):
    """Each argument gives what the function gives."""
    program = export(Does(function), example, dynamic_shapes=dynamic_shapes)
    for again in (program, reread(program)) if files else (program,):
        for args in others:
            assert flambeau.equal(again.module()(*args), function(*args))
    return program


def test_numbers_of_values_are_sizes_and_places():
    x, t = flambeau.arange(10.0), flambeau.tensor
    exported_like(lambda n: flambeau.zeros(n.tolist()), (t([4, 4]),), (t([2, 5]),))
    exported_like(lambda x, n: flambeau.cat([p.sum()[None] for p in x.split(n.tolist())]), (x, t([4, 5, 1])),
                  (x, t([0, 3, 7])))
    for place in (lambda x, n: x[n], lambda x, n: x[n.item()], lambda x, n: x[:n.item()], lambda x, n: x[-n.item():],
                  lambda x, n: x.narrow(0, n.item(), 2), lambda x, n: x[n:].relu() + 1):
        exported_like(place, (x, t(3)), (x, t(8)), (x, t(1)))
    exported_like(lambda x, n: x.clone().index_fill_(0, t([0]), 1)[1:n.item()], (x, t(3)), (x, t(-2)))
    exported_like(lambda x, n: x.repeat_interleave(n), (x, t([2] * 10)), (x, flambeau.arange(10)))
    exported_like(lambda n: n.bincount(), (t([2, 4]),), (t([1, 9, 9]).narrow(0, 1, 2),))
    exported_like(lambda n: flambeau.cat(n.unique(return_inverse=True, return_counts=True)), (t([2, 4]),), (t([3, 3]),))


def test_what_an_operator_asks_of_a_number_of_values_is_asked_when_it_runs():
    x, t = flambeau.arange(12.0), flambeau.tensor
    cases = [(lambda x, n: x.view(n.item(), 4), 3, 4), (lambda x, n: x + flambeau.ones(n.item()), 12, 5),
             (lambda x, n: x @ flambeau.ones(n.item()), 12, 11), (lambda x, n: x.narrow(0, 0, n.item()), 5, 13),
             (lambda x, n: x.view(n.item(), -1), 6, 5)]
    for function, good, bad in cases:
        program = exported_like(function, (x, t(3)), (x, t(good)))
        with pytest.raises(RuntimeError):
            program.module()(x, t(bad))


def test_a_condition_that_settles_a_number_of_values_is_checked():
    def settled(x, n):
        n = n.item()
        flambeau._check(n == 4)
        return x + n

    program = exported_like(settled, (flambeau.ones(4), flambeau.tensor(4)), (flambeau.ones(4), flambeau.tensor(4)))
    with pytest.raises(RuntimeError, match="does not hold"):
        program.module()(flambeau.ones(4), flambeau.tensor(5))


def test_a_condition_decides_which_numbers_are_tried():
    def halves(x):
        n = x.nonzero().shape[0]
        flambeau._check(n % 4 == 0)
        return flambeau.stack([flambeau.zeros(n // 2), flambeau.ones(n // 4 * 2)])

    exported_like(halves, (flambeau.ones(8),), (flambeau.ones(8),), (flambeau.tensor([1.0, 0, 1, 0, 1, 1, 0, 0]),))


def test_whole_numbers_are_open_from_zero_on():
    x = flambeau.arange(4.0)
    for n in (0, 1, 5):
        for hint in (Dim.AUTO, Dim.DYNAMIC):
            exported_like(lambda x, n: x * n + n, (x, n), (x, 0), (x, 9), dynamic_shapes=((None, hint),))
    exported_like(lambda x, n: x * n, (x, -3), (x, -9), (x, 9), dynamic_shapes=((None, Dim.DYNAMIC),))


def test_hints_without_a_name_are_narrowed_and_joined():
    x = flambeau.arange(8.0)
    program = exported_like(lambda x: x * 2 if x.shape[0] > 5 else x, (x,), (flambeau.ones(6),),
                            dynamic_shapes=(({0: Dim.DYNAMIC},),))
    assert str(program.range_constraints) == "{s0: VR[6, int_oo]}"
    with pytest.raises(AssertionError):
        program.module()(flambeau.ones(4))
    for one, other in ((Dim.DYNAMIC, Dim.DYNAMIC), (Dim("b", max=9), Dim.DYNAMIC), (Dim.AUTO, Dim("b", max=9))):
        program = exported_like(lambda x, y: x + y, (x, x), (flambeau.ones(9), flambeau.ones(9)),
                                dynamic_shapes=(({0: one}, {0: other}),))
        with pytest.raises(AssertionError):
            program.module()(flambeau.ones(9), flambeau.ones(8))
        if isinstance(one, Dim) or isinstance(other, Dim):
            with pytest.raises(AssertionError):
                program.module()(flambeau.ones(10), flambeau.ones(10))
    with pytest.raises(ConstraintViolationError):
        export(Does(lambda x, y: x + y), (x, x), dynamic_shapes=(({0: Dim("b")}, {0: Dim("c")}),))
    program = exported_like(lambda x: x.view(2, -1).sum(0), (x,), (flambeau.ones(6),),
                            dynamic_shapes=(({0: Dim.DYNAMIC(min=3, max=50)},),))
    assert str(program.range_constraints) == "{s0: VR[3, 50]}"


def test_sizes_are_said_in_the_order_of_the_signature():
    class Two(nn.Module):
        def forward(self, a, first, second):
            return a.sum() + first.sum() - second.sum()

    args, kwargs = (flambeau.ones(2),), {"second": flambeau.ones(4), "first": flambeau.ones(3)}
    program = export(Two(), args, kwargs, dynamic_shapes=(None, {0: Dim("n")}, None))
    assert program.module()(flambeau.ones(2), first=flambeau.ones(9), second=flambeau.ones(4)) == 7


def test_a_collection_is_what_export_takes():
    x, shapes, more = flambeau.ones(4), ShapesCollection(), AdditionalInputs()
    shapes[x][0] = Dim("n")
    more.add((flambeau.ones(7), 5))
    scale = Does(lambda x, n: x * n)
    program = export(scale, (x, 3), dynamic_shapes=shapes)
    assert flambeau.equal(program.module()(flambeau.ones(6), 3), 3 * flambeau.ones(6))
    program = export(scale, (x, 3), dynamic_shapes=more)
    assert flambeau.equal(program.module()(flambeau.ones(6), 9), 9 * flambeau.ones(6))


def test_sizes_inside_a_dataclass():
    @dataclasses.dataclass
    class Pair:
        a: flambeau.Tensor
        b: flambeau.Tensor

    flambeau.export.register_dataclass(Pair)
    b = Dim("batch")
    for said in ([{0: b}, {0: b}], {"a": {0: b}, "b": {0: b}}, Pair({0: b}, {0: b})):
        program = export(Does(lambda p: p.a + p.b), (Pair(flambeau.ones(3), flambeau.ones(3)),),
                         dynamic_shapes=((said,),))
        assert program.module()(Pair(flambeau.ones(5), flambeau.ones(5))).shape == (5,)


def test_example_inputs_are_replaced_by_others_of_their_structure():
    program = export(nn.Linear(2, 2), (flambeau.ones(1, 2),))
    program.example_inputs = (flambeau.zeros(1, 2),), {}
    assert program.example_inputs[0][0].sum() == 0
    for wrong in ((flambeau.ones(1),), ((), {}), ((flambeau.ones(1),), {"y": 1})):
        with pytest.raises(ValueError, match="example_inputs"):
            program.example_inputs = wrong


def test_tensors_are_made_of_open_numbers():
    x, rows = flambeau.ones(8, 2), ({0: Dim("rows")},)
    exported_like(lambda x: flambeau.tensor([[x.shape[0], 2], [1, x.shape[0] // 2]]), (x,), (flambeau.ones(5, 2),),
                  dynamic_shapes=(rows,))
    exported_like(lambda x: x * flambeau.tensor(x.shape[0] / 4), (x,), (flambeau.ones(5, 2),), dynamic_shapes=(rows,))
    exported_like(lambda n: flambeau.tensor([math.ceil(n.item()), 1], dtype=flambeau.float64),
                  (flambeau.tensor(8.5),), (flambeau.tensor(2.2),))


def test_sizes_that_are_sums_of_others_stay_positive():
    def joined(x, y, a, b):
        return x + y @ flambeau.cat([a, b])

    def example(rows, columns, first, second):
        return (flambeau.ones(rows, columns), flambeau.ones(rows, first + second), flambeau.ones(first, columns),
                flambeau.ones(second, columns))

    hints = {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}
    exported_like(joined, example(3, 5, 2, 4), example(4, 7, 6, 3), dynamic_shapes=((hints,) * 4,), files=False)


@pytest.mark.parametrize("function", [
    lambda x: flambeau.repeat_interleave(x, x.shape[0], dim=1),
    lambda x: nn.functional.adaptive_avg_pool1d(x.t()[None], x.shape[0] - 1),
    lambda x: nn.functional.adaptive_max_pool1d(x.t()[None], x.shape[0] - 1)])
def test_open_sizes_as_numbers_of_operators(function):
    class Sized(nn.Module):
        def forward(self, x):
            return function(x)

    program = export(Sized(), (flambeau.randn(6, 4),), dynamic_shapes=({0: Dim("b", min=3, max=64)},))
    for n in (8, 13):
        x = flambeau.randn(n, 4)
        assert flambeau.allclose(program.module()(x), function(x))
