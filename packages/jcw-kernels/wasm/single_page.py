"""Make one file of the demo page: ``python single_page.py jcw.wasm jcw-relaxed.wasm demo-offline.html``.

Browsers load neither modules nor WebAssembly from other files of a disk, so the engine and what calls it go into the page.
It is then told to load nothing from anywhere.
"""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
MODULES = ("error.mjs", "images.mjs", "index.mjs")
"""In the order in which they need each other."""
IMPORT = 'import { load } from "./index.mjs";'
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src blob: data:"


def page(plain: bytes, relaxed: bytes) -> str:
    """The demo page with both engines and what calls them in it."""
    code = "\n".join(map(inlined, MODULES))
    engine = f"relaxedSimd() ? {decoded(relaxed)} : {decoded(plain)}"
    text = (HERE / "demo.html").read_text(encoding="utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    text = text.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}', 1)
    return text.replace(IMPORT, f"{code}\nprepare({engine});", 1)


def decoded(wasm: bytes) -> str:
    """An expression with these bytes."""
    return f'Uint8Array.from(atob("{base64.b64encode(wasm).decode()}"), (c) => c.charCodeAt(0))'


def inlined(module: str) -> str:
    """The code of a module, for a script that has what it imports and wants what it exports."""
    code = (HERE / module).read_text(encoding="utf-8")
    return re.sub(r"^(import .*;\n|export {.*};\n|export )", "", code, flags=re.MULTILINE)


if __name__ == "__main__":
    *sources, target = map(Path, sys.argv[1:])
    target.write_text(page(*(source.read_bytes() for source in sources)), encoding="utf-8")
