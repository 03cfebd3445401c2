"""Times one training step in PyTorch: plain SGD, Opacus with hooks or ghost clipping, and torch.func. Modes in
graphs are compiled into CUDA graphs. plain-best tries several ways of plain SGD and times the fastest."""
import itertools
import logging
import sys
import warnings

import common

o = common.options(__doc__, ["plain", "plain-compiled", "plain-graphs", "plain-best", "hooks", "ghost", "func", "func-compiled", "func-graphs"])

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
torch.set_num_threads(o.threads)
torch.manual_seed(3)
torch.set_float32_matmul_precision("high" if o.precision == "tf32" else "highest")  # float32 is not TF32
torch.backends.cudnn.allow_tf32 = o.precision == "tf32"
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False  # sums are float32


def rounded():
    """Rounds operands of products to bf16 where that is asked for."""
    return torch.autocast(o.device, torch.bfloat16, enabled=o.precision == "bf16")


def compiled(f):
    """f as the mode says. CUDA graphs start all kernels of a step at once."""
    if o.mode.endswith("-graphs"):
        return torch.compile(f, mode="reduce-overhead")
    return torch.compile(f) if o.mode.endswith("-compiled") else f


class StandardConv(nn.Conv2d):
    """Kernels of the mean 0 and of one variance, times a gain."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.gain = nn.Parameter(torch.ones(self.out_channels))

    def forward(self, x):
        variance, mean = torch.var_mean(self.weight, (1, 2, 3), correction=0, keepdim=True)
        scale = self.gain.reshape(-1, 1, 1, 1) * torch.rsqrt((variance * self.weight[0].numel()).clamp(min=common.FLOOR))
        return self._conv_forward(x, (self.weight - mean) * scale, self.bias)


def module(layer):
    if layer.kind in ("conv", "sconv"):
        kind = nn.Conv2d if layer.kind == "conv" else StandardConv
        return kind(layer.before[0], layer.after[0], layer.size, layer.stride, layer.padding)
    if layer.kind == "norm":
        return nn.GroupNorm(layer.groups, layer.before[0], common.EPSILON)
    if layer.kind == "pool":
        return nn.MaxPool2d(layer.size, layer.stride)
    if layer.kind == "mean":
        return nn.AdaptiveAvgPool2d(1)
    if layer.kind == "fc":
        return nn.Linear(layer.before[0], layer.after[0])
    return nn.ReLU() if layer.kind == "relu" else nn.Flatten()


class Residual(nn.Module):
    """A network in which values are kept and added."""

    def __init__(self, layers, modules):
        super().__init__()
        self.layers, self.all = layers, nn.ModuleList(modules)

    def forward(self, x):
        modules = iter(self.all)
        return common.run(self.layers, x, lambda _, v: next(modules)(v))


def network():
    layers, modules, tensors = list(common.layers(o.model)), [], iter(common.initial(o.model))
    for layer in layers:
        if layer.kind in ("keep", "swap", "add"):
            continue
        m = module(layer)
        if layer.tensors:
            with torch.no_grad():
                for name, tensor in zip(("weight", "bias", "gain"), next(tensors)):
                    getattr(m, name).copy_(torch.from_numpy(tensor))
        modules.append(m)
    net = nn.Sequential(*modules) if len(modules) == len(layers) else Residual(layers, modules)
    return net.to(o.device)


def plain(x, y):
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), lr=common.RATE)

    @compiled
    def loss(x, y):
        with rounded():
            return F.cross_entropy(net(x), y)

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        # Graphs write gradients to where they were: they are zeroed, not freed.
        optimizer.zero_grad(set_to_none=o.mode != "plain-graphs")
        loss(x, y).backward()
        optimizer.step()
    return step


def opacus_step(x, y):
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    net, ghost = network(), o.mode == "ghost"
    sgd = torch.optim.SGD(net.parameters(), lr=common.RATE)
    kind = DPOptimizerFastGradientClipping if ghost else DPOptimizer
    optimizer = kind(sgd, noise_multiplier=common.NOISE_MULTIPLIER, max_grad_norm=common.CLIP, expected_batch_size=o.batch)
    if ghost:
        model = GradSampleModuleFastGradientClipping(net, max_grad_norm=common.CLIP, use_ghost_clipping=True)
        criterion = DPLossFastGradientClipping(model, optimizer, nn.CrossEntropyLoss())
    else:
        model, criterion = GradSampleModule(net), nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        with rounded():
            loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    return step


def func(x, y):
    net = network()
    state = {name: p.detach().clone() for name, p in net.named_parameters()}

    def loss(params, image, label):
        with rounded():
            return F.cross_entropy(functional_call(net, params, (image.unsqueeze(0),)), label.unsqueeze(0))

    per_example = vmap(grad(loss), in_dims=(None, 0, 0))

    def update(params, x, y):
        gradients = per_example(params, x, y)
        squares = sum(g.flatten(1).pow(2).sum(1) for g in gradients.values())
        factors = (common.CLIP / (squares.sqrt() + 1e-6)).clamp(max=1.0)
        out = {}
        for name, g in gradients.items():
            total = torch.tensordot(factors, g, dims=1)
            noise = torch.randn_like(total) * (common.NOISE_MULTIPLIER * common.CLIP)
            out[name] = params[name] - (common.RATE / o.batch) * (total + noise)
        return out

    update = compiled(update)
    if o.mode == "func-graphs":
        for tensor in (x, y, *state.values()):
            torch._dynamo.mark_static_address(tensor)  # a graph reads them where they are

    def step():
        nonlocal state
        torch.compiler.cudagraph_mark_step_begin()
        new = update(state, x, y)
        if o.mode == "func-graphs":
            # The next step overwrites what this one gave.
            torch._foreach_copy_(list(state.values()), list(new.values()))
        else:
            state = new
    return step


def whole(x, y, layout, low):
    """Plain SGD without what a step can do without: inputs as the layout wants them, the update in one call. low says how
    products are rounded to bf16: "" for not at all, by autocast, or "pure": values and a copy of the parameters are in bf16."""
    net, master = network().to(memory_format=layout), None
    x = x.contiguous(memory_format=layout) if x.dim() == 4 else x
    if low == "pure":
        master = [p.detach().clone() for p in net.parameters()]
        net, x = net.to(torch.bfloat16), x.to(torch.bfloat16)
    params = list(net.parameters())

    def step():
        with torch.autocast(o.device, torch.bfloat16, enabled=low == "autocast", cache_enabled=False):
            loss = F.cross_entropy(net(x).float(), y)
        gradients = torch.autograd.grad(loss, params)
        with torch.no_grad():
            if master:
                torch._foreach_add_(master, [g.float() for g in gradients], alpha=-common.RATE)
                torch._foreach_copy_(params, master)
            else:
                torch._foreach_add_(params, gradients, alpha=-common.RATE)
    return step


def captured(step):
    """A step in one CUDA graph, as torch wants it: after some on another stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


