"""Programs as they run on a processor that ends at AVX2, which most have: ``avx2_only.c`` answers them in CPUID's place,
and Linux says whether they keep to it.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from jcw_core.errors import JcwError

SOURCE = Path(__file__).with_suffix(".c")

C_LIBRARY = ",".join(f"-AVX512{part}" for part in ("F", "VL", "BW", "DQ", "CD"))
"""What the C library, which asks before anything is preloaded, is to do without."""


def avx2_only(folder: Path) -> dict[str, str]:
    """Compile what is to be preloaded into ``folder``, and return the environment that preloads it.

    Raises:
        JcwError: CPUID cannot be made to fault here.
    """
    library = folder / "avx2_only.so"
    # DeepSparse asks for its instruction set by a program that is linked statically, which nothing can be preloaded into.
    environment = {
        "LD_PRELOAD": str(library),
        "NM_ARCH": "avx2",
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={C_LIBRARY}",
    }
    try:
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", SOURCE, "-o", library], check=True)
        subprocess.run(["true"], env=environment, check=True)
    except subprocess.CalledProcessError as error:
        raise JcwError(f"no processor with AVX2 alone can be had here: {error}") from None
    return environment


def milliseconds_since_avx512(process: int | str) -> float:
    """Since one of its threads last used AVX-512's registers; infinity where none has, or Linux does not say."""
    found = [
        int(line.split()[1])
        for task in Path(f"/proc/{process}/task").glob("*/arch_status")
        for line in task.read_text().splitlines()
        if line.startswith("AVX512_elapsed_ms")
    ]
    return min((ms for ms in found if ms >= 0), default=float("inf"))
