"""Datasets, the order in which their samples are visited, and the loader that makes batches of them."""

from ._utils.collate import default_collate as default_collate
from ._utils.collate import default_convert as default_convert
from .dataloader import DataLoader as DataLoader
from .dataloader import get_worker_info as get_worker_info
from .datapipe import IterDataPipe as IterDataPipe
from .datapipe import MapDataPipe as MapDataPipe
from .dataset import ChainDataset as ChainDataset
from .dataset import ConcatDataset as ConcatDataset
from .dataset import Dataset as Dataset
from .dataset import IterableDataset as IterableDataset
from .dataset import StackDataset as StackDataset
from .dataset import Subset as Subset
from .dataset import TensorDataset as TensorDataset
from .dataset import random_split as random_split
from .distributed import DistributedSampler as DistributedSampler
from .sampler import BatchSampler as BatchSampler
from .sampler import RandomSampler as RandomSampler
from .sampler import Sampler as Sampler
from .sampler import SequentialSampler as SequentialSampler
from .sampler import SubsetRandomSampler as SubsetRandomSampler
from .sampler import WeightedRandomSampler as WeightedRandomSampler
