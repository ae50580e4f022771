"""Function transforms, run in either library: expressions whose value, or error type, must be the same.

Run as a script, with PyTorch, it writes {expression: result} to a file.
"""

import importlib
import pickle
import sys
from functools import partial

CASES = (
    'vmap(torch.dot)(x,x)',
    'vmap(torch.mm,in_dims=(None,0))(m.T,T(3,4,2))',
    'vmap(lambda a: a.softmax(-1).log())(x)',
    'vmap(lambda a: torch.outer(a,a))(x)',
    'vmap(lambda a: a.max())(x)',
    'vmap(lambda a: a.max(0))(x)',
    'vmap(lambda a: a.topk(2))(x)',
    'vmap(lambda a: torch.einsum("i,j->ij",a,a))(x)',
    'vmap(lambda a: a.var())(x)',
    'vmap(lambda a: torch.where(a>0,a,0.))(x)',
    'vmap(lambda a: a[a>0])(x)',
    'vmap(lambda a: a.nonzero())(x)',
    'vmap(lambda a: a.item())(v)',
    'vmap(lambda a: a if a.sum()>0 else -a)(x)',
    'vmap(lambda a: torch.randn(2))(x)',
    'vmap(lambda a: fn.dropout(a))(x)',
    'vmap(lambda a: a.numpy())(x)',
    'vmap(lambda a: torch.zeros(4, dtype=torch.float64).add_(a))(x)',
    'vmap(lambda a: torch.zeros(4, dtype=torch.float64).copy_(a))(x)',
    'vmap(lambda a: torch.add(a,a,out=torch.empty(4, dtype=torch.float64)))(x)',
    'vmap(lambda a: a, in_dims=2)(x)',
    'vmap(lambda a: a,in_dims=(0,0))(x)',
    'vmap(lambda a,b: a,in_dims=(None,None))(x,x)',
    'vmap(lambda a: a,out_dims=3)(x)',
    'vmap(lambda a: (a,a),out_dims=(0,1,2))(x)',
    'vmap(lambda a: (a,a),out_dims=(0,1))(x)',
    'vmap(lambda a: "s")(x)',
    'vmap(lambda a,b:a+b)(x,T(4,4))',
    'vmap(lambda a:a)( )',
    'vmap(lambda a:a,randomness="x")(x)',
    'vmap(lambda a:a,in_dims="0")(x)',
    'vmap(lambda a:a.sum(5))(x)',
    'vmap(lambda a:a+T(7))(x)',
    'vmap(lambda a: None)(x)',
    'vmap(lambda a:a,out_dims=None)(x)',
    'vmap(lambda d: d["a"],in_dims=({"a":0,"b":None},))({"a":x,"b":v})',
    'vmap(lambda d: d["a"])({"a":x,"b":v})',
    'vmap(lambda *a, k: a[0]+k)(x,k=x)',
    'vmap(lambda a: a.sum(), chunk_size=0)(x)',
    'vmap(lambda a: a.sum(), chunk_size=2)(x)',
    'vmap(lambda a:a.sum())(T(0,3))',
    'vmap(vmap(torch.dot,(None,0)),(0,None))(x,x)',
    'vmap(lambda a: torch.stack([a,a]).view(-1))(x)',
    'vmap(lambda a: a.view(2,2).t().contiguous())(x)',
    'grad(lambda a: a.sum())(x)',
    'grad(lambda a: a)(x)',
    'grad(lambda a: 3.)(x)',
    'grad(lambda a: a.sum())(3.)',
    'grad(lambda a: a.sum())(torch.arange(3))',
    'grad(lambda a,b: (a*b).sum(),argnums=(0,1))(x,x+1)',
    'grad(lambda a,b: (a*b).sum(),argnums=(0,0))(x,x)',
    'grad(lambda a,b: (a*b).sum(),argnums=2)(x,x)',
    'grad(lambda a,b: (a*b).sum(),argnums=-1)(x,x)',
    'grad(lambda a: (a.sum(),a*2),has_aux=True)(x)',
    'grad(lambda a: a.sum(),has_aux=True)(x)',
    'F.grad_and_value(lambda a: (a.sum(),a*2),has_aux=True)(x)',
    'grad(lambda d: (d["a"]*d["b"][0]).sum())({"a":x,"b":(x,)})',
    'grad(lambda a: torch.ones((), dtype=torch.float64))(x)',
    'grad(lambda a: a.detach().sum())(x)',
    'grad(grad(lambda a: a.sin()))(v[0])',
    'grad(lambda a: (grad(lambda b: (b**3*a.sum()).sum())(a)).sum())(v)',
    'vjp(torch.sin,x)[1](x)',
    'vjp(lambda a: (a,a*2),x)[1](x)',
    'vjp(lambda a: (a,a*2),x)[1]((x,x))',
    'vjp(lambda a,b: a*b,x,x)[1](x)',
    'vjp(lambda a:3,x)',
    'vjp(lambda a:(),x)',
    'vjp(lambda a: {"z":a*2},x)[1]({"z":x})',
    'vjp(torch.sin,x)[1](v)',
    'jacrev(torch.sin)(v)',
    'jacrev(lambda a,b: (a*b,a.sum()),argnums=(0,1))(v,v)',
    'jacrev(lambda a: {"q":a**2},chunk_size=3)(v)',
    'jacrev(lambda a: (a**2,a),has_aux=True)(v)',
    'jacrev(torch.sin,chunk_size=-1)(v)',
    'jacrev(jacrev(lambda a:(a**3).sum()))(v)',
    'jacfwd(jacrev(lambda a:(a**3).prod()))(v)',
    'hessian(lambda a:(a**3).prod())(v)',
    'vmap(hessian(lambda a:(a**3).prod()))(x)',
    'vmap(grad(lambda a: a.sin().sum()))(x)',
    'grad(lambda a: vmap(lambda b: b.sin().sum())(a).sum())(x)',
    'vmap(jacrev(lambda a: a.cumsum(0)**2))(x)',
    'jvp(lambda a: vmap(torch.sin)(a),(x,),(x,))',
    'vmap(lambda a,t: jvp(torch.sin,(a,),(t,)))(x,x)',
    'jacrev(lambda a: jacfwd(torch.sin)(a).sum(0))(v)',
    'jvp(grad(lambda a: a.sin().sum()),(v,),(v,))',
    'grad(lambda a: jvp(torch.sin,(a,),(a,))[1].sum())(v)',
    'vmap(lambda a: a.index_select(0,torch.tensor([1,0])))(x)',
    'vmap(lambda a,i: a[i])(x,torch.tensor([0,1,2]))',
    'vmap(lambda a,i: a.gather(0,i))(x,torch.tensor([[0],[1],[2]]))',
    'vmap(lambda a: a[None,...,:2])(x)',
    'vmap(lambda a: fn.layer_norm(a,(4,)))(x)',
    'vmap(lambda a: fn.cross_entropy(a,torch.tensor(1)))(x)',
    'vmap(lambda a,t: fn.cross_entropy(a,t))(x,torch.tensor([1,2,0]))',
    'vmap(lambda a: a.to(torch.float32).dtype==torch.float32 and a)(x)',
    'vmap(lambda a: (a.shape[0]+a.dim(), )[0]*a)(x)',
    'vmap(lambda a: a.new_zeros(2).fill_(a[0]))(x)',
    'vmap(lambda a: torch.full((2,),a[0]))(x)',
    'vmap(lambda a: a.tolist())(x)',
    'vmap(lambda a: torch.linalg.inv(torch.outer(a,a)+torch.eye(4, dtype=torch.float64)))(x)',
    'vmap(lambda a: torch.linalg.svdvals(torch.outer(a,a)+torch.eye(4, dtype=torch.float64)))(x)',
    'vmap(lambda a: a.unfold(0,2,1))(x)',
    'vmap(lambda a: torch.nn.functional.pad(a,(1,1)))(x)',
    'vmap(lambda a: torch.cat([a,v]))(x)',
    'vmap(lambda a: a*torch.tensor(2))(torch.tensor([1,2], dtype=torch.int32))',
    'vmap(lambda a: a*v.float())(T(3))',
    'vmap(lambda a: a/2)(torch.tensor([1,2]))',
    'vmap(lambda a: torch.tensor([1.,2.])*a)(torch.tensor([1,2]))',
    'vmap(lambda a: a>0.5)(x)',
    'vmap(lambda a: torch.unbind(a))(x)',
    'F.functionalize(lambda a: a.clone().add_(1))(x)',
    'F.functionalize(lambda a:a,remove="q")(x)',
    'grad(lambda a: a.add_(1).sum())(x.clone())',
    'grad(lambda a: a.clone().mul_(a).sum())(x)',
    'vmap(lambda a: a.mul_(2))(x.clone())',
    'grad(lambda a: a[0].mul_(2).sum())(x.clone())',
    'vmap(grad(lambda a: torch.stack([a,a])[0].mul_(a).sum()))(x)',
    'vmap(lambda a: torch.std_mean(a))(x)',
    'vmap(lambda a: a.bernoulli())(x.abs())',
    'vmap(lambda a: a.sort(descending=True))(x)',
    'vmap(lambda a: a.flip(0).roll(1))(x)',
    'vmap(partial(torch.squeeze),in_dims=0)(T(3,1,2))',
    'vmap(lambda a: a.squeeze(0))(T(3,1,2))',
    'vmap(lambda a: a.expand(2,4))(x)',
    'vmap(lambda a: a.unsqueeze(3))(x)',
    'jacrev(lambda a: a.sum())(torch.arange(3))',
    'jacfwd(lambda a: (a**2,a),has_aux=True)(v)',
    'F.linearize(torch.sin,v)[1](v)',
    'vmap(lambda a: a.svd() if False else a.T)(T(2,3,3))',
    'vmap(lambda a, t: jvp(lambda b: (b * a).sum(), (a,), (t,)))(x, x)',
    'vmap(jacfwd(lambda a: a.softmax(0)))(x)',
    'hessian(lambda a: fn.cross_entropy(a, torch.tensor(1)))(v)',
    'vmap(vmap(grad(lambda a, b: (a * b).sin()), (0, None)), (None, 0))(v, v)',
    "F.functional_call(nn.Linear(2, 1).double(), {'weight': T(1, 2), 'bias': T(1)}, (T(3, 2),))",
    "F.functional_call(nn.Linear(2, 1), {'weight': T(1, 2)}, (T(3, 2).float(),), strict=True)",
    'F.stack_module_state([])',
    'F.stack_module_state([nn.Linear(1, 1), nn.Tanh()])',
    "F.rearrange(T(2, 3, 4), 'a b (c d) -> d (a b) c', c=2)",
    "F.rearrange(T(2, 3), 'a b -> a')",
    "F.rearrange(T(2, 3), 'a b c -> a b c')",
    'F.linearize(lambda a: a.sin() * 2, v)[1](v)',
    'jvp(torch.sin, (x,), (v,))',
    'jvp(torch.sin, x, x)',
)


