"""Parts of graphs: finding them, taking them out, comparing them."""
