"""A module as ``torch.export`` writes it down: operators in order, and where each reads its weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from jcw_core.errors import FormatError
from jcw_core.formats.torch_import.ending import ending


@dataclass(frozen=True, slots=True)
class Operator:
    """One call of the exported graph.

    Args:
        name: unique in its graph.
        op: of ATen, without its overload and the underscore of what works in place, e.g. ``conv2d``.
        arguments: values by the name of the parameter, defaults filled in; ``fx.Node`` for what other calls make.
        shape: of its result with the batch axis; ``()`` for results that are not one tensor.
        module: path of the module that makes the call.
    """

    name: str
    op: str
    arguments: Mapping[str, Any]
    shape: tuple[int, ...]
    module: str


@dataclass(frozen=True, slots=True)
class Exported:
    """An exported module.

    Args:
        input: name of the value that is the image.
        outputs: names of the results, in their order.
        output_names: the keys and places under which the module returns them, e.g. ``boxes.0``.
        operators: in order.
        parameters: names in the state dict, by value.
        names: of all that the module's state dict holds.
        same: of every tensor that another value holds too, the first of these values.
        tensors: parameters, buffers and constants by value.
        expected: what the module computes for the example, flat and joined, (1, values).
        input_shape: (channels, height, width).
    """

    input: str
    outputs: Sequence[str]
    output_names: Sequence[str]
    operators: Sequence[Operator]
    parameters: Mapping[str, str]
    names: Set[str]
    same: Mapping[str, str]
    tensors: Mapping[str, Tensor]
    expected: Tensor
    input_shape: tuple[int, ...]


def export(module: nn.Module, example: Tensor, name: str, ends: Sequence[str] = ()) -> Exported:
    """Export a module in evaluation mode, all of it or as far as the modules within it that ``ends`` names.

    Raises ``FormatError``.
    """
    if example.ndim != 4 or len(example) != 1 or example.dtype != torch.float32:
        raise FormatError(
            f"{name}: the example is {example.dtype} {tuple(example.shape)}, expected float32 (1, channels, height, width)"
        )
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad(), ending(module, ends, name):
            outputs = module(example)
            # Hooks and what they raise are Python's own affair, which the strict mode of older versions does not follow.
            read = partial(torch.export.export, strict=False) if ends else torch.export.export
            program = read(module, (example,))
    except FormatError:
        raise
    except Exception as error:  # torch.export raises errors of many kinds, for what the module's author did
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise FormatError(f"{name}: torch.export cannot read this module ({reason:.200})") from None
    finally:
        for part, was in training.items():
            part.training = was
    returned = list(_leaves(outputs))
    leaves = [leaf for _, leaf in returned]
    odd = [leaf for leaf in leaves if not isinstance(leaf, Tensor) or len(leaf) != 1]
    if odd or not leaves:
        found = type(odd[0] if odd else outputs).__name__
        raise FormatError(f"{name}: returns a {found}, expected tensors of one image; wrap it")
    joined = torch.cat([leaf.detach().flatten(1) for leaf in leaves], 1)
    return _exported(program, module, [name for name, _ in returned], joined, example)


def _leaves(outputs: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """What tuples, lists and dictionaries of outputs hold, in the order in which torch.export lists them, and where."""
    if isinstance(outputs, (tuple, list)):
        outputs = dict(enumerate(outputs))
    if isinstance(outputs, dict):
        for key, output in outputs.items():
            yield from _leaves(output, f"{name}.{key}" if name else str(key))
    else:
        yield name, outputs


def _exported(
    program: Any, module: nn.Module, names: Sequence[str], expected: Tensor, example: Tensor
) -> Exported:
    signature = program.graph_signature
    held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    tensors = {value: program.state_dict[key] for value, key in held.items() if key in program.state_dict}
    lifted = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    tensors |= {v: program.constants[k] for v, k in lifted.items() if k in program.constants}
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    return Exported(
        input=signature.user_inputs[0],
        outputs=signature.user_outputs,
        output_names=names,
        operators=[_operator(node) for node in calls],
        parameters=held,
        names=module.state_dict().keys(),
        same=_same(tensors),
        tensors={value: tensor.detach().clone() for value, tensor in tensors.items()},
        expected=expected,
        input_shape=tuple(example.shape[1:]),
    )


def _same(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """The first of the values that are one tensor: a weight that two modules share has two names."""
    first: dict[tuple[Any, ...], str] = {}
    places = {value: (t.data_ptr(), tuple(t.shape), t.stride()) for value, t in tensors.items() if t.numel()}
    return {value: first.setdefault(place, value) for value, place in places.items()}


def _operator(node: fx.Node) -> Operator:
    value = node.meta.get("val")
    shape = tuple(map(int, value.shape)) if isinstance(value, Tensor) else ()
    schema = getattr(node.target, "_schema", None)
    module = next((path for path, _ in reversed((node.meta.get("nn_module_stack") or {}).values())), "")
    if schema is None:  # operator.getitem, of a result that is a list
        return Operator(
            node.name,
            getattr(node.target, "__name__", str(node.target)),
            {str(i): value for i, value in enumerate(node.args)},
            shape,
            module,
        )
    arguments = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    arguments |= {a.name: given for a, given in zip(schema.arguments, node.args, strict=False)}
    arguments |= node.kwargs
    return Operator(node.name, schema.name.removeprefix("aten::").rstrip("_"), arguments, shape, module)