def names_of(torch):
    """What the expressions are written in."""
    transforms = importlib.import_module(torch.__name__ + ".func")

    def numbers(*shape):
        count = 1
        for n in shape:
            count *= n
        return (torch.arange(count, dtype=torch.float64).reshape(shape) * 0.37).sin()

    names = {n: getattr(transforms, n) for n in ("vmap", "grad", "vjp", "jvp", "jacrev", "jacfwd", "hessian")}
    return names | {"torch": torch, "F": transforms, "nn": torch.nn, "fn": torch.nn.functional, "T": numbers,
                    "partial": partial, "x": numbers(3, 4), "v": numbers(4), "m": numbers(4, 5)}


def plain(torch, x):
    """Tensors as (shape, dtype, numbers, requires_grad)."""
    if isinstance(x, torch.Tensor):
        return (tuple(x.shape), str(x.dtype).rpartition(".")[2], x.detach().reshape(-1).tolist(), x.requires_grad)
    if isinstance(x, dict):
        return {k: plain(torch, v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return [plain(torch, v) for v in x]
    return repr(x)


def run(torch, expression):
    """The expression's value as plain data, or the name of the error it raises."""
    try:
        return plain(torch, eval(expression, names_of(torch)))
    except Exception as error:
        return type(error).__name__


if __name__ == "__main__":
    library = importlib.import_module("torch")
    with open(sys.argv[1], "wb") as file:
        pickle.dump({e: run(library, e) for e in CASES}, file)
