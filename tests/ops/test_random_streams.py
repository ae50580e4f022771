"""The random streams are PyTorch's: golden numbers, the engine against NumPy's, saved states."""

import numpy as np
import pytest

import flambeau

#: expression, its numbers in PyTorch 2.13 after manual_seed(0), the next rand(1)
GOLDEN = [
    ("rand(5)", [0.49625659, 0.768221796, 0.0884774327, 0.132030487, 0.307422817], 0.6340786814689636),
    ("rand(3, dtype=flambeau.float64)", [0.970053002, 0.707819864, 0.459382943], 0.4900934100151062),
    ("rand(3, dtype=flambeau.float16)", [0.496337891, 0.768066406, 0.0885009766], 0.13203048706054688),
    ("randn(4)", [1.54099607, -0.293428898, -2.17878938, 0.568431258], 0.455627977848053),
    ("randn(5, dtype=flambeau.float64)", [1.54099611, -0.293428906, -2.17878938, 0.568431277, -1.08452234],
      0.022325754165649414),
    ("randn(19)", [-1.12583983, -1.1523602, -0.250578582, 0.793508351, 0.598839462, -1.55509508, -0.34136039,
      1.85300612, 0.468096405, -0.157712445, 1.44366014, 0.183477938, 1.38936615, 1.58633423, 0.946298361,
      -0.843676746, 0.931826591, 1.25900924, 2.00498056], 0.03171950578689575),
    ("randn(19, dtype=flambeau.float64)", [-2.3104118, -0.373250861, -1.06081668, -0.726951062, -0.0199647509,
      0.21029989, 0.177189351, -0.830510051, 0.238718058, 0.733528369, -1.32188183, -1.59518149, -0.687003694,
      1.48807432, -0.448415805, -0.891003035, 0.674857544, 1.04686538, 0.154295179], 0.1146882176399231),
    ("randn(18, dtype=flambeau.bfloat16)", [-1.125, -1.15625, -1.3515625, -1.6953125, 0.56640625, 0.79296875,
      0.59765625, -1.5546875, -0.341796875, 1.8515625, 0.75, -0.5859375, -0.173828125, 0.18359375, 1.390625,
      1.5859375, 0.9453125, -0.84375], 0.17591017484664917),
    ("zeros(6, 3).t().normal_()", [1.54099607, 0.568431258, 0.403346837, -0.403343529, -0.856674612, 0.122701243,
      -0.293428898, -1.08452237, 0.838026345, -0.596635342, 1.10060418, -0.566317499, -2.17878938, -1.39859545,
      -0.719257593, 0.182036489, -1.07118738, 0.373114645], 0.20812976360321045),
    ("zeros(2, 2).t().uniform_(-1, 3)", [0.98502636, -0.646090269, 2.07288718, -0.471878052], 0.30742281675338745),
    ("randint(10, (6,))", [4, 9, 3, 0, 3, 9], 0.4900934100151062),
    ("randint(0, 2**28, (3,))", [130329135, 136432832, 195187451], 0.4900934100151062),
    ("randint(-5, 2**40, (3,))", [741234585336, 506077272957, 291397093751], 0.4900934100151062),
    ("randperm(10)", [4, 1, 7, 5, 3, 9, 0, 8, 6, 2], 0.6323062777519226),
    ("empty(3, dtype=flambeau.int64).random_()", [900450186894289408, 3969543146641148928, 1895649597198586624],
      0.4900934100151062),
    ("empty(3).random_()", [8325664, 12888472, 1484222], 0.13203048706054688),
    ("empty(4, dtype=flambeau.int8).random_(3)", [2, 0, 2, 0], 0.30742281675338745),
    ("empty(3).random_(1, None)", [8325805, 12888624, 1484406], 0.13203048706054688),
    ("empty(3, dtype=flambeau.int32).random_(-3, None)", [1288333878, 228189716, 1036656504], 0.4900934100151062),
    ("empty(3, dtype=flambeau.uint8).random_(200, None)", [204, 231, 221], 0.13203048706054688),
    ("empty(3, dtype=flambeau.bfloat16).random_(-5, None)", [115, 186, 204], 0.13203048706054688),
    ("empty(3, dtype=flambeau.int64).random_(-2**63, None)",
      [-8322921849960486353, -5253828890213626688, -7327722439656189189], 0.4900934100151062),
    ("empty(8).bernoulli_(0.3)", [0, 0, 0, 0, 0, 0, 1, 0], 0.6976675987243652),
    ("bernoulli(full((8,), 0.3))", [0, 0, 1, 1, 0, 0, 0, 0], 0.455627977848053),
    ("bernoulli(full((4,), 0.3, dtype=flambeau.float64))", [0, 0, 0, 0], 0.455627977848053),
    ("nn.functional.dropout(ones(8), 0.4)", [0, 0, 1.66666663, 0, 0, 0, 1.66666663, 1.66666663],
      0.6976675987243652),
    ("nn.functional.alpha_dropout(ones(4), 0.4, True)", [-0.910642028, -0.910642028, 1.47037721, -0.910642028],
      0.455627977848053),
    ("nn.functional.dropout2d(ones(2, 3, 1, 2), 0.4)", [0, 0, 0, 0, 1.66666663, 1.66666663, 0, 0, 0, 0, 0, 0],
      0.022325754165649414),
    ("empty(4).exponential_(2.0)", [1.75416315, 0.615192354, 0.307522058, 1.26755929], 0.455627977848053),
    ("empty(5).geometric_(0.3)", [1, 1, 3, 1, 2], 0.3488934636116028),
    ("empty(4).cauchy_(1, 2)", [22.1954594, 2.52953458, 0.743401289, 8.86614704], 0.455627977848053),
    ("empty(4).log_normal_(0.5, 0.7)", [4.8486352, 1.3425889, 0.35874173, 2.45444798], 0.455627977848053),
    ("poisson(tensor([0.0, 0.5, 5.0, 20.0, 300.0]))", [0, 2, 6, 19, 293], 0.1852310299873352),
    ("multinomial(tensor([0.1, 0.2, 0.3, 0.4]), 3)", [2, 1, 3], 0.455627977848053),
    ("multinomial(tensor([0.1, 0.2, 0.3, 0.4]), 8, True)", [3, 3, 2, 3, 3, 3, 1, 2], 0.6976675987243652),
    ("normal(tensor([1.0, 2.0, 3.0]), 0.5)", [1.77049804, 1.85328555, 1.91060531], 0.455627977848053),
    ("normal(2.0, 3.0, (3,))", [6.62298822, 1.11971331, -4.53636837], 0.455627977848053),
]
NAMES = {name: getattr(flambeau, name) for name in dir(flambeau) if not name.startswith("_")}