LAYOUTS = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}


def best(x, y):
    """The fastest way, and its name."""
    torch.backends.cudnn.benchmark = True
    images = any(layer.kind in ("conv", "sconv") for layer in common.layers(o.model))
    layouts = list(LAYOUTS) if images else ["channels first"]
    lows = ["autocast", "pure"] if o.precision == "bf16" else [""]
    found = []

    def make(layout, low):
        step = whole(x, y, LAYOUTS[layout], low)
        return captured(step) if o.device == "cuda" else step

    for way in itertools.product(layouts, lows):
        try:
            step = make(*way)
            common.waited(step, wait)
            found.append((common.timed(step, wait, o.seconds / 5)[0], way))
        except RuntimeError as e:  # the next way may work
            print(", ".join(filter(None, way)), "fails:", str(e).splitlines()[0], file=sys.stderr)
    if not found:
        raise SystemExit("no way of a plain step works")
    way = min(found)[1]
    if o.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    graph = "in a graph" if o.device == "cuda" else ""
    return make(*way), ", ".join(filter(None, (*way, graph)))


def wait():
    if o.device == "cuda":
        torch.cuda.synchronize()


x, y = (torch.from_numpy(a).to(o.device) for a in common.batch(o.model, o.batch))
peer, version, make = "torch", torch.__version__, plain
if o.mode in ("hooks", "ghost"):
    import opacus
    peer, version, make = "opacus", opacus.__version__, opacus_step
elif o.mode.startswith("func"):
    make = func
step, form = best(x, y) if o.mode == "plain-best" else (make(x, y), None)


def device_bytes():
    return torch.cuda.max_memory_allocated() if o.device == "cuda" else None


common.report(o, peer, version, step, wait, device_bytes, form)
