"""What a run folder is, for those who write it and those who read it.

config.json             what was asked for, whole, and the hash of the data; written first
metrics.jsonl           one line an epoch, one an evaluation (raw returns): metrics.py
tensorboard/            the same for TensorBoard: tensorboard.py
wandb/                  the same for Weights & Biases, where that is asked for: wandb.py
checkpoint.safetensors  the state to go on from: checkpoint.py
online/                 of a run that learns in an environment: what that gave, one file an epoch (tether.finetuning)
policy.safetensors      the run's policy, to ship: tether.policies
curves.png
result.json             written last, and a folder that has it is a finished run: result.py

identity.py says whether a folder is of the run that is asked for; reading.py reads a folder without JAX.
"""

RESULT_VERSION = 1  # of result.json
SWEEP_FOLDER = "_sweep"  # beside the runs of a sweep: its logs, why runs failed, and plan.json, which lists them all
FINAL = "final"  # beside it: runs with the settings that the sweep has chosen, of seeds that the choice has not seen
