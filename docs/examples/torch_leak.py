"""PyTorch: a validation loop that keeps the graph of each batch.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 cushim record -o leak.cushim python3 torch_leak.py
    cushim report leak.cushim

The sum of the losses needs a gradient, so it keeps the graph of each batch alive.
"""
import torch

BATCH, STEPS, CHECKS = 1 << 18, 10, 40


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(BATCH, device="cuda"))

    def forward(self, x):
        return torch.relu(x * self.weight)


def train(model, optimizer):
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.ones(BATCH, device="cuda")).mean()
        loss.backward()
        optimizer.step()


def validate(model):
    total = 0
    for _ in range(CHECKS):  # torch.no_grad() is missing
        total = total + model(torch.ones(BATCH, device="cuda")).mean()
    return total.item()


model = torch.nn.Sequential(*(Layer() for _ in range(4)))
train(model, torch.optim.AdamW(model.parameters()))
print("validated:", validate(model))
