"""Open sizes: expressions, the numbers of Python that stand for them, what is known of them, and what operators do with
them."""
