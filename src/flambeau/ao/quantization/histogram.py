"""The observer that keeps a histogram, and chooses the range whose codes lose least."""

from warnings import warn

import flambeau

from ..._shown import shown
from .observer import _EPS, RangeOfAnyShape, UniformQuantizationObserverBase
from .utils import check_min_max_valid

_FINER = 16  # pieces into which a bin is cut where bins move


class HistogramObserver(RangeOfAnyShape, UniformQuantizationObserverBase):
    """A histogram of all numbers seen; the range leaves out ends as long as the mean squared error falls.

    >>> import flambeau
    >>> o = flambeau.ao.quantization.HistogramObserver()
    >>> _ = o(flambeau.linspace(0, 1, 1001))
    >>> scale, zero_point = o.calculate_qparams()
    >>> round(scale.item() * 255, 2), zero_point.item()
    (1.0, 0)
    """

    def __init__(self, bins=2048, dtype=flambeau.quint8, qscheme=flambeau.per_tensor_affine, reduce_range=False,
                 quant_min=None, quant_max=None, factory_kwargs=None, eps=_EPS, is_dynamic=False, **kwargs):
        if qscheme not in (flambeau.per_tensor_affine, flambeau.per_tensor_symmetric):
            raise NotImplementedError("HistogramObserver: qscheme must be per_tensor_affine or per_tensor_symmetric, "
                                      f"got {shown(qscheme)}")
        if is_dynamic:
            raise NotImplementedError("HistogramObserver: is_dynamic=True is not supported, a histogram is of many "
                                      "calls")
        super().__init__(dtype=dtype, qscheme=qscheme, reduce_range=reduce_range, quant_min=quant_min,
                         quant_max=quant_max, factory_kwargs=factory_kwargs, eps=eps, is_dynamic=is_dynamic, **kwargs)
        self.bins = bins
        made = factory_kwargs or {}
        self.register_buffer("histogram", flambeau.zeros(bins, **made))
        self.register_buffer("min_val", flambeau.tensor(float("inf"), **made))
        self.register_buffer("max_val", flambeau.tensor(float("-inf"), **made))
        self.dst_nbins = 2 ** flambeau.iinfo(flambeau.uint8).bits

    def extra_repr(self):
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def forward(self, x_orig):
        """Counts the numbers of x; returns x."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = flambeau.aminmax(x)
        if low == float("-inf") or high == float("inf"):
            warn("HistogramObserver: infinities are left out", stacklevel=2)
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = flambeau.aminmax(x)
        if self.min_val == float("inf") or self.max_val == float("-inf"):
            self._take(low, high, _counts(x, self.bins, low, high))
            return x_orig
        least, most = flambeau.min(self.min_val, low), flambeau.max(self.max_val, high)
        counts = _counts(x, self.bins, least, most)
        if bool(least == self.min_val) and bool(most == self.max_val):
            self._take(least, most, self.histogram + counts)
        elif bool(self.min_val == self.max_val):
            self._take(least, most, counts + _counts(self.min_val.reshape(1), self.bins, least, most)
                       * self.histogram.sum())
        else:
            self._take(least, most, counts + self._moved(least, most))
        return x_orig

    def _take(self, low, high, counts):
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)
        self.histogram.copy_(counts)

    def _moved(self, least, most):
        """The histogram in the bins of a wider range: each bin in equal pieces, each at its middle."""
        pieces = self.bins * _FINER
        width = (self.max_val - self.min_val) / pieces
        middles = flambeau.linspace(self.min_val.item(), self.max_val.item(), pieces + 1)[:-1] + 0.5 * width
        edges = flambeau.linspace(least.item(), most.item(), self.bins + 1)
        place = flambeau.bucketize(middles, edges, right=True) - 1
        share = self.histogram.repeat_interleave(_FINER) / _FINER
        return flambeau.zeros_like(self.histogram).index_add(0, place.clamp(0, self.bins - 1), share)

    def _error(self, first, last, width):
        """The squared error where only bins from `first` to `last` have codes: the integral, over what each bin covers,
        of the squared distance to the middle of a code's interval."""
        step = width * (last - first + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (flambeau.arange(self.bins) - first) * width
        end = begin + width
        density = self.histogram / width
        code_begin = flambeau.clamp(flambeau.div(begin, step, rounding_mode="floor"), 0, self.dst_nbins - 1)
        code_end = flambeau.clamp(flambeau.div(end, step, rounding_mode="floor"), 0, self.dst_nbins - 1)
        half = step / 2
        error = _cubes(begin - (code_begin + 0.5) * step, half, density)
        error = error + (code_end - code_begin - 1) * _cubes(flambeau.tensor(-half), half, density)
        error = error + _cubes(flambeau.tensor(-half), end - (code_end * step + half), density)
        return error.sum().item()

    def _non_linear_param_search(self):
        """(least, largest) number that gets a code of its own."""
        width = ((self.max_val - self.min_val) / self.bins).item()
        sums = flambeau.cumsum(self.histogram, dim=0).tolist()
        total = self.histogram.sum().item()
        share, low_share, high_share = 1e-5, 0.0, 1.0
        first, last, least = 0, self.bins - 1, float("inf")
        while low_share < high_share:
            left, right = first, last
            while left < last and sums[left] < (low_share + share) * total:
                left += 1
            while right > first and sums[right] > (high_share - share) * total:
                right -= 1
            wanted = (first, last)
            if left - first > last - right:
                wanted, low_share = (left, last), low_share + share
            else:
                wanted, high_share = (first, right), high_share - share
            if wanted == (first, last):
                continue
            error = self._error(*wanted, width)
            if error > least:
                break
            least, (first, last) = error, wanted
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def calculate_qparams(self):
        """(scale, zero point) of the range that loses least."""
        if not check_min_max_valid(self.min_val, self.max_val):
            return flambeau.tensor([1.0]), flambeau.tensor([0])
        return self._calculate_qparams(*self._non_linear_param_search())

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self._take(flambeau.tensor(float("inf")), flambeau.tensor(float("-inf")), flambeau.zeros(self.bins))


def _cubes(begin, end, density):
    """density times the integral of x^2 from `begin` to `end`."""
    return density * (end ** 3 - begin ** 3) / 3


def _counts(x, bins, low, high):
    return flambeau.histc(x.float(), bins, min=low.item(), max=high.item())


default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
