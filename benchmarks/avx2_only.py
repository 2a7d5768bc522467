"""Programs as they run on a processor that ends at AVX2, which most have: ``avx2_only.c`` answers them in CPUID's place."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


def avx2_only(folder: Path) -> dict[str, str]:
    """Compile what is to be preloaded into ``folder``, and return the environment that preloads it.

    Raises:
        OSError: there is no C compiler, or CPUID cannot be made to fault here.
    """
    library = folder / "avx2_only.so"
    # DeepSparse asks for its instruction set by a program that is linked statically, which nothing can be preloaded into.
    environment = {"LD_PRELOAD": str(library), "NM_ARCH": "avx2"}
    try:
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", SOURCE, "-o", library], check=True)
        subprocess.run(["true"], env=environment, check=True)
    except subprocess.CalledProcessError as error:
        raise OSError(f"no processor with AVX2 alone can be had here: {error}") from None
    return environment
