"""Train neuralforecast's TSMixerx on seeded synthetic series.

The model, its data loader and its training are neuralforecast's own (Lightning on one CPU process,
AdamW, dropout); only the series are made up here. A seed makes a different data set and a
different model: a study gives each member its own.

The defaults make a small model, of a kind that is often trained many at once: a step takes some
milliseconds. For larger steps raise --ff-dim and --batch-size.
"""

import argparse
import logging
import warnings

import numpy as np
import pandas as pd
import torch
from neuralforecast import NeuralForecast
from neuralforecast.models import TSMixerx

DAY = 24  # observations in a day: the series are hourly
WEEK = 7 * DAY


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description="Train TSMixerx on synthetic series.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--series", type=int, default=8, help="number of series")
    parser.add_argument("--length", type=int, default=1000, help="observations per series")
    parser.add_argument("--input-size", type=int, default=24, help="observations the model sees")
    parser.add_argument("--horizon", type=int, default=12, help="observations it forecasts")
    parser.add_argument("--ff-dim", type=int, default=32, help="width of the feature mixing layers")
    parser.add_argument("--batch-size", type=int, default=32, help="windows of all series per step")
    parser.add_argument("--steps", type=int, default=500, help="training steps")
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout rate")
    parser.add_argument("--seed", type=int, default=1, help="seed of the series and of the model")
    return parser.parse_args()


def synthetic_series(series: int, length: int, seed: int) -> pd.DataFrame:
    """Make hourly series with a daily and a weekly season, a trend and noise.

    Returns:
        One row per series and hour in the columns that neuralforecast expects: unique_id, ds, y.
    """
    rng = np.random.default_rng(seed)
    hours = np.arange(length)
    daily, weekly, phase, trend = rng.uniform(0.5, 2.0, size=(4, series, 1))
    values = (
        daily * np.sin(2 * np.pi * (hours / DAY + phase))
        + weekly * np.sin(2 * np.pi * (hours / WEEK + phase))
        + trend * hours / length
        + rng.normal(scale=0.2, size=(series, length))
    )
    return pd.DataFrame(
        {
            "unique_id": np.repeat(np.arange(series), length),
            "ds": np.tile(hours, series),
            "y": values.ravel(),
        }
    )


def main() -> None:
    """Fit one model and print its last training loss."""
    args = parse_arguments()
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message=".*LeafSpec")  # Lightning's own use of torch
    model = TSMixerx(
        h=args.horizon,
        input_size=args.input_size,
        n_series=args.series,
        n_block=2,
        ff_dim=args.ff_dim,
        dropout=args.dropout,
        windows_batch_size=args.batch_size,
        max_steps=args.steps,
        val_check_steps=args.steps,
        random_seed=args.seed,
        optimizer=torch.optim.AdamW,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    forecast = NeuralForecast(models=[model], freq=1)
    forecast.fit(synthetic_series(args.series, args.length, args.seed))
    _, loss = forecast.models[0].train_trajectories[-1]
    print(f"seed {args.seed}: loss {loss:.4f} after {args.steps} steps")


if __name__ == "__main__":
    main()
