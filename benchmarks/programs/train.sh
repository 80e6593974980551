#!/bin/bash
# Train a model in a folder of its own; train.sh SEED
set -e
mkdir -p "run-$1"
python plain.py --seed "$1" --steps 600 > "run-$1/log"
mv "plain-$1.pt" "run-$1/model.pt"
