"""A simulated thread: its stack, and what changed on it since its last sample, as the profiler writes it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fxtio.coreprofiler.records import Frame, StackSample


@dataclass(slots=True)
class SimulatedThread:
    """A thread with a stack that is sampled.

    Attributes:
        iid: its Internal ID, or None for `?`.
        stack: the frames, the bottom one first.
    """

    iid: int | None
    stack: list[Frame] = field(default_factory=list)
    _sampled: list[Frame] = field(default_factory=list)  # the stack at the last sample
    _low: int = 0  # the lowest depth since then

    def enter(self, frame: Frame) -> None:
        """Put a frame on the stack."""
        self.stack.append(frame)

    def leave(self, count: int = 1) -> None:
        """Take frames off the stack, at most as many as there are."""
        del self.stack[max(len(self.stack) - count, 0) :]
        self._low = min(self._low, len(self.stack))

    def move(self, ip: int | None) -> None:
        """Set the instruction pointer of the top frame."""
        self.stack[-1] = Frame(self.stack[-1].function_iid, ip)
        self._low = min(self._low, len(self.stack))

    def sample(self, timestamp: int, ticks: int | None) -> StackSample | None:
        """Return a sample of what changed since the last one.

        Args:
            timestamp: the time in milliseconds.
            ticks: sampling ticks; None for `?`.

        Returns:
            The sample, or None if there are no ticks and nothing changed.
        """
        low, stack, sampled = self._low, self.stack, self._sampled
        moved = low > 0 and stack[low - 1].ip != sampled[low - 1].ip
        self._sampled, self._low = list(stack), len(stack)
        if ticks == 0 and not moved and low == len(sampled) == len(stack):
            return None
        ip = stack[low - 1].ip if moved else None
        return StackSample(self.iid, timestamp, ticks, low, len(sampled), ip, tuple(stack[low:]))
