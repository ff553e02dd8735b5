"""Play 64 episodes of every environment at a time by a rule, and write their trajectories."""

import argparse
import asyncio
import random
import re
from pathlib import Path

import msgspec

from hub.client import AsyncEpisode, AsyncHub, hub_at


async def play(episode: AsyncEpisode) -> None:
    dice, seen = random.Random(f"{episode.task} {episode.place.repetition}"), ["A-1"]
    for _ in range(8):  # any tool, with ids that were seen, and 1 for what is no text
        tool = dice.choice(await episode.tools())["function"]
        needed, known = tool["parameters"].get("required", ()), tool["parameters"]["properties"]
        texts = {n: dice.choice(seen) for n in needed if known[n].get("type") == "string"}
        answer = await episode.call(tool["name"], dict.fromkeys(needed, 1) | texts)
        seen += re.findall(r'"([A-Z]+-[\w-]+)"', episode.observation(answer))
    await episode.score("done")


async def rollout(url: str) -> bytes:
    async with AsyncHub(url) as hub:
        for environment in await hub.environments():
            tasks = [task.id for task in await hub.tasks(environment.name)] * 8
            groups = [await hub.group(environment.name, task, size=8) for task in tasks[:8]]
            await asyncio.gather(*(play(episode) for group in groups for episode in group))
            await asyncio.gather(*(group.close() for group in groups))
        return b"\n".join([msgspec.json.encode(run) async for _, run in hub.trajectories()])


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--url")
parser.add_argument("--out", type=Path, required=True)
options = parser.parse_args()
with hub_at(options.url) as address:
    options.out.write_bytes(asyncio.run(rollout(address)))
