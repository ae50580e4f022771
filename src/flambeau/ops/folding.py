"""Images taken apart and put together: sliding blocks as columns, pixels exchanged with channels."""

from .kinds import primitive

im2col = primitive(
    "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) -> Tensor",
    d={"input": lambda g, input_shape, kernel_size, dilation, padding, stride:
       col2im(g, input_shape[-2:], kernel_size, dilation, padding, stride)},
    namespace="nn.functional", samples="im2col",
    doc="""Every sliding block of an image as a column: [n, channels * rows * columns, blocks]. Public as unfold.

    >>> import flambeau
    >>> flambeau.nn.functional.unfold(flambeau.ones(1, 2, 3, 3), 2).shape
    torch.Size([1, 8, 4])
    """)

col2im = primitive(
    "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, "
    "int[2] stride=1) -> Tensor",
    d={"input": lambda g, kernel_size, dilation, padding, stride: im2col(g, kernel_size, dilation, padding, stride)},
    namespace="nn.functional", samples="col2im",
    doc="""Columns of blocks summed back into an image, the adjoint of im2col. Public as fold.

    >>> import flambeau
    >>> flambeau.nn.functional.fold(flambeau.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """)


pixel_shuffle = primitive(
    "pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", method=False, keeps_format=True,
    samples="pixel_shuffle",
    d={"self": lambda g, upscale_factor: pixel_unshuffle(g, upscale_factor)},
    doc="""[..., c r r, h, w] to [..., c, h r, w r] (Shi et al. 2016).

    >>> import flambeau
    >>> flambeau.pixel_shuffle(flambeau.ones(1, 9, 4, 4), 3).shape
    torch.Size([1, 1, 12, 12])
    """)

pixel_unshuffle = primitive(
    "pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", method=False, keeps_format=True,
    samples="pixel_unshuffle",
    d={"self": lambda g, downscale_factor: pixel_shuffle(g, downscale_factor)},
    doc="""The inverse of pixel_shuffle.

    >>> import flambeau
    >>> flambeau.pixel_unshuffle(flambeau.ones(1, 1, 12, 12), 3).shape
    torch.Size([1, 9, 4, 4])
    """)


channel_shuffle = primitive(
    "channel_shuffle(Tensor self, int groups) -> Tensor", method=False, keeps_format=True,
    aliases=("native_channel_shuffle", "nn.functional.native_channel_shuffle"), samples="channel_shuffle",
    d={"self": lambda g, self_shape, groups: channel_shuffle(g, self_shape[1] // groups)},
    doc="""Channels of `groups` groups dealt out in turn.

    >>> import flambeau
    >>> flambeau.channel_shuffle(flambeau.arange(4.0).reshape(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """)
