"""Learning-rate schedules: what the learning rate of each parameter group is after each call of `step`."""

from ._base import EPOCH_DEPRECATION_WARNING as EPOCH_DEPRECATION_WARNING
from ._base import LRScheduler as LRScheduler
from ._base import _LRScheduler as _LRScheduler
from ._compose import ChainedScheduler as ChainedScheduler
from ._compose import SequentialLR as SequentialLR
from ._cycles import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from ._cycles import CyclicLR as CyclicLR
from ._cycles import OneCycleLR as OneCycleLR
from ._epochs import ConstantLR as ConstantLR
from ._epochs import CosineAnnealingLR as CosineAnnealingLR
from ._epochs import ExponentialLR as ExponentialLR
from ._epochs import LambdaLR as LambdaLR
from ._epochs import LinearLR as LinearLR
from ._epochs import MultiplicativeLR as MultiplicativeLR
from ._epochs import MultiStepLR as MultiStepLR
from ._epochs import PolynomialLR as PolynomialLR
from ._epochs import StepLR as StepLR
from ._plateau import ReduceLROnPlateau as ReduceLROnPlateau
