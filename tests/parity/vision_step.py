"""One model, run by either library: counts, shapes, graph nodes, outputs and one training step, written to a file.

As a program it is torchvision's side: it reads requests from stdin, one JSON object per line, and answers each with a
line when its file is written. Nothing of Flambeau is needed.
"""

import importlib
import json
import sys
import warnings

import numpy as np


def tensors(result):
    """All tensors of a model's result: of named tuples, dicts and lists, in order."""
    if isinstance(result, dict):
        result = result.values()
    return [t for part in result for t in tensors(part)] if not hasattr(result, "shape") else [result]


def inputs(request):
    """The same numbers for both sides: one array per input of the model."""
    draw = np.random.default_rng(0)
    return [draw.random(shape, dtype=np.float32) * 2 - 1 for shape in request["shapes"]]


def build(torch, models, request):
    torch.manual_seed(0)
    return models.get_model(request["name"], **request["settings"])


def meta_facts(torch, models, request):
    """Parameters, keys and shapes of the model as it is by default, without its values."""
    with torch.device(request["device"]):
        model = models.get_model(request["name"], **request["always"])
    shapes = [[key, list(value.shape), str(value.dtype).partition(".")[2]] for key, value in model.state_dict().items()]
    return {"parameters": sum(p.numel() for p in model.parameters()), "shapes": shapes}


def nodes(models, model, request):
    """The names of the nodes of its graph, training and not."""
    if not request["nodes"]:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        extraction = importlib.import_module(f"{models.__name__}.feature_extraction")
        return extraction.get_graph_node_names(model.eval())


def outputs(torch, model, request):
    """What it gives for the inputs, in evaluation."""
    with torch.no_grad():
        results = tensors(model.eval()(*map(torch.from_numpy, inputs(request)), **request["call"]))
    return [r.numpy() for r in results]


def step(torch, model, request):
    """Loss and gradient norm of one training step, with the random numbers of seed 1."""
    dtype = getattr(torch, request["dtype"])  # float64, because deep networks at random enlarge rounding errors
    given = [torch.from_numpy(x).to(dtype) for x in inputs(request)]
    model.to(dtype)
    torch.manual_seed(1)
    results = tensors(model.train()(*given, **request["call"]))
    loss = sum((r.square().mean() + r.mean() for r in results), torch.zeros((), dtype=dtype))
    loss.backward()
    squares = sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None)
    return [float(loss.detach()), squares ** 0.5]


def serve(torch, models):
    for line in sys.stdin:
        request = json.loads(line)
        model = build(torch, models, request)
        found = {f"weight {key}": value.numpy() for key, value in model.state_dict().items()}
        facts = meta_facts(torch, models, request) | {"nodes": nodes(models, model, request)}
        found |= {f"output {k}": value for k, value in enumerate(outputs(torch, model, request))}
        found["step"] = np.array(step(torch, build(torch, models, request), request))
        np.savez(request["file"], facts=json.dumps(facts), **found)
        print("done", flush=True)


if __name__ == "__main__":
    import torch
    import torchvision

    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    serve(torch, torchvision.models)
