"""Options of the commands that read a network: what an ONNX file leaves open, and where it ends."""

from __future__ import annotations

import click


def shape_of(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, ...] | None:
    """``--shape 1,3,224,224`` as numbers; an error names the option."""
    if text is None:
        return None
    sizes = text.replace("x", ",").split(",")
    if len(sizes) != 4 or not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
        raise click.BadParameter(f"{text!r} is not four sizes, such as 1,3,224,224")
    return tuple(map(int, sizes))


def _names(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """``--outputs a,b --outputs c`` as names; an error names the option."""
    names = [name.strip() for text in texts for name in text.split(",")]
    if not all(names) or len(set(names)) < len(names):
        raise click.BadParameter(f"{','.join(texts)!r} is no list of names, each once, such as boxes,scores")
    return tuple(names)


shape_option = click.option(
    "--shape", callback=shape_of, metavar="1,C,H,W", help="Input of an ONNX file that leaves its size open."
)
outputs_option = click.option(
    "--outputs",
    multiple=True,
    callback=_names,
    metavar="NAME,NAME",
    help="Where the network ends, what follows being left outside: values of an ONNX file, or modules within a torch module; "
    "may be repeated.",
)
