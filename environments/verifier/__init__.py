"""From what an episode changed, called and answered to its reward."""

from environments.verifier.plan import Mixture, RewardMode, read_plan
from environments.verifier.reward import (
    FORMAT_REWARD,
    Conduct,
    MalformedPolicy,
    is_malformed,
    reward_of,
    unset,
)
from environments.verifier.scoring import Attempt, changes_of, score_episode

__all__ = [
    "FORMAT_REWARD",
    "Attempt",
    "Conduct",
    "MalformedPolicy",
    "Mixture",
    "RewardMode",
    "changes_of",
    "is_malformed",
    "read_plan",
    "reward_of",
    "score_episode",
    "unset",
]
