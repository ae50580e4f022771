"""Modules in oneDNN's own memory layouts: kernels choose layouts by themselves."""

from .._absent import refusal

to_mkldnn = refusal("to_mkldnn", "kernels rearrange weights by themselves where that pays; use the module as it is")
