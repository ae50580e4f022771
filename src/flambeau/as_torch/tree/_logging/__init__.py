"""torch._logging: which parts of captured programs are printed, under PyTorch's names."""

import logging

from ....compiler import set_logs as _set_logs

#: PyTorch's names -> ours
_SERVED = {**dict.fromkeys(("graph", "graph_code", "graph_code_verbose", "aot_graphs", "aot_joint_graph",
                            "pre_grad_graphs", "recompiles", "recompiles_verbose"), "graph"),
           **dict.fromkeys(("post_grad_graphs", "ir_pre_fusion"), "passes"),
           **dict.fromkeys(("output_code", "kernel_code", "schedule", "fusion", "ir_post_fusion"), "plan")}
_LEVELS = {"all", "dynamo", "aot", "inductor"}


def set_logs(**kinds):
    """Prints what is named, and nothing else: set_logs(graph=True), set_logs(dynamo=logging.DEBUG); set_logs() nothing.

    graph, graph_code, aot_graphs, recompiles …: each new program. post_grad_graphs: what rewritings change.
    output_code, schedule, fusion …: the steps. all, dynamo, aot, inductor: with logging.DEBUG everything, with other
    levels nothing.
    """
    chosen = set()
    for name, value in kinds.items():
        if name in _LEVELS:
            if value is not None and value <= logging.DEBUG:
                chosen |= {"graph", "passes", "plan"}
        elif value and name not in _SERVED:
            raise NotImplementedError(f"set_logs: there is nothing to print for {name}=; what is printed is "
                                      f"{', '.join(sorted({*_SERVED, *_LEVELS}))}")
        elif value:
            chosen.add(_SERVED[name])
    _set_logs(**{kind: kind in chosen for kind in ("graph", "passes", "plan")})
