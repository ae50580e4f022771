"""torch.fx.config: settings of graphs. There are none."""
