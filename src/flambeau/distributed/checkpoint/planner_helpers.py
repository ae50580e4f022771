"""PyTorch's name for a module of helpers: what programs import from it."""

from ._chunks import create_read_items_for_chunk_list as create_read_items_for_chunk_list
