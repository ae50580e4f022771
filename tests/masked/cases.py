"""Expressions of masked tensors that both libraries compute; run as a file, it prints what PyTorch makes of them."""

import importlib
import json
import sys
import warnings

CASES = """
    m m.sum() m.sum(1) m.sum(1,keepdim=True) m.mean(0) m.mean() m.prod() m.prod(1) m.amax() m.amax(1) m.amin(0)
    m.argmax() m.argmin(1) m.std() m.var() (m>1).all() (m>1).all(0) m.softmax(0) torch.softmax(m,-1)
    m+m m+x x*m 1+m m-2 m/m m**2 -m m==m m>1 torch.atan2(m,m) torch.maximum(m,m) torch.fmod(m,m) m.exp() m.sin()
    m.sqrt() m.clamp(0,1) m.round() torch.sigmoid(m) m.abs() m.isnan() torch.nan_to_num(m)
    torch.where(k,m,m) torch.where(k,m,x) torch.where(~k,x,m)
    m[0] m[0,2] m[:,1:] m[k] m.t() m.transpose(0,1) m.reshape(3,2) m.view(6) m.unsqueeze(0) m.unsqueeze(0).expand(2,2,3)
    torch.cat([m,m]) torch.stack([m,m]) m.split(1)[1] m.chunk(2)[0] m.flatten() m.narrow(0,0,1) m.unfold(1,2,1)
    m.clone() m.detach() m.double() torch.ones_like(m) m.contiguous()
    m.to_sparse() m.to_sparse().sum() m.to_sparse()*m.to_sparse() m.to_sparse().cos() m.to_sparse().to_dense()
    m.to_sparse_csr() m.to_sparse_csr().sum() m.to_sparse_csr()*m.to_sparse_csr() m.to_sparse_csr().exp()
    m.clone().add_(1) m.clone().mul_(m) m.clone().exp_() m.to_tensor(7.0) m.get_data() m.get_mask()
    none.sum() none.amin() none.mean(1)
    gradient(m.exp()) gradient(m*m) gradient(m.softmax(1)*m) gradient(m.mean(1)) gradient(m.amax())
    gradient(torch.where(k,m,x)) gradient(m.prod())
""".split()


def results(library):
    """{expression: its text, without spaces at the ends of lines} of a library."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module(library)
    masked = importlib.import_module(f"{library}.masked")
    x = torch.tensor([[0.5, 2.0, 3.0], [4.0, 0.25, 6.0]])
    k = torch.tensor([[True, False, True], [False, False, True]])
    found = {}
    for case in CASES:
        m = masked.masked_tensor(x, k, requires_grad="gradient" in case)
        names = {"torch": torch, "m": m, "x": x, "k": k, "none": masked.masked_tensor(x, torch.zeros(2, 3) > 0),
                 "gradient": lambda y, m=m: (y.sum().backward(), m.grad)[1]}
        found[case] = str(eval(case, names))
    return found


if __name__ == "__main__":
    print(json.dumps(results(sys.argv[1])))
