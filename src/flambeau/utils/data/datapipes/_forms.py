"""Functional forms: which class of datapipes each method of a datapipe makes. A class is loaded when it is first used.
"""

import importlib

_MODULES = {"iter": "flambeau.utils.data.datapipes.iter", "map": "flambeau.utils.data.datapipes.map",
            "dataframe": "flambeau.utils.data.datapipes.dataframe.datapipes"}
_ITER = """
    batch=Batcher collate=Collator concat=Concater demux=Demultiplexer filter=Filter fork=Forker groupby=Grouper
    list_files=FileLister map=Mapper mux=Multiplexer open_files=FileOpener read_from_stream=StreamReader
    routed_decode=RoutedDecoder sharding_filter=ShardingFilter shuffle=Shuffler unbatch=UnBatcher zip=Zipper
"""
_MAP = "batch=Batcher concat=Concater map=Mapper shuffle=Shuffler zip=Zipper"
_DATAFRAME = """
    _dataframes_as_tuples=DataFramesAsTuplesPipe _dataframes_concat=ConcatDataFramesPipe
    _dataframes_filter=FilterDataFramesPipe _dataframes_per_row=PerRowDataFramesPipe
    _dataframes_shuffle=ShuffleDataFramesPipe _to_dataframes_pipe=ExampleAggregateAsDataFrames
"""


def _form(kind, method, name):
    def form(pipe, *args, **kwargs):
        return getattr(importlib.import_module(_MODULES[kind]), name)(pipe, *args, **kwargs)
    form.__name__ = form.__qualname__ = method
    form.__doc__ = f"Makes `datapipes.{kind}.{name}` of this datapipe and the arguments."
    return form


def _forms(kind, table):
    pairs = (entry.split("=") for entry in table.split())
    return {method: _form(kind, method, name) for method, name in pairs}


def iter_forms():
    """{method: function} of datapipes that are iterated over."""
    return _forms("iter", _ITER) | _forms("dataframe", _DATAFRAME)


def map_forms():
    """{method: function} of datapipes that are read by key."""
    return _forms("map", _MAP)
