"""Operators that make planes of another size: padding, resizing and channels that become pixels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from jcw_core.errors import FormatError
from jcw_core.formats.ones import widening
from jcw_core.formats.onnx_reader.graph import Operator
from jcw_core.formats.onnx_reader.translation import Padded, Translation, Value
from jcw_core.network.operations import resizing


def _resize(net: Translation, operator: Operator) -> Value:
    source = net.node(operator.input(0))
    mode, how = (
        operator.attributes.get(*key)
        for key in (("mode", "nearest"), ("coordinate_transformation_mode", "half_pixel"))
    )
    if operator.op == "Upsample":
        how = "asymmetric"
    by = resizing(net.shape(source)[2:], _size(net, operator, source))
    rounding = operator.attributes.get("nearest_mode", "round_prefer_floor")
    fits = how == "asymmetric" and (rounding == "floor" or operator.op == "Upsample")
    # By whole factors these pick the same pixels.
    centred = how in ("half_pixel", "pytorch_half_pixel")
    if mode == "nearest" and (fits or (centred and rounding == "round_prefer_floor" and "scale" in by)):
        return net.append(operator, "resize_nearest", source, **by)
    if mode == "linear" and (centred or how == "align_corners"):
        return net.append(operator, "resize_bilinear", source, **by, align_corners=not centred)
    raise FormatError(f"resizes by {mode} with {how} ({rounding}), which has no place")


def _depth_to_space(net: Translation, operator: Operator) -> Value:
    source, factor = net.node(operator.input(0)), operator.integer("blocksize", 1)
    mode, squares = operator.attributes.get("mode", "DCR"), factor**2
    if mode not in ("CRD", "DCR"):
        raise FormatError(f"mode is {mode}; expected CRD or DCR")
    # DCR has the squares of all channels one after another, where a pixel shuffle has each channel's square together.
    if mode == "DCR" and squares not in (1, net.shape(source)[1]):
        source = net.append(operator, "channel_shuffle", source, groups=squares)
    return net.append(operator, "pixel_shuffle", source, factor=factor)


def _pad(net: Translation, operator: Operator) -> Value:
    """A constant around planes, which becomes part of the windows that read it; channels of zeros are made by a layer."""
    mode = operator.attributes.get("mode", "constant")
    if mode != "constant":
        raise FormatError(f"pads by {mode}; only a constant has a place")
    value = net[operator.input(0)]
    inner = (
        value
        if isinstance(value, Padded)
        else Padded(net.node(operator.input(0)), (0, 0, 0, 0), None, operator)
    )
    fill = _fill(net, operator)
    before, after, *sides = _sides(net, operator, len(net.shape(inner.source)))
    if not any((before, after, *sides)):
        return value
    if inner.fill not in (None, fill):
        raise FormatError(f"pads with {fill:g} what is padded with {inner.fill:g}")
    source = inner.source
    if before or after:
        if fill:
            raise FormatError(f"pads channels with {fill:g}; only 0 has a place")
        source = net.append_made(operator, source, widening(net.shape(source)[1], before, after))
    top, left, bottom, right = (a + b for a, b in zip(inner.sides, sides, strict=True))
    return Padded(source, (top, left, bottom, right), fill, operator)


def _fill(net: Translation, operator: Operator) -> float:
    """An input, in old versions an attribute."""
    if not operator.has_input(2):
        return float(operator.attributes.get("value", 0.0))
    found = net.constant(operator.input(2)).scalar
    if found is None:
        raise FormatError("pads with several values; only one has a place")
    return found


def _sides(net: Translation, operator: Operator, rank: int) -> tuple[int, ...]:
    """How many channels are put before and after, and how many pixels above, left, below and right."""
    pads = net.integers(operator.input(1)) if operator.has_input(1) else operator.integers("pads", ())
    axes = net.integers(operator.input(3)) if operator.has_input(3) else tuple(range(rank))
    pairs = zip(pads[: len(axes)], pads[len(axes) :], strict=False)
    each = {axis % rank: pair for axis, pair in zip(axes, pairs, strict=False)}
    channels, rows, columns = (each.pop(axis, (0, 0)) for axis in (1, 2, 3))
    sides = (*channels, rows[0], columns[0], rows[1], columns[1])
    if rank != 4 or len(pads) != 2 * len(axes) or any(map(any, each.values())) or min(sides) < 0:
        raise FormatError(
            f"pads {rank} axes by {pads}; only channels, rows and columns of planes have a place"
        )
    return sides


def _size(net: Translation, operator: Operator, source: str) -> tuple[int, int]:
    """(height, width) of what is made, from sizes or from factors that come to whole numbers."""
    for key, plain in (("antialias", 0), ("keep_aspect_ratio_policy", "stretch")):
        if (found := operator.attributes.get(key, plain)) != plain:
            raise FormatError(f"resizes with {key} = {found}, which has no place")
    shape = net.shape(source)
    axes = [axis % len(shape) for axis in operator.integers("axes", ()) or range(len(shape))]
    asked = _asked(net, operator, [shape[axis] for axis in axes])
    if len(asked) != len(axes) or len(shape) != 4:
        raise FormatError(
            f"resizes {len(axes)} axes of {shape} to {len(asked)} sizes; expected as many, of planes"
        )
    made = dict(enumerate(shape)) | dict(zip(axes, asked, strict=True))
    # Factors are rounded to float32.
    whole = all(isfinite(size) and abs(size - round(size)) <= 1e-5 * size for size in made.values())
    if (made[0], made[1]) != shape[:2] or not whole:
        sizes = ", ".join(f"{size:g}" for size in made.values())
        raise FormatError(f"resizes {shape} to ({sizes}); only whole heights and widths have a place")
    return round(made[2]), round(made[3])


def _asked(net: Translation, operator: Operator, sizes: list[int]) -> list[float]:
    """What axes of ``sizes`` become, all of them or nothing."""
    if operator.has_input(3):
        return list(map(float, net.integers(operator.input(3))))
    place = 1 if operator.op == "Upsample" or (not operator.has_input(2) and len(operator.inputs) == 2) else 2
    values = net.constant(operator.input(place)).values
    factors = [] if values is None else values.reshape(-1).tolist()
    if len(factors) != len(sizes):
        return factors
    return [factor * size for factor, size in zip(factors, sizes, strict=True)]


PLANES: Mapping[str, Callable[[Translation, Operator], Value]] = {
    "DepthToSpace": _depth_to_space,
    "Pad": _pad,
    "Resize": _resize,
    "Upsample": _resize,
}
