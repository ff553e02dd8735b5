"""What is kept of a run once it is closed: its trajectory, and the transcript its client gave.

A trajectory is written down whole when its episode is closed, so that it can be read after its
pack has changed.
"""

from __future__ import annotations

import msgspec

from environments.episode import Episode
from environments.record import Provenance, trajectory_of
from environments.trajectory import Trajectory
from hub.ledger import EpisodeRow, Records
from hub.wire import Transcript

TRAJECTORIES, TRANSCRIPTS = "trajectory", "transcript"


class Trajectories:
    """Trajectories and transcripts by episode."""

    def __init__(self, ledger: Records) -> None:
        self._ledger = ledger

    async def transcribe(self, episode_id: str, transcript: Transcript) -> None:
        """Keep what the policy saw and said, instead of what was kept before."""
        await self._ledger.keep(TRANSCRIPTS, episode_id, msgspec.json.encode(transcript))

    async def of(self, episode: Episode, row: EpisodeRow | None) -> Trajectory:
        """The run so far; ``row`` says on what terms it was begun."""
        said = await self._ledger.document(TRANSCRIPTS, episode.id)
        transcript = None if said is None else msgspec.json.decode(said, type=Transcript)
        return trajectory_of(episode, _provenance(row, transcript))

    async def keep(self, episode: Episode, row: EpisodeRow | None) -> bytes:
        """Write the trajectory of a closed episode down; answers its line of JSON."""
        line = msgspec.json.encode(await self.of(episode, row))
        await self._ledger.keep(TRAJECTORIES, episode.id, line)
        return line

    async def kept(self, episode_id: str) -> bytes | None:
        """The line that was written down."""
        return await self._ledger.document(TRAJECTORIES, episode_id)


def _provenance(row: EpisodeRow | None, transcript: Transcript | None) -> Provenance:
    said = Provenance()
    if row is not None:
        enrolled = row.enrolled
        said = Provenance(
            group=row.group,
            repetition=enrolled.repetition,
            policy=enrolled.policy_version,
            training_step=enrolled.training_step,
            window=enrolled.window,
        )
    if transcript is None:
        return said
    return msgspec.structs.replace(
        said,
        messages=transcript.messages,
        calls=transcript.calls,
        tokens=transcript.tokens,
        window=transcript.window or said.window,
    )
