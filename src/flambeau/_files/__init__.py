"""How `save` and `load` write and read files: archives, pickles as data, replacing, mapping into memory."""
