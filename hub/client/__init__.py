"""Play a hub's episodes from Python; needs msgspec and httpx2 only.

    with Hub("http://127.0.0.1:8765") as hub:
        with hub.group("procurement", "chairs-asked-for-twice", size=8) as group:
            for episode in group:
                episode.call("search_requisitions", {"requester": "Joost"})
                episode.score("done")
        print(group.detail().lesson.advantages)

``AsyncHub`` is the same for code that awaits. Neither the server nor ``mcp`` is imported.
"""

from environments.chat import Transcript
from environments.horizons import HorizonSchedule, Phase
from environments.sampling import SamplerSpec, TaskFilter
from environments.trajectory import Trajectory, Window
from hub.client import asks
from hub.client.asynchronous import AsyncEpisode, AsyncGroup, AsyncHub
from hub.client.blocking import Episode, Group, Hub
from hub.client.errors import HubError, HubUnreachable
from hub.client.local import hub_at, local_hub
from hub.wire import CreateEpisode

__all__ = [
    "AsyncEpisode",
    "AsyncGroup",
    "AsyncHub",
    "CreateEpisode",
    "Episode",
    "Group",
    "HorizonSchedule",
    "Hub",
    "HubError",
    "HubUnreachable",
    "Phase",
    "SamplerSpec",
    "TaskFilter",
    "Trajectory",
    "Transcript",
    "Window",
    "asks",
    "hub_at",
    "local_hub",
]
