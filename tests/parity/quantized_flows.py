"""Whole models, quantized by any implementation of PyTorch's API: `quantized_flows.py torch FILE` writes results."""

import copy
import importlib
import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "quantization"))
import networks


def _scales(model):
    return {name: [part.flatten().tolist() for part in module.calculate_qparams()]
            for name, module in model.named_modules() if name.count("activation_post_process") == 1
            and name.endswith("activation_post_process") and "q_scaling" not in name}


def _eager(torch, make, fuse, shape, backend):
    aoq = torch.ao.quantization
    model = networks.filled(torch, make()).eval()
    model.qconfig = aoq.get_default_qconfig(backend)
    prepared = aoq.prepare(aoq.fuse_modules(model, fuse) if fuse else model)
    x = networks.numbers(torch, *shape, scale=2)
    prepared(x)
    quantized = aoq.convert(prepared)
    return {"scales": _scales(prepared), "keys": list(quantized.state_dict()), "out": quantized(x).tolist()}


def _training(torch, make, fuse, shape, backend):
    aoq = torch.ao.quantization
    model = networks.filled(torch, make()).train()
    model.qconfig = aoq.get_default_qat_qconfig(backend)
    prepared = networks.filled(torch, aoq.prepare_qat(aoq.fuse_modules_qat(model, fuse)))
    optimizer, losses = torch.optim.SGD(prepared.parameters(), lr=0.05, momentum=0.9), []
    for k in range(4):
        loss = prepared(networks.numbers(torch, *shape, scale=2, start=5 * k)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "keys": list(prepared.state_dict()),
            "quantized": list(aoq.convert(prepared.eval()).state_dict())}


def _nodes(model):
    return [[node.op, node.name, str(getattr(node.target, "__name__", node.target)), str(node.args)]
            for node in model.graph.nodes]


def _graph(torch, make, shape, training):
    aoq, fx = torch.ao.quantization, importlib.import_module(torch.__name__ + ".ao.quantization.quantize_fx")
    model, x = networks.filled(torch, make()), networks.numbers(torch, *shape, scale=2)
    if training:
        prepared = fx.prepare_qat_fx(model.train(), aoq.get_default_qat_qconfig_mapping(), (x,))
        prepared(x)
        prepared.eval()
    else:
        prepared = fx.prepare_fx(model.eval(), aoq.get_default_qconfig_mapping(), (x,))
        prepared(x)
    reference, quantized = fx.convert_to_reference_fx(copy.deepcopy(prepared)), fx.convert_fx(copy.deepcopy(prepared))
    return {"nodes": [_nodes(model) for model in (prepared, reference, quantized)],
            "keys": sorted(quantized.state_dict()), "out": quantized(x).tolist()}


def run(torch):
    """{name: what a flow gives}."""
    warnings.simplefilter("ignore")
    found = {}
    for name, (make, fuse, shape) in networks.eager(torch).items():
        for backend in ("x86", "qnnpack"):
            found[f"eager {name} {backend}"] = _eager(torch, make, fuse, shape, backend)
            if fuse:
                found[f"training {name} {backend}"] = _training(torch, make, fuse, shape, backend)
    for name, (make, shape) in networks.graphs(torch).items():
        found[f"graph {name}"] = _graph(torch, make, shape, False)
        if name != "transformer":
            found[f"graph training {name}"] = _graph(torch, make, shape, True)
    return found


if __name__ == "__main__":
    torch = importlib.import_module(sys.argv[1])
    importlib.import_module(sys.argv[1] + ".ao.quantization.quantize_fx")
    importlib.import_module(sys.argv[1] + ".ao.nn.quantized")
    Path(sys.argv[2]).write_text(json.dumps(run(torch)))
