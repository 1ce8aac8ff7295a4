"""The switches of the watchers: every algorithm can be turned off by itself (PG-31). Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSwitches:
    """What the watchers use. All of it, by default."""

    tier1: bool = True
    """Off: every topic is scored, whatever its triggers."""
    patterns: bool = True
    paths: bool = True
    keywords: bool = True
    code: bool = True
    language: bool = True
    mentions: bool = True
    urls: bool = True
    sentiment_shift: bool = True

    tier2: bool = True
    """Off: what Tier 1 passes is not scored, and counts as similar."""
    tfidf: bool = True
    bm25: bool = True
    jaccard: bool = True
    minhash: bool = True
    sentiment: bool = True

    gate: bool = True
    """Off: what the gate would be asked about is activated."""
    output_steering: bool = True
    """Off: the agent's answers are not observed."""


ALL_ON = WatcherSwitches()