def evaluate(expression):
    return eval(expression, {**NAMES, "flambeau": flambeau, "nn": flambeau.nn})


@pytest.mark.parametrize("expression, numbers, following", GOLDEN, ids=[g[0] for g in GOLDEN])
def test_golden(expression, numbers, following):
    flambeau.manual_seed(0)
    made = evaluate(expression)
    np.testing.assert_allclose(made.double().flatten().tolist(), numbers, rtol=2e-7, atol=1e-7)
    assert flambeau.rand(1).item() == following  # as many words were drawn


def test_rounding_never_reaches_the_open_end():
    flambeau.manual_seed(0)
    assert flambeau.rand(5000, dtype=flambeau.bfloat16).max().item() < 1


def test_engine_is_numpys_mt19937():
    words = np.random.RandomState(5).randint(0, 2**32, 3000, dtype=np.uint64)
    flambeau.manual_seed(5)
    made = flambeau.rand(3000).double().numpy() * 2**24
    assert (made == (words & (2**24 - 1))).all()


def test_large_normal_blocks_agree_with_the_transform():
    flambeau.manual_seed(1)
    u = flambeau.rand(4096, dtype=flambeau.float64).numpy().reshape(-1, 2, 8)
    radius, angle = np.sqrt(-2 * np.log(1 - u[:, 0])), 2 * np.pi * u[:, 1]
    expected = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)
    flambeau.manual_seed(1)
    np.testing.assert_allclose(flambeau.randn(4096, dtype=flambeau.float64).numpy(), expected, rtol=1e-12)


def test_normal_numbers_do_not_depend_on_the_thread_count():
    before, made = flambeau.get_num_threads(), []
    try:
        for threads in (1, 2):
            flambeau.set_num_threads(threads)
            flambeau.manual_seed(3)
            made.append(flambeau.randn(1 << 18))
    finally:
        flambeau.set_num_threads(before)
    assert (made[0] == made[1]).all()


def test_state_restores_the_stream_and_its_waiting_normal():
    g = flambeau.Generator().manual_seed(11)
    flambeau.randn(3, generator=g)  # leaves half a pair
    state = g.get_state()
    first = flambeau.randn(5, generator=g).tolist()
    g.set_state(state)
    assert flambeau.randn(5, generator=g).tolist() == first
    assert g.initial_seed() == 11


def test_state_has_pytorchs_layout():
    g = flambeau.Generator().manual_seed(5)
    flambeau.rand(3, generator=g)
    flambeau.randn(3, generator=g)
    state = bytes(g.get_state().tolist())
    assert len(state) == 5056
    assert [int.from_bytes(state[a:a + 4], "little") for a in (0, 8, 12, 16)] == [5, 614, 1, 11]
    assert state[5024:5032] == bytes([129, 191, 66, 209, 64, 157, 246, 191])


@pytest.mark.parametrize("state", [[0] * 10, [255] * 5056])
def test_hostile_states_are_refused(state):
    with pytest.raises(RuntimeError, match="set_state"):
        flambeau.Generator().set_state(flambeau.tensor(state, dtype=flambeau.uint8))


def test_generators_are_independent():
    flambeau.manual_seed(0)
    expected = flambeau.rand(2).tolist()
    flambeau.manual_seed(0)
    flambeau.rand(100, generator=flambeau.Generator())
    assert flambeau.rand(2).tolist() == expected


