"""The lines of source that a message speaks of, to be shown below it."""

from __future__ import annotations

import re
from pathlib import Path

PLACE = re.compile(r"([\w./+-]+\.(?:cuh?|hp?p?)):(\d{1,7})\b")
MOST = 3
WIDTH = 96
FILE_BYTES = 1 << 20


def lines(message: str, folder: Path | None) -> list[str]:
    """Each place `file:line` in the message, once, with the line that stands there.

    Places that are not in the folder, or beyond the end of a file, are left out.
    """
    if folder is None:
        return []
    found: list[tuple[str, str]] = []
    places = list(dict.fromkeys(PLACE.findall(message)))
    for name, number in places:
        text = _line(folder, name, int(number))
        if text and len(found) < MOST:
            found.append((f"{name}:{number}", text))
    width = max((len(place) for place, _ in found), default=0)
    return [f"{place:<{width}} | {text}"[:WIDTH] for place, text in found]


def _line(folder: Path, name: str, number: int) -> str:
    root = folder if folder.is_dir() else folder.parent
    path = root / name
    if ".." in Path(name).parts or not path.is_file() or path.is_symlink():
        return ""
    with path.open(errors="replace") as file:
        text = file.read(FILE_BYTES).splitlines()
    if not 1 <= number <= len(text):
        return ""
    line = text[number - 1].expandtabs(4)
    return "".join(char if char.isprintable() else "?" for char in line)
