"""The arrays of a sheet as a launcher sees them, without an emulator."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grader.records import Laid


class SheetArrays:
    """Reads inputs by their tables, and writes outputs. Shapes are the dimensions, in C order, with
    the last ones left out where an array has fewer elements."""

    def __init__(self, fd: int, arguments: Sequence[Laid | int]) -> None:
        self.fd = fd
        self.laid = {one.name: one for one in arguments if isinstance(one, Laid)}
        self.dims = [one for one in arguments if isinstance(one, int)]

    def read(self, name: str) -> NDArray[np.float32]:
        one = self.laid[name]
        count = one.size // one.piece
        table = np.frombuffer(os.pread(self.fd, 8 * count, one.table), "<u8")
        pieces = [os.pread(self.fd, one.piece, int(offset)) for offset in table]
        return self._shaped(np.frombuffer(b"".join(pieces), "<f4"))

    def write(self, name: str, values: ArrayLike) -> None:
        """All elements; a page of zeros stays untouched."""
        one = self.laid[name]
        start = int(np.frombuffer(os.pread(self.fd, 8, one.table), "<u8")[0])
        flat = np.broadcast_to(
            np.asarray(values, "<f4").ravel() if np.ndim(values) else np.asarray(values, "<f4"),
            one.size // 4,
        )
        for at in range(0, len(flat), 1024):
            if flat[at : at + 1024].any():
                os.pwrite(self.fd, flat[at : at + 1024].tobytes(), start + 4 * at)

    def _shaped(self, flat: NDArray[np.float32]) -> NDArray[np.float32]:
        shape: list[int] = []
        for size in self.dims:
            if np.prod(shape, dtype=int) * size > len(flat):
                break
            shape.append(size)
        return flat.reshape(shape) if int(np.prod(shape)) == len(flat) else flat
