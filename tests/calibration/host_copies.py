"""How fast the host's memory is copied to a GPU and back.

    python -m tests.calibration.host_copies OUT

Needs a GPU and PyTorch. The best of several copies of 128 MB, as large as the arrays that are
timed; from pinned memory, which is the fastest way there is, and from ordinary memory.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

BYTES = 128 << 20
TIMES = 7


def main(out: Path) -> None:
    import torch

    device = torch.empty(BYTES, dtype=torch.uint8, device="cuda")
    found = {}
    for pinned in (True, False):
        host = torch.empty(BYTES, dtype=torch.uint8, pin_memory=pinned).zero_()
        for name, to, source in (("to_device", device, host), ("to_host", host, device)):
            best = float("inf")
            for _ in range(TIMES):
                start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                to.copy_(source, non_blocking=pinned)
                stop.record()
                torch.cuda.synchronize()
                best = min(best, start.elapsed_time(stop) / 1e3)
            found[f"{'pinned' if pinned else 'ordinary'}_{name}"] = BYTES / best
    report = {
        "device": torch.cuda.get_device_name(),
        "date": datetime.now(UTC).date().isoformat(),
        "command": "python -m tests.calibration.host_copies OUT",
        "bytes": BYTES,
        "bytes_per_second": {name: float(f"{rate:.4g}") for name, rate in found.items()},
    }
    (out / "host_copies.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
