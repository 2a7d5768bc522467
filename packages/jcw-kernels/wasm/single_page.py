"""Make one file of the demo page: ``python single_page.py jcw.wasm demo-offline.html``.

Browsers load neither modules nor WebAssembly from other files of a disk, so the engine and what calls it go into the page.
It is then told to load nothing from anywhere.
"""

from __future__ import annotations

import base64
import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
IMPORT = 'import { load } from "./index.mjs";'
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src blob: data:"


def page(wasm: bytes) -> str:
    """The demo page with ``wasm`` and index.mjs in it."""
    code = re.sub(r"^export ", "", (HERE / "index.mjs").read_text(encoding="utf-8"), flags=re.MULTILINE)
    engine = f'Uint8Array.from(atob("{base64.b64encode(wasm).decode()}"), (c) => c.charCodeAt(0))'
    text = (HERE / "demo.html").read_text(encoding="utf-8")
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    text = text.replace('<meta charset="utf-8">', f'<meta charset="utf-8">\n{policy}', 1)
    return text.replace(IMPORT, f"{code}\nprepare({engine});", 1)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(page(source.read_bytes()), encoding="utf-8")
