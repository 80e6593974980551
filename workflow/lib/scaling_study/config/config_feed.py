"""The word `feed` of a config: how much is tried to find out what the data loader costs."""

from scaling_study.common.problems import found, nearest_word, wrong

EFFORTS = {
    "quick": "one start of each variant, short windows: a minute and the starts",
    "full": "three starts, longer windows",
    "off": "nothing is tried",
}
FEED = ", ".join(EFFORTS)


def read_feed(value: object) -> str:
    """Read the word.

    Raises:
        ConfigError: it is none of them.
    """
    if value is False:  # YAML 1.1 reads off as false
        return "off"
    if isinstance(value, str) and value in EFFORTS:
        return value
    what = "is not a known word" if isinstance(value, str) else found(value)
    raise wrong(value, what, FEED, nearest_word(value, EFFORTS))
