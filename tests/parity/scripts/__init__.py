"""Small programs as people write them for `jit.script`: each runs under both libraries."""
