"""Programs as they run on a processor that ends at AVX2, which most have: ``avx2_only.c`` answers them in CPUID's place."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


class Avx2Only:
    """What hides the rest of a processor from runtimes.

    Args:
        folder: for what is compiled.

    Raises:
        OSError: there is no C compiler, or CPUID cannot be made to fault here.
    """

    def __init__(self, folder: Path) -> None:
        self._library = folder / "avx2_only.so"
        try:
            subprocess.run(["cc", "-O1", "-shared", "-fPIC", SOURCE, "-o", self._library], check=True)
            subprocess.run(["true"], env=self.environment("true"), check=True)
        except subprocess.CalledProcessError as error:
            raise OSError(f"no processor with AVX2 alone can be had here: {error}") from None

    def environment(self, runtime: str) -> dict[str, str]:
        """In which a runtime is to be started. DeepSparse ends when CPUID faults, and has a switch of its own."""
        return {"NM_ARCH": "avx2"} if runtime == "deepsparse" else {"LD_PRELOAD": str(self._library)}
