"""Undo and redo: a line of settings, and where on it one stands. Knows nothing of Streamlit."""

from dataclasses import dataclass, field
from typing import Any

Setting = dict[str, Any]

_MOST_STEPS = 200


@dataclass
class History:
    """The settings before the present one and, after an undo, those after it."""

    present: Setting
    past: list[Setting] = field(default_factory=list)
    future: list[Setting] = field(default_factory=list)

    def follow(self, setting: Setting) -> None:
        """Take note of the setting on screen; a new one is a step, and ends what could be redone."""
        if setting == self.present:
            return
        self.past = [*self.past, self.present][-_MOST_STEPS:]
        self.future = []
        self.present = setting

    def undo(self) -> Setting:
        """Go a step back, and say what is to be on screen then; at the start, stay."""
        if self.past:
            self.future.append(self.present)
            self.present = self.past.pop()
        return self.present

    def redo(self) -> Setting:
        """Go a step forward again; at the end, stay."""
        if self.future:
            self.past.append(self.present)
            self.present = self.future.pop()
        return self.present
