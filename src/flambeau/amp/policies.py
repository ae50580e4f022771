"""Which operators compute in half precision inside autocast, and which in float32: PyTorch's lists for the CPU."""

from .. import _C
from ..ops.kinds import OPS

#: products: fast in half precision, and their sums are kept in float32
LOWER = """
    mm bmm matmul addmm addbmm baddbmm linear chain_matmul multi_dot vecdot conv1d conv2d conv3d convolution conv_tbc
    conv_transpose1d conv_transpose2d conv_transpose3d scaled_dot_product_attention prelu rnn_tanh_cell rnn_relu_cell
    lstm gru rnn_tanh rnn_relu packed_lstm packed_gru packed_rnn_tanh packed_rnn_relu
""".split()

#: losses, long sums, decompositions: float32
FLOAT32 = """
    avg_pool3d adaptive_avg_pool3d adaptive_max_pool3d max_pool3d max_pool3d_with_indices max_unpool2d max_unpool3d
    binary_cross_entropy binary_cross_entropy_with_logits cross_entropy nll_loss nll_loss_nd nll_loss2d mse_loss l1_loss
    smooth_l1_loss huber_loss kl_div soft_margin_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss
    multilabel_soft_margin_loss triplet_margin_loss poisson_nll_loss hinge_embedding_loss cosine_embedding_loss ctc_loss
    grid_sample cdist prod quantile nanquantile trace view_as_complex polar
    pad reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d
    fft fft2 fftn ifft ifft2 ifftn rfft rfft2 rfftn irfft irfft2 irfftn hfft ihfft stft istft
    cholesky cholesky_ex cholesky_inverse cholesky_solve inverse inv inv_ex lu_solve geqrf orgqr ormqr
    householder_product
    svd svdvals eig eigh eigvals eigvalsh qr lstsq solve tensorsolve tensorinv matrix_rank pinv triangular_solve
    cond fake_quantize_per_tensor_affine
""".split()

#: made of products, but computed in the dtype they are given
AS_IS = """
    bilinear matrix_exp det slogdet logdet kron outer ger addmv addr matrix_power cov corrcoef lstm_cell gru_cell
""".split()


def apply():
    """Marks every operator that the lists name; runs once, when autocast is first used."""
    wanted = {name: policy for policy, names in ((1, LOWER), (2, FLOAT32), (3, AS_IS)) for name in names}
    for name, op in OPS.items():
        policy = wanted.get(name.partition(".")[0])
        if policy is not None and op.alternatives is None:
            _C.set_autocast_policy(op, policy)


apply()
