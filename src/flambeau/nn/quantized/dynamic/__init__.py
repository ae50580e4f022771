"""The old place of `flambeau.ao.nn.quantized.dynamic`."""

from ....ao.nn.quantized.dynamic import LSTM as LSTM
from ....ao.nn.quantized.dynamic import Linear as Linear
from ....ao.nn.quantized.dynamic import modules as modules
