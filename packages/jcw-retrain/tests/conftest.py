from __future__ import annotations

import sys
from pathlib import Path

# Modules that several tests share stand beside them.
sys.path.insert(0, str(Path(__file__).parent))
