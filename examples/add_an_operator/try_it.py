"""Loads the compiled row, defines the records and uses them: `python try_it.py smoothstep.so`."""

import ctypes
import sys

import numpy

import flambeau

ctypes.CDLL(sys.argv[1])  # its rows enter the table of the extension that is already loaded
import records  # noqa: E402  (records look their rows up when they are defined)

x = flambeau.tensor([-1.0, 0.25, 0.5, 2.0, float("nan")], requires_grad=True)
y = records.smoothstep(x)
numpy.testing.assert_allclose(y.detach().numpy(), [0, 0.15625, 0.5, 1, numpy.nan])
y[:4].sum().backward()
numpy.testing.assert_allclose(x.grad[:4].numpy(), [0, 1.125, 1.5, 0])

# what its kind gives it without a word in the record
whole = flambeau.tensor([0, 1, 2])
assert records.smoothstep(whole).dtype == flambeau.float32                   # promotion
assert records.smoothstep(x.detach().half()).dtype == flambeau.float16       # half precision
assert records.smoothstep(flambeau.empty(2, 3, device="meta")).shape == (2, 3)
out = flambeau.empty(4)
assert records.smoothstep(x.detach()[:4], out=out) is out                    # out=
steps = flambeau.linspace(-0.5, 1.5, 12, dtype=flambeau.float64).reshape(3, 4).t().requires_grad_()
assert flambeau.autograd.gradcheck(records.smoothstep, [steps])              # derivatives, any strides
assert flambeau.autograd.gradgradcheck(records.smoothstep, [steps])

# a composite: its derivative follows from its parts
z = flambeau.tensor([3.0, 5.0, 4.0], dtype=flambeau.float64, requires_grad=True)
assert records.rescale(z).tolist() == [0.0, 1.0, 0.5]
assert records.rescale(z, high=10).tolist() == [0.0, 10.0, 5.0]
assert flambeau.autograd.gradcheck(records.rescale, [z])
print("smoothstep and rescale work")
