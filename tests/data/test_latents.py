"""Encoded data: the same images in the same order and split, as floats that every stage takes as they are."""

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from one_line import refusal
from specs import autoencoder_of

from unequal.data.latents import makers_of, write_latents
from unequal.data.prepared import PreparedData, tensor_of, to_model_range
from unequal.diffusion.schedule import NoiseSchedule
from unequal.evaluation.profiling import Draws, profile_optimal_loss
from unequal.models.autoencoder import Autoencoder, build_autoencoder, latent_shape
from unequal.runtime import processes
from unequal.runtime.chunks import UNSTORED, Chunks
from unequal.runtime.files import read_json, write_json

CPU = torch.device("cpu")
TINY = autoencoder_of(kl_weight=0.0, images=1, batch_size=7)


@pytest.fixture(scope="module")
def autoencoder():
    return Autoencoder(build_autoencoder(TINY, 8, 1, seed=0), TINY.batch_size)


def encoded(prepared: PreparedData, autoencoder: Autoencoder, target: Path, chunks: Chunks) -> PreparedData:
    shape = latent_shape(autoencoder.net, 8, 1, "it")
    parts = chunks.each(makers_of(prepared.images, autoencoder, shape))
    write_latents(prepared, parts, shape, "abc", target)
    return PreparedData.open(target)


@pytest.fixture
def latents(tmp_path, prepared, autoencoder):
    return encoded(prepared, autoencoder, tmp_path / "latents", UNSTORED)


def test_latents_are_a_data_set_of_their_own(latents, prepared, autoencoder):
    assert latents.facts["sha256"] == sha256(latents.images.tobytes()).hexdigest()
    assert latents.images.dtype == np.float32
    np.testing.assert_allclose(latents.images, autoencoder.encode(tensor_of(prepared.images)).numpy(), atol=1e-5)
    assert latents.facts["split"] == prepared.facts["split"]
    assert latents.facts["autoencoder"] == "abc"
    assert latents.facts["range"] == [float(latents.images.min()), float(latents.images.max())]
    assert prepared.labels is not None
    np.testing.assert_array_equal(latents.labels, prepared.labels)


def test_processes_share_the_encoding_and_another_attempt_finds_it(
    latents, prepared, autoencoder, tmp_path, monkeypatch
):
    chunks = Chunks(tmp_path / "chunks")
    makers = makers_of(prepared.images, autoencoder, latents.images.shape[1:])
    assert len(makers) == 7  # 48 images in batches of 7
    monkeypatch.setattr(processes, "count", lambda: 2)
    for rank in (1, 0):
        monkeypatch.setattr(processes, "rank", lambda rank=rank: rank)
        chunks.make(makers)
    monkeypatch.setattr(Autoencoder, "encode", lambda self, images: pytest.fail("encoded again"))
    again = encoded(prepared, autoencoder, tmp_path / "again", chunks)
    np.testing.assert_array_equal(again.images, latents.images)
    assert again.facts == latents.facts


def test_the_floor_of_floats_is_that_of_the_points_that_they_are(prepared):
    pixels = tensor_of(prepared.train)
    schedule = NoiseSchedule.linear(30)
    floors = [
        profile_optimal_loss(images, schedule, Draws.of(images, 30, 3, 0, CPU))
        for images in (pixels, to_model_range(pixels))
    ]
    np.testing.assert_array_equal(*floors)


def test_pixels_are_not_taken_for_latents(latents, prepared):
    facts = read_json(latents.path / "facts.json")
    write_json(latents.path / "facts.json", facts | {"autoencoder": None, "range": [0, 255]})
    assert "images.npy: not the uint8 array of shape (48, 2, 4, 4)" in refusal(PreparedData.open, latents.path)


def test_latents_that_are_no_numbers(tmp_path, prepared):
    unsound = Autoencoder(build_autoencoder(TINY, 8, 1, seed=0), TINY.batch_size)
    unsound.scale = float("nan")
    said = refusal(encoded, prepared, unsound, tmp_path / "latents", UNSTORED)
    assert "autoencoder: the latent of image 0 is NaN or infinite" in said
