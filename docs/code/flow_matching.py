"""A flow-matching loop with two experts: SD3's density of times, shifted, and a boundary that is given as a time.

Both experts are trained by one loop, each on the timesteps of its own; a loop for one of them draws from its range
alone. The lines that end in `# unequal` are all that the loop needs of this library.
"""

from functools import partial

import torch
from torch import Tensor, nn

from unequal import Experts, Flow, LowDiscrepancy, Timesteps, TimestepSampler, logit_normal, masses


class Velocity(nn.Module):
    """Predicts ε − x0 of points in the plane, from x_t and 1000·s."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x_t: Tensor, time: Tensor) -> Tensor:
        velocity: Tensor = self.layers(torch.cat([x_t, time[:, None] / 1000], dim=1))
        return velocity


def train(steps: int = 300, batch_size: int = 64, device: str = "cpu") -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)

    schedule = Flow(1000, shift=3.0).to(device)  # unequal
    density = masses(partial(logit_normal, mean=0.0, std=1.0), Flow(1000), 1.0, "open")  # unequal
    timesteps = Timesteps(TimestepSampler(density, draw=LowDiscrepancy()))  # unequal
    net = Experts([Velocity(), Velocity()], borders=[875.0]).to(device)  # unequal

    optimizer, curve = torch.optim.AdamW(net.parameters(), lr=1e-2), []
    for _ in range(steps):
        x0 = 0.2 * torch.randn(batch_size, 2, device=device) + torch.tensor([1.0, -1.0], device=device)
        noise = torch.randn_like(x0)
        t, weights = timesteps.draw(batch_size, device)  # unequal
        alpha, sigma = schedule.at(t, x0)
        errors = (net(alpha * x0 + sigma * noise, schedule.model_timestep(t)) - (noise - x0)).square().mean(dim=1)
        loss = (errors * weights).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        curve.append(loss.item())
    return curve


if __name__ == "__main__":
    print(f"loss {train()[-1]:.4f}")
