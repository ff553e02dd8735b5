"""From what an episode changed and answered to its reward."""

from environments.verifier.reward import RewardMode, reward_of, unset
from environments.verifier.scoring import Evidence, score_episode

__all__ = ["Evidence", "RewardMode", "reward_of", "score_episode", "unset"]