@pytest.mark.parametrize("call, error", [
    (lambda: flambeau.empty(3).uniform_(3, 1), RuntimeError), (lambda: flambeau.empty(3).normal_(0, -1), RuntimeError),
    (lambda: flambeau.empty(3, dtype=flambeau.int64).normal_(), NotImplementedError),
    (lambda: flambeau.randint(5, 5, (2,)), RuntimeError), (lambda: flambeau.randperm(-1), RuntimeError),
    (lambda: flambeau.randint(0, 300, (3,), dtype=flambeau.uint8), RuntimeError),
    (lambda: flambeau.multinomial(flambeau.tensor([0.0, 0.0]), 1), RuntimeError),
    (lambda: flambeau.multinomial(flambeau.tensor([0.0, 1.0]), 3), RuntimeError),
    (lambda: flambeau.multinomial(flambeau.tensor([float("nan"), 1.0]), 1), RuntimeError),
    (lambda: flambeau.bernoulli(flambeau.tensor([2.0])), RuntimeError),
    (lambda: flambeau.empty(3, dtype=flambeau.uint8).random_(-3, None), RuntimeError),
    (lambda: flambeau.poisson(flambeau.tensor([-1.0])), RuntimeError),
    (lambda: flambeau.ones(3).expand(2, 3).uniform_(), RuntimeError),
    (lambda: flambeau.nn.functional.dropout(flambeau.ones(2), 1.5), ValueError),
])
def test_errors(call, error):
    with pytest.raises(error):
        call()


def test_dropout_scales_gradients_as_it_scaled_values():
    x = flambeau.ones(1000, requires_grad=True)
    y = flambeau.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    assert (x.grad == y).all()


@pytest.mark.parametrize("dtype", [flambeau.int64, flambeau.bool, flambeau.uint8, flambeau.float16])
def test_bernoulli_into_any_dtype(dtype):
    p, out = flambeau.full((4,), 0.3), flambeau.empty(4, dtype=dtype)
    flambeau.manual_seed(0)
    drawn = flambeau.bernoulli(p)
    flambeau.manual_seed(0)
    assert flambeau.bernoulli(p, out=out) is out
    assert out.dtype == dtype and flambeau.equal(out.float(), drawn)


@pytest.mark.parametrize("seed", [2**64, -2**63 - 1])
def test_seeds_have_64_bits(seed):
    with pytest.raises(ValueError, match="64 bits"):
        flambeau.manual_seed(seed)
    with pytest.raises(ValueError, match="64 bits"):
        flambeau.Generator().manual_seed(seed)


def test_truncated_normal_numbers_go_through_memory_in_its_order():
    plain, last = flambeau.empty(2, 5, 4, 3), flambeau.empty(2, 3, 5, 4).to(memory_format=flambeau.channels_last)
    for x in (plain, last):
        flambeau.manual_seed(0)
        flambeau.nn.init.trunc_normal_(x, a=1.0, b=1.5)  # uniform numbers, accepted with the density
    assert flambeau.equal(last.permute(0, 2, 3, 1), plain)
    last = flambeau.empty(1, 2, 2, 3).to(memory_format=flambeau.channels_last)
    flambeau.manual_seed(3)
    flambeau.nn.init.trunc_normal_(last, a=-0.5, b=0.5)  # normal numbers, drawn again until they fit: PyTorch's
    assert last.flatten().tolist() == pytest.approx(
        [-0.3922, 0.089, 0.0462, 0.3375, 0.4535, 0.3792, 0.1748, -0.0799, -0.3236, -0.1643, 0.0121, 0.2389], abs=1e-4)


def test_binomial_draws_in_the_order_of_indices():
    counts = flambeau.arange(12.0).reshape(4, 3).t()
    flambeau.manual_seed(0)
    drawn = flambeau.binomial(counts, flambeau.tensor(0.4))
    flambeau.manual_seed(0)
    assert flambeau.equal(drawn, flambeau.binomial(counts.contiguous(), flambeau.tensor(0.4)))
    assert drawn.is_contiguous()


def test_normal_takes_tensors_without_dimensions_as_numbers_of_a_size():
    five = flambeau.tensor(5)
    for given in ((five, 1.0), (5.0, flambeau.tensor(1.0)), (five, flambeau.tensor(1.0))):
        flambeau.manual_seed(0)
        drawn = flambeau.normal(*given, (3,))
        assert np.allclose(drawn.tolist(), [6.5410, 4.7066, 2.8212], atol=1e-4)
    for wrong in (flambeau.tensor([5.0]), flambeau.tensor(5.0, requires_grad=True)):
        with pytest.raises(TypeError, match="size goes with numbers"):
            flambeau.normal(wrong, 1.0, (3,))


def test_draws_without_replacement_go_through_memory_in_its_order():
    flambeau.manual_seed(7)
    p = flambeau.rand(9, 4).t()
    assert flambeau.multinomial(p, 3).tolist() == [[8, 0, 4], [3, 4, 8], [2, 4, 6], [6, 4, 1]]  # PyTorch's
