"""The plots of a report, as SVG to stand in a page."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from environments.errors import InfrastructureFault
from environments.synthesis.diversity import Diversity
from environments.synthesis.drafts import LEVELS
from environments.synthesis.journal import EnvironmentRecord, Funnel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Locator

_DARK: Final = "#2f5d8a"
_LIGHT: Final = "#c9d8e8"
_INK: Final = "#1d2733"
_MOST_BINS: Final = 30
_NOT_FOR_A_PAGE: Final = re.compile(
    r"<\?xml.*?\?>|<!DOCTYPE.*?>|<metadata>.*?</metadata>", re.DOTALL
)


class PlotsUnavailable(InfrastructureFault):
    """matplotlib is not installed."""

    code = "PLOTS_UNAVAILABLE"


def require_matplotlib() -> None:
    """Raises ``PlotsUnavailable``, for whoever would rather know before there is what to draw."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PlotsUnavailable(
            "matplotlib is not installed", hint="pip install 'mcp-env-hub[synth]'"
        ) from error


def plots(
    records: Sequence[EnvironmentRecord], stages: Sequence[Funnel], diversity: Diversity
) -> list[str]:
    """The funnel, the difficulties, and where there are several environments how large they are.

    Raises ``PlotsUnavailable``.
    """
    require_matplotlib()
    passed = [record for record in records if record.outcome == "passed"]
    drawn = [_svg("funnel", lambda axes: _funnel(axes, stages), 0.3 * len(stages) + 1.2)]
    if passed:
        drawn.append(_svg("difficulty", lambda axes: _difficulties(axes, passed)))
    if len(passed) > 1:
        for what in ("tables", "tools", "rows", "tasks"):
            values = [getattr(record.makeup, what) for record in passed]
            drawn.append(_histogram(what, values, _bins(values), f"{what} of an environment"))
    if diversity.nearest:
        title = "similarity to the nearest environment"
        twentieths = [step / 20 for step in range(21)]
        drawn.append(_histogram("nearest", diversity.nearest, twentieths, title))
    return drawn


def _bins(values: Sequence[int]) -> Sequence[float]:
    """Edges between whole numbers, one beyond either end, at most some thirty of them."""
    least, most = min(values) - 1, max(values) + 1
    width = max(1, math.ceil((most - least + 1) / _MOST_BINS))
    return [least - 0.5 + width * step for step in range((most - least) // width + 2)]


def _histogram(name: str, values: Sequence[float], bins: Sequence[float], title: str) -> str:
    def draw(axes: Axes) -> None:
        axes.hist(values, bins=list(bins), color=_DARK, edgecolor="white")
        axes.yaxis.set_major_locator(_whole())
        if bins[-1] > 1:
            axes.xaxis.set_major_locator(_whole())
        axes.set_title(title)

    return _svg(name, draw)


def _funnel(axes: Axes, stages: Sequence[Funnel]) -> None:
    """Environments that came into each stage, and those that left it."""
    names = [one.stage for one in stages]
    axes.barh(names, [one.into for one in stages], color=_LIGHT, label="into the stage")
    axes.barh(names, [one.passed for one in stages], color=_DARK, height=0.5, label="passed")
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(_whole())
    axes.set_title("environments by stage")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _difficulties(axes: Axes, records: Sequence[EnvironmentRecord]) -> None:
    found: Counter[str] = Counter()
    for record in records:
        found.update(record.makeup.difficulties)
    axes.bar(LEVELS, [found[name] for name in LEVELS], color=_DARK)
    axes.yaxis.set_major_locator(_whole())
    axes.set_title("tasks by difficulty")


def _whole() -> Locator:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(integer=True)


def _svg(name: str, draw: Callable[[Axes], None], height: float = 2.6) -> str:
    """What ``draw`` draws. The same data give the same text."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 9, "text.color": _INK}
    ):
        figure = Figure(figsize=(4.6, height), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    return _NOT_FOR_A_PAGE.sub("", written.getvalue()).strip()
