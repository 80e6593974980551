"""Arrays of numbers, and how intervals are computed, in words."""

import numpy as np
from numpy.typing import NDArray

INTERVAL = (
    "95%, from joint draws on the log scale: the spreads between starts are learnt from all"
    " launches and process counts of the machine together, and what the machine drifted between the"
    " jobs of a race is drawn, too; none where no launch has two starts"
)
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
