"""Times one jitted training step in JAX: plain SGD, or per-example gradients by vmap of grad."""
import common

o = common.options(__doc__, ["plain", "vmap"])

import os

if o.device == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
from jax import lax

if o.device == "cuda":
    if jax.default_backend() != "gpu":
        raise SystemExit("this JAX sees no GPU")
    # float32 is not TF32. In bf16 operands are rounded below, and no other product is left.
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if o.precision == "tf32" else "highest")


def low(a):
    """An operand of a product."""
    return a.astype(jnp.bfloat16) if o.precision == "bf16" else a


def standard(weight, gain):
    """Kernels of the mean 0 and of one variance, times the gain."""
    mean, variance = weight.mean((0, 1, 2)), weight.var((0, 1, 2))
    return (weight - mean) * (gain / jnp.sqrt(jnp.maximum(variance * weight[..., 0].size, common.FLOOR)))


def logits(params, images):
    """Of channels-last images."""
    params = iter(params)

    def apply(layer, v):
        if layer.kind in ("conv", "sconv"):
            weight, bias, *gain = next(params)
            if gain:
                weight = standard(weight, *gain)
            pads = [(layer.padding, layer.padding)] * 2
            strides = layer.stride, layer.stride
            v = lax.conv_general_dilated(low(v), low(weight), strides, pads, dimension_numbers=("NHWC", "HWIO", "NHWC"))
            return bias + v.astype(jnp.float32)
        if layer.kind == "norm":
            scale, shift = next(params)
            groups = v.reshape(*v.shape[:3], layer.groups, -1)
            axes = (1, 2, 4)
            groups = (groups - groups.mean(axes, keepdims=True)) / jnp.sqrt(groups.var(axes, keepdims=True) + common.EPSILON)
            return groups.reshape(v.shape) * scale + shift
        if layer.kind == "pool":
            return lax.reduce_window(v, -jnp.inf, lax.max, (1, layer.size, layer.size, 1), (1, layer.stride, layer.stride, 1), "VALID")
        if layer.kind == "mean":
            return v.mean((1, 2), keepdims=True)
        if layer.kind == "fc":
            weight, bias = next(params)
            return (low(v) @ low(weight)).astype(jnp.float32) + bias
        if layer.kind == "relu":
            return jnp.maximum(v, 0)
        return v.reshape(v.shape[0], -1)

    return common.run(common.layers(o.model), images, apply)


def loss(params, images, labels):
    z = jax.nn.log_softmax(logits(params, images))
    return -jnp.take_along_axis(z, labels[:, None], axis=1).mean()


def plain(params, key, images, labels):
    gradient = jax.grad(loss)(params, images, labels)
    return jax.tree.map(lambda p, g: p - common.RATE * g, params, gradient), key


def private(params, key, images, labels):
    def one(image, label):
        return jax.grad(loss)(params, image[None], label[None])

    gradients = jax.vmap(one)(images, labels)
    leaves, tree = jax.tree.flatten(gradients)
    squares = sum(jnp.square(g).reshape(g.shape[0], -1).sum(1) for g in leaves)
    factors = jnp.minimum(1, common.CLIP / (jnp.sqrt(squares) + 1e-6))
    key, *keys = jax.random.split(key, len(leaves) + 1)
    noisy = [jnp.tensordot(factors, g, 1) + common.NOISE_MULTIPLIER * common.CLIP * jax.random.normal(k, g.shape[1:], g.dtype)
             for k, g in zip(keys, leaves)]
    return jax.tree.map(lambda p, g: p - common.RATE / o.batch * g, params, jax.tree.unflatten(tree, noisy)), key


def device_layout(tensor):
    return jnp.asarray(tensor.transpose(2, 3, 1, 0) if tensor.ndim == 4 else tensor.T)


images, labels = common.batch(o.model, o.batch)
images, labels = jnp.asarray(images.transpose(0, 2, 3, 1)), jnp.asarray(labels, jnp.int32)
state = [tuple(map(device_layout, tensors)) for tensors in common.initial(o.model)], jax.random.key(4)
update = jax.jit(private if o.mode == "vmap" else plain, donate_argnums=(0, 1))


def step():
    global state
    state = update(*state, images, labels)


def wait():
    jax.block_until_ready(state)


def device_bytes():
    statistics = jax.local_devices()[0].memory_stats() if o.device == "cuda" else None
    return statistics and statistics.get("peak_bytes_in_use")


common.report(o, "jax", jax.__version__, step, wait, device_bytes)
