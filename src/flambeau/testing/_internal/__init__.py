"""torch.testing._internal: what test suites of packages take from there."""
