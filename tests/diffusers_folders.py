"""Tiny pipelines with random weights in the form in which diffusers keeps true ones, and images for them."""

from pathlib import Path

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DiTPipeline,
    DiTTransformer2DModel,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
    UNet2DModel,
)
from PIL import Image
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    PreTrainedModel,
    T5Config,
    T5EncoderModel,
    T5Tokenizer,
)

BETAS = np.linspace(1e-3, 0.2, 24).tolist()


def write_images(folder: Path, count: int, seed: int = 0, size: int = 8, channels: int = 1) -> Path:
    """Images of noise, named in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    for number in range(count):
        pixels = generator.integers(0, 256, (size, size, channels), dtype=np.uint8)
        Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(folder / f"{number:02}.png")
    return folder


def write_captions(folder: Path) -> Path:
    """A text beside each image."""
    for file in folder.glob("*.png"):
        file.with_suffix(".txt").write_text(f"a picture number {int(file.stem)}", encoding="utf-8")
    return folder


def unet2d(classes: int | None = None, seed: int = 0) -> UNet2DModel:
    torch.manual_seed(seed)
    return UNet2DModel(
        sample_size=8, in_channels=1, out_channels=1, block_out_channels=(8, 16), norm_num_groups=4, layers_per_block=1,
        down_block_types=("DownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "UpBlock2D"),
        attention_head_dim=4, num_class_embeds=classes,
    )  # fmt: skip


def ddpm(folder: Path, seed: int = 0, classes: int | None = None, **scheduler: object) -> Path:
    """A DDPMPipeline on 24 timesteps."""
    config = {"num_train_timesteps": 24, "trained_betas": BETAS, **scheduler}
    DDPMPipeline(unet2d(classes, seed), DDPMScheduler(**config)).save_pretrained(folder)
    return folder


def autoencoder(channels: int = 4) -> AutoencoderKL:
    """From 16 × 16 pixels to latents of 8 × 8."""
    return AutoencoderKL(
        block_out_channels=(4, 8), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, norm_num_groups=2, latent_channels=channels, scaling_factor=0.5,
        shift_factor=0.1, mid_block_add_attention=False,
    )  # fmt: skip


def dit(folder: Path) -> Path:
    """A DiTPipeline of three classes, with a learned variance."""
    torch.manual_seed(0)
    net = DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=4, in_channels=4, out_channels=8, num_layers=1, sample_size=8,
        patch_size=2, num_embeds_ada_norm=3, norm_num_groups=2,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(std=0.2)
    DiTPipeline(net, autoencoder(), DDPMScheduler(num_train_timesteps=24)).save_pretrained(folder)
    return folder


#: Widths of tiny text encoders: CLIP's, CLIP's with a projection, T5's.
CLIP, BIG_CLIP, T5 = 8, 16, 24


def clip_tokenizer() -> CLIPTokenizer:
    """Tokenize single letters."""
    letters = [chr(code) for code in range(33, 127)]
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={word: number for number, word in enumerate(words)}, merges=[], model_max_length=24)


def clip(width: int, kind: type = CLIPTextModel) -> PreTrainedModel:
    """A text encoder of random weights."""
    tokens = len(clip_tokenizer())
    return kind(
        CLIPTextConfig(
            vocab_size=tokens,
            hidden_size=width,
            intermediate_size=width,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=24,
            projection_dim=width,
            eos_token_id=tokens - 1,
            bos_token_id=tokens - 2,
        )
    )


def t5_tokenizer() -> T5Tokenizer:
    """Tokenize single letters."""
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", -9.0), ("▁", -2.0)]
    return T5Tokenizer(vocab=[*pieces, *((chr(code), -3.0) for code in range(33, 127))], extra_ids=0)


def t5() -> T5EncoderModel:
    """A text encoder of random weights."""
    return T5EncoderModel(
        T5Config(vocab_size=len(t5_tokenizer()), d_model=T5, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    )


def unet_of_texts(**further: object) -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=8, block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        **further,
    )  # fmt: skip


def stable_diffusion(folder: Path, seed: int = 0) -> Path:
    """A StableDiffusionPipeline that predicts v."""
    torch.manual_seed(seed)
    StableDiffusionPipeline(
        vae=autoencoder(),
        text_encoder=clip(CLIP),
        tokenizer=clip_tokenizer(),
        unet=unet_of_texts(cross_attention_dim=CLIP),
        scheduler=DDIMScheduler(num_train_timesteps=24, beta_schedule="scaled_linear", prediction_type="v_prediction"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    ).save_pretrained(folder)
    return folder


def stable_diffusion_xl(folder: Path) -> Path:
    """A StableDiffusionXLPipeline."""
    torch.manual_seed(0)
    StableDiffusionXLPipeline(
        vae=autoencoder(),
        text_encoder=clip(CLIP),
        text_encoder_2=clip(BIG_CLIP, CLIPTextModelWithProjection),
        tokenizer=clip_tokenizer(),
        tokenizer_2=clip_tokenizer(),
        unet=unet_of_texts(
            cross_attention_dim=CLIP + BIG_CLIP,
            addition_embed_type="text_time",
            addition_time_embed_dim=4,
            projection_class_embeddings_input_dim=BIG_CLIP + 6 * 4,
        ),
        scheduler=EulerDiscreteScheduler(num_train_timesteps=24),
        add_watermarker=False,
    ).save_pretrained(folder)
    return folder


def stable_diffusion_3(folder: Path, with_t5: bool = True) -> Path:
    """A StableDiffusion3Pipeline, with its largest text encoder or without."""
    torch.manual_seed(0)
    net = SD3Transformer2DModel(
        sample_size=8, in_channels=4, num_layers=1, attention_head_dim=4, num_attention_heads=2, joint_attention_dim=T5,
        caption_projection_dim=8, pooled_projection_dim=CLIP + BIG_CLIP, out_channels=4, pos_embed_max_size=8,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(std=0.2)
    StableDiffusion3Pipeline(
        transformer=net,
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=autoencoder(),
        text_encoder=clip(CLIP, CLIPTextModelWithProjection),
        tokenizer=clip_tokenizer(),
        text_encoder_2=clip(BIG_CLIP, CLIPTextModelWithProjection),
        tokenizer_2=clip_tokenizer(),
        text_encoder_3=t5() if with_t5 else None,
        tokenizer_3=t5_tokenizer() if with_t5 else None,
    ).save_pretrained(folder)
    return folder


def flux(folder: Path) -> Path:
    """A FluxPipeline with a guidance input, with a shift that depends on the size."""
    torch.manual_seed(0)
    net = FluxTransformer2DModel(
        in_channels=16, num_layers=1, num_single_layers=1, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=T5, pooled_projection_dim=CLIP, guidance_embeds=True, axes_dims_rope=(2, 2, 4),
    )  # fmt: skip
    FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(
            use_dynamic_shifting=True, base_image_seq_len=4, max_image_seq_len=64
        ),
        vae=autoencoder(),
        text_encoder=clip(CLIP),
        tokenizer=clip_tokenizer(),
        text_encoder_2=t5(),
        tokenizer_2=t5_tokenizer(),
        transformer=net,
    ).save_pretrained(folder)
    return folder
