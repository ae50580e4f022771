"""Gradients are averaged over all ranks in the first steps, then in small groups; models are averaged now and then."""

from ... import _groups as groups
from .default_hooks import allreduce_hook, unchanged


class PostLocalSGDState:
    """`process_group` averages until step `start_localSGD_iter`, then `subgroup` (by default the ranks of one host), or
    nobody where `post_local_gradient_allreduce` is False.
    """

    def __init__(self, process_group, subgroup, start_localSGD_iter, post_local_gradient_allreduce=True):
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter, self.iter = start_localSGD_iter, 0
        self.post_local_gradient_allreduce = post_local_gradient_allreduce

    def maybe_increase_iter(self, bucket):
        """Counts a step with its last bucket."""
        if bucket.is_last():
            self.iter += 1


def post_localSGD_hook(state, bucket):
    """For `register_comm_hook(PostLocalSGDState(…), post_localSGD_hook)`, with an optimizer that averages models:
    PostLocalSGDOptimizer   (Lin et al. 2020).
    """
    local = state.iter >= state.start_localSGD_iter
    state.maybe_increase_iter(bucket)
    if not local:
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return unchanged(bucket)
    if state.subgroup is None:
        state.subgroup = groups.new_subgroups()[0]
    return allreduce_hook(state.subgroup, bucket)
