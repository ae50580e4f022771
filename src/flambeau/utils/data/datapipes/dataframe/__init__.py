"""Data frames in datapipes: samples gathered into frames of pandas, and frames taken apart."""

from ..datapipe import DFIterDataPipe as DFIterDataPipe
from .dataframes import CaptureDataFrame as CaptureDataFrame
from .datapipes import DataFramesAsTuplesPipe as DataFramesAsTuplesPipe
