"""Calling tools the wrong way: each must answer as a real system would, and change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from environments.check.probes import breaking, mutated, plausible
from environments.check.report import Finding, finding
from environments.check.runs import Run, oracle_plan, play, side_by_side
from environments.environment import WAIT, Environment
from environments.episode import Episode
from environments.errors import INTERNAL_ERROR
from environments.trajectory import Step

MAX_STEPS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Probe:
    """One call, and what it left behind besides its answer (empty: nothing)."""

    step: Step
    residue: str = ""

    def __str__(self) -> str:
        arguments = msgspec.json.encode(self.step.arguments).decode()
        return f"{self.step.tool} {arguments if len(arguments) <= 120 else arguments[:117] + '...'}"


async def probe(environment: Environment, runs: Sequence[Run]) -> list[Probe]:
    """Call every tool with arguments that break its schema or make no sense, alone and in the
    middle of the oracles, where all arguments but one are good."""
    probes: list[Probe] = []
    episode = await Episode.start(environment, horizon=MAX_STEPS)
    for tool in environment.tools.values():
        if tool.name == WAIT:
            continue
        schema = tool.input_schema
        probes += [
            await _try(episode, tool.name, arguments)
            for arguments in (*breaking(schema), *plausible(schema))
        ]
    await episode.close()
    seen: set[tuple[str, str]] = set()

    async def mutate(episode: Episode, name: str, arguments: dict[str, Any]) -> None:
        tool = episode.tools.get(name)
        if tool is None or name == WAIT:
            return
        for what, wrong in mutated(arguments, tool.input_schema):
            if (name, what) not in seen:
                seen.add((name, what))
                probes.append(await _try(episode, name, wrong))

    await side_by_side(
        runs, lambda run: play(environment, run.task, oracle_plan(run.task), before=mutate)
    )
    return probes


async def _try(episode: Episode, tool: str, arguments: dict[str, Any]) -> Probe:
    """Make the call and undo it."""
    mark = await episode.mark()
    clock_ms, pages = episode.clock_ms, episode.branch.encode()
    step = await episode.call(tool, arguments)
    residue = ""
    if step.error is not None:
        if episode.changes(since=mark):
            residue = f"changed {', '.join(episode.changes(since=mark).tables)}"
        elif episode.branch.encode() != pages:
            residue = "changed pages of the database"
        elif episode.clock_ms != clock_ms:
            residue = "moved the clock"
    await episode.rewind(mark)
    return Probe(step, residue)


def judge(environment: Environment, probes: Sequence[Probe]) -> list[Finding]:
    """The gates on all calls that were made, right and wrong ones."""
    failed = [probe for probe in probes if probe.step.error is not None]
    kept = [f"{probe}: answered {_code(probe)} and {probe.residue}" for probe in _residues(failed)]
    wrote: list[str] = []
    crashed: list[str] = []
    for one in failed:
        error = one.step.error
        if error is None or error.kind == "agent":
            continue
        tool = environment.tools.get(one.step.tool)
        into = wrote if error.code == "BAD_RESULT" and tool and tool.read_only else crashed
        place = f" at {error.details['where']}" if error.details.get("where") else ""
        into.append(f"{one}: {error.code}: {error.message}{place}")
    return [
        finding(
            "failing calls change nothing",
            _once(kept),
            note=f"{len(failed)} failing calls",
            hard=not environment.pack.imported,
        ),
        finding("wrong calls are answered, not crashed", _once(crashed), note=_codes(failed)),
        finding("reading tools write nothing", _once(wrote)),
        *_inside(environment, failed),
    ]


def _inside(environment: Environment, failed: Sequence[Probe]) -> Iterator[Finding]:
    """What the application of others failed on, where its server would answer with a bare 500."""
    if environment.pack.imported:
        errors = [(one, one.step.error) for one in failed if _code(one) == INTERNAL_ERROR]
        said = [f"{one}: {error.message}" for one, error in errors if error is not None]
        yield finding("no tool fails inside", _once(said), hard=False)


def broken_tools(probes: Sequence[Probe]) -> frozenset[str]:
    """Tools that crashed, hung or ended their worker: the pack fails for it anyway, and more calls
    of them would only take time."""
    return frozenset(
        one.step.tool
        for one in probes
        if one.step.error is not None and one.step.error.kind == "environment"
    )


def _residues(probes: Sequence[Probe]) -> Iterator[Probe]:
    for one in probes:
        agents = [change for change in one.step.changes if change.changes]
        if one.residue:
            yield one
        elif agents:
            tables = ", ".join(sorted({table for change in agents for table in change.changes}))
            yield Probe(one.step, f"changed {tables}")


def _code(probe: Probe) -> str:
    return probe.step.error.code if probe.step.error else "no error"


def _codes(probes: Sequence[Probe]) -> str:
    codes = sorted({_code(probe) for probe in probes})
    return f"{len(codes)} error codes: {', '.join(codes)}" if codes else "no call failed"


def _once(problems: Sequence[str]) -> list[str]:
    """One problem a tool and code is enough to read."""
    first: dict[tuple[str, str], str] = {}
    for problem in problems:
        tool, what = problem.split(" ", 1)[0], problem.split("}: ", 1)[-1][:40]
        first.setdefault((tool, what), problem)
    return list(first.values())
