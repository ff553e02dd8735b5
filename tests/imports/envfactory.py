"""EnvFactory's files as packs against the files as they are: the same calls, the same documents."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from environments.documents import decode, read_binding
from environments.environment import Environment
from environments.episode import Episode
from environments.importers.envfactory import EnvFactorySource, sources, tried_calls
from environments.importers.envfactory.code import Code
from environments.importers.gold import changed, pack_rows
from environments.importers.source import ImportRefused
from environments.importers.trial import LONG, try_out, trying_out
from environments.sandbox.stage import _seed
from tests.imports.arguments import arguments_for, words_of

GENERATED = 60


class Compared(NamedTuple):
    calls: int
    errors: int
    """Calls that both answer with an error."""
    left_out: int
    """Calls that the schema does not take: they never reach the code."""
    differences: list[str]


class Original:
    """The original class in a process of its own."""

    def __init__(self, file: Path, instance: str, document: Any, clock_ms: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.imports.original"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONHASHSEED": "0"},
        )  # fmt: skip
        opening = {"file": str(file), "instance": instance, "document": document}
        self.document = self.ask({**opening, "clock_ms": clock_ms})["document"]

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def sorted_deep(value: Any) -> Any:
    """Objects with their keys in order, so that two that differ in order alone are equal."""
    if isinstance(value, dict):
        return {key: sorted_deep(value[key]) for key in sorted(value)}
    return [sorted_deep(item) for item in value] if isinstance(value, list) else value


def compare(source: EnvFactorySource, folder: Path) -> Compared:
    """Import one file and play it beside the original. Raises ``ImportRefused``."""
    source.write(folder)
    code = Code(source.tools.read_text(encoding="utf-8-sig"), source.tools.name)
    tried = list(tried_calls(source._read("intermediate")))
    return try_out(folder, lambda environment: _play(environment, source, code, tried))


async def _play(
    environment: Environment, source: EnvFactorySource, code: Code, tried: Sequence[Any]
) -> Compared:
    binding = read_binding(environment.pack.path)
    layout = binding.layout
    start = pack_rows(environment.pack, layout)
    document = decode(layout, start)
    dice = random.Random(source.class_name)
    words = words_of(document)
    calls = [(tool, arguments) for tool, arguments in tried if tool in code.functions]
    names = {bound.function: bound.name for bound in binding.tools}
    for _ in range(GENERATED):
        tool = dice.choice(sorted(names))
        schema = environment.tools[names[tool]].input_schema
        calls.append((tool, arguments_for(schema, words, dice)))
    clock = environment.pack.spec.clock.start_ms
    original = Original(source.tools, code.instance, document, clock)
    episode = await Episode.start(environment, horizon=LONG)
    differences: list[str] = []
    errors = left_out = 0
    if sorted_deep(original.document) != sorted_deep(document):
        differences.append("the document it begins with")
    try:
        for number, (function, arguments) in enumerate(calls):
            moment = episode._line.moment
            step = await episode.call(names[function], arguments)
            if step.error is not None and step.error.code == "INVALID_ARGUMENTS":
                left_out += 1
                continue
            theirs = original.ask(
                {
                    "function": function,
                    "arguments": arguments,
                    "seed": _seed(moment),
                    "clock_ms": moment.clock_ms,
                }
            )
            what = f"call {number} {function}({json.dumps(arguments)[:400]})"
            if step.error is not None:
                errors += 1
                if "error" not in theirs or step.error.message not in (
                    theirs["error"],
                    theirs["error"].partition(": ")[2],
                    theirs["error"].partition(": ")[2].strip("'"),  # of a KeyError
                ):
                    told = theirs.get("error", theirs.get("result"))
                    differences.append(f"{what}: {step.error} not {told!r:.200}")
            elif sorted_deep(step.result) != sorted_deep(theirs.get("result")):
                told = theirs.get("error", theirs.get("result"))
                differences.append(f"{what}: {step.result!r:.300} not {told!r:.300}")
            mine = decode(layout, changed(layout, start, episode.changes()))
            if sorted_deep(mine) != sorted_deep(theirs["document"]):
                differences.append(f"{what}: the document is another")
                break
    finally:
        original.close()
        await episode.close()
    return Compared(len(calls), errors, left_out, differences)


def compare_all(path: Path, only: Sequence[str]) -> int:
    """Compare every environment of a checkout, and say how many are the same."""
    counts = {"same": 0, "different": 0, "refused": 0}
    total = errors = left_out = 0
    with tempfile.TemporaryDirectory() as scratch, trying_out():
        for source in sources(path):
            if not isinstance(source, EnvFactorySource) or (only and source.name not in only):
                continue
            folder = Path(scratch) / source.name
            folder.mkdir()
            try:
                compared = compare(source, folder)
            except ImportRefused as error:
                counts["refused"] += 1
                print(f"{source.name}: refused: {error.message[:200]}")
                continue
            total, errors = total + compared.calls, errors + compared.errors
            left_out += compared.left_out
            same = not compared.differences
            counts["same" if same else "different"] += 1
            print(f"{source.name}: {compared.calls} calls, {'same' if same else 'DIFFERENT'}")
            for difference in compared.differences[:5]:
                print(f"    {difference}")
    print(f"{counts}; {total} calls, {errors} answered with errors, {left_out} refused by schema")
    return 1 if counts["different"] else 0
