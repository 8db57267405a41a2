"""A loop of PyTorch alone that trains a small network to predict ε, by timesteps that learn from its losses.

Improved-diffusion's sampler draws p ∝ √E[L²] and weights losses back, Min-SNR's weight is multiplied with it. The lines
that end in `# unequal` are all that the loop needs of this library.
"""

import torch
from torch import Tensor, nn

from unequal import LossSecondMomentSampler, NoiseSchedule, Timesteps, loss_weights

T = 200


class Denoiser(nn.Module):
    """Predicts ε of points in the plane."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x_t: Tensor, timesteps: Tensor) -> Tensor:
        noise: Tensor = self.layers(torch.cat([x_t, timesteps[:, None] / T], dim=1))
        return noise


def train(steps: int = 300, batch_size: int = 64, device: str = "cpu") -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)
    net, curve = Denoiser().to(device), []
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)

    schedule = NoiseSchedule.linear(T).to(device)  # unequal
    sampler = LossSecondMomentSampler(T, history=2, uniform_share=0.01, unbiased=True)  # unequal
    timesteps = Timesteps(sampler, loss_weights=loss_weights("min_snr", "epsilon", schedule.snr, gamma=5.0))  # unequal

    for _ in range(steps):
        x0 = 0.2 * torch.randn(batch_size, 2, device=device) + torch.tensor([1.0, -1.0], device=device)
        noise = torch.randn_like(x0)
        t, weights = timesteps.draw(batch_size, device)  # unequal
        alpha, sigma = schedule.at(t, x0)
        errors = (net(alpha * x0 + sigma * noise, t) - noise).square().mean(dim=1)
        loss = (errors * weights).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        timesteps.learn(errors)  # unequal
        curve.append(loss.item())
    return curve


if __name__ == "__main__":
    print(f"loss {train()[-1]:.4f}")
