"""A Hugging Face Trainer that fits a small BERT to random sequences, without any download."""

import argparse
import os
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

from size import scaled

BATCH = scaled(16)
SHAPE = (16 * BATCH, 32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    set_seed(args.seed)
    size = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(vocab_size=500, intermediate_size=128, **size))
    rows = [{"input_ids": words, "labels": words[0] % 2} for words in torch.randint(500, SHAPE)]
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, max_steps=args.steps, per_device_train_batch_size=BATCH, seed=args.seed,
            use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        )  # fmt: skip
        done = Trainer(model, settings, train_dataset=rows).train()
    print(f"loss {done.training_loss:.4f} after {done.global_step} steps")


if __name__ == "__main__":
    main()
