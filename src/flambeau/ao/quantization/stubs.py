"""Where a model's numbers become codes, and numbers again: the marks that a model is written with."""

from flambeau import nn


class QuantStub(nn.Module):
    """Marks where numbers become codes: nothing before `convert`, a `Quantize` layer after it.

    >>> import flambeau
    >>> flambeau.ao.quantization.QuantStub()(flambeau.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class DeQuantStub(nn.Module):
    """Marks where codes become numbers again: nothing before `convert`, a `DeQuantize` layer after it."""

    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class QuantWrapper(nn.Module):
    """A module between a QuantStub and a DeQuantStub, so that it takes and gives numbers.

    >>> import flambeau
    >>> flambeau.ao.quantization.QuantWrapper(flambeau.nn.ReLU())
    QuantWrapper(
      (quant): QuantStub()
      (dequant): DeQuantStub()
      (module): ReLU()
    )
    """

    def __init__(self, module):
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant = QuantStub(qconfig)
        self.dequant = DeQuantStub(qconfig)
        self.module = module
        self.train(module.training)

    def forward(self, X):
        return self.dequant(self.module(self.quant(X)))
