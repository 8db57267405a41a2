"""LoRA fine-tuning of a text-to-image transformer of SD3's kind, here a tiny one with random weights.

A real one comes from `SD3Transformer2DModel.from_pretrained`, its latents from the autoencoder and its embeddings from
the text encoders, all computed once. The lines that end in `# unequal` are all that the loop needs of this library.
"""

from functools import partial

import torch
from diffusers.models.transformers.transformer_sd3 import SD3Transformer2DModel
from peft import LoraConfig
from torch import nn

from unequal import Flow, Timesteps, TimestepSampler, logit_normal, masses


def tiny_transformer() -> SD3Transformer2DModel:
    """One of random weights, for latents [4, 8, 8] and texts of 6 tokens of width 16."""
    return SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=2,
        joint_attention_dim=16,
        caption_projection_dim=16,
        pooled_projection_dim=16,
        out_channels=4,
        pos_embed_max_size=8,
    )


def train(steps: int = 60, batch_size: int = 8, device: str = "cpu") -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)
    transformer = tiny_transformer().requires_grad_(False)
    nn.Module.to(transformer, device)
    transformer.add_adapter(
        LoraConfig(r=4, lora_alpha=4, target_modules=["to_k", "to_q", "to_v", "to_out.0", "proj_out"])
    )
    trained = [parameter for parameter in transformer.parameters() if parameter.requires_grad]
    latents, texts, pooled = (torch.randn(16, *shape, device=device) for shape in ((4, 1, 1), (6, 16), (16,)))

    schedule = Flow(1000, shift=3.0).to(device)  # unequal
    density = masses(partial(logit_normal, mean=0.0, std=1.0), Flow(1000), 1.0, "open")  # unequal
    timesteps = Timesteps(TimestepSampler(density))  # unequal

    optimizer, curve = torch.optim.AdamW(trained, lr=1e-2), []
    for _ in range(steps):
        chosen = torch.randint(16, (batch_size,), device=device)
        x0, noise = latents[chosen].expand(-1, -1, 8, 8), torch.randn(batch_size, 4, 8, 8, device=device)
        t, weights = timesteps.draw(batch_size, device)  # unequal
        alpha, sigma = schedule.at(t, x0)
        velocity = transformer(
            hidden_states=alpha * x0 + sigma * noise,
            timestep=schedule.model_timestep(t),
            encoder_hidden_states=texts[chosen],
            pooled_projections=pooled[chosen],
            return_dict=False,
        )[0]
        loss = ((velocity - (noise - x0)).square().mean(dim=(1, 2, 3)) * weights).mean()  # unequal
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        curve.append(loss.item())
    return curve


if __name__ == "__main__":
    print(f"loss {train()[-1]:.4f}")
