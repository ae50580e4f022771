"""Operators by the names and in the forms that programs of PyTorch's have: TorchScript's texts, and exported graphs.

    lookup    from a name there to the function of this library
    forms     operators whose arguments differ there
    spelling  from a call of this library's to a name and arguments there
    numbers   the numbers that stand for dtypes, layouts and memory formats in texts
"""
