"""TensorBoard's event file, written in step with the run.

tensorboardX's SummaryWriter hands events to a thread; on a full disk that thread dies, and the run would wait for it for ever.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tether.errors import TetherError


class EventFile:
    """One file a sitting. TensorBoard shows it instead of what an earlier sitting wrote past `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import SessionLog

        self.folder = folder
        with self._writing():
            folder.mkdir(parents=True, exist_ok=True)
            # tensorboardX names the file by the second; the step keeps two sittings within one apart.
            self._writer = EventsWriter(str(folder / "events"), filename_suffix=f".{step}")
        if step:
            self._write(step=step + 1, session_log=SessionLog(status=SessionLog.START))

    def add(self, step: int, values: dict[str, float]) -> None:
        from tensorboardX.proto.summary_pb2 import Summary

        self._write(step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]))

    def close(self) -> None:
        with suppress(OSError):  # every event is on the disk already, or has been reported
            self._writer.close()

    def _write(self, **content: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        with self._writing():
            self._writer.write_event(Event(wall_time=time.time(), **content))
            self._writer.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TetherError(f"cannot write to {self.folder}: {error.strerror or error}") from error
