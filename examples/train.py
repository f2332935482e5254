# SPDX-License-Identifier: Apache-2.0
"""Training with PyTorch in which a checkpoint is one line: nothing is saved or loaded by this program.

  ckpt-run python3 train.py
  ckpt-restore ckpt-train-PID.img       after a failure, in the middle of the loop
"""
import os
import sys

import torch

import libckpt as ckpt


def batches(device, start):
    """Made from the step's number, as a stand-in for a data set."""
    step = start
    while True:
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(64, 32, generator=generator)
        yield x.to(device), x.sum(dim=1, keepdim=True).to(device)
        step += 1


def main(steps):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    series = "CKPT_RESTART_COUNT" in os.environ  # ckpt-run --image (train.sbatch) makes the images itself
    for step, (x, y) in zip(range(steps), ckpt.reopen(lambda start: batches(device, start))):
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, loss.item(), flush=True)
        if not series and ckpt.checkpoint(every="10m").restored:
            print("continued from the image", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10000)
