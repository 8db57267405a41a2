"""Settings of samplers: each kind builds what its keys say, says what it needs of the base, and refuses the rest."""

from typing import Any, get_args

import numpy as np
import pytest
from one_line import refusal
from pydantic import TypeAdapter, ValidationError
from specs import recipe_of

from unequal.diffusion.schedule import NoiseSchedule
from unequal.errors import UserError
from unequal.settings.densities import Sampler
from unequal.settings.recipe import RangeRecipe
from unequal.settings.samplers import AnySampler, Slot
from unequal.timesteps.building import BaseMeasurements, build_sampler, sampler_inside
from unequal.timesteps.densities import DENSITIES, mirror
from unequal.timesteps.draws import Independent, LowDiscrepancy, Mirrored, Stratified
from unequal.timesteps.groups import timestep_groups
from unequal.timesteps.learning import AdaptiveSampler, EasyToHardSampler
from unequal.timesteps.partition import Partition, TimestepRange, equal_log_snr
from unequal.timesteps.samplers import within

T = 60
t = np.arange(T)
SCHEDULE = NoiseSchedule.linear(T)
LOSSES = np.random.default_rng(3).gamma(2.0, size=(T, 4)) + 0.05
SLOTS = Partition([(0, 3), (4, 9), (10, 24), (25, 59)])
BASE = BaseMeasurements(loss=LOSSES.mean(1), losses=LOSSES, slots=SLOTS)
MEASURING = {"refresh_images": 100, "images_per_bin": 3}
CURRICULUM = {"ramp_images": 100, "uniform_share": 0.2}
#: Every kind, with keys and the probabilities at its end but for their sum.
KINDS: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "uniform": ({}, np.ones(T)),
    "near_noise": ({"power": 1.5}, (t + 0.5) ** 1.5),
    "near_data": ({"power": 0.5}, (T - t - 0.5) ** 0.5),
    "loss": ({"unbiased": True}, LOSSES.mean(1)),
    "slots": ({}, np.repeat(1 / SLOTS.lengths, SLOTS.lengths)),
    "curriculum": (
        CURRICULUM | {"target": "noise_rate"},
        0.2 / T + 0.8 * (1 - SCHEDULE.sigma.numpy()) / (1 - SCHEDULE.sigma.numpy()).sum(),
    ),
    "asymmetric": ({"boundary": 0.5, "ratio": 3.0}, np.where(t < 30, 3.0, 1.0)),
    "easy_to_hard": ({"clusters": 4, "patience_images": 10}, (t >= equal_log_snr(SCHEDULE, 4)[-1].first) * 1.0),
    "loss_second_moment": (
        {"history": 4, "uniform_share": 0.0, "warm_start": True},
        np.sqrt(np.square(LOSSES).mean(1)),
    ),
    "adaptive": (MEASURING, np.ones(T)),
    "info_noise": ({"warmup_images": 100}, np.ones(T)),
}


def settings(density: str, **keys: object) -> Sampler:
    return TypeAdapter(AnySampler).validate_python({"density": density} | keys)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_is_built_as_its_keys_say(kind: str) -> None:
    keys, weights = KINDS[kind]
    sampler = build_sampler(settings(kind, **keys), SCHEDULE, BASE)
    np.testing.assert_allclose(sampler.probabilities, weights / weights.sum(), rtol=1e-12)
    assert sampler.unbiased == keys.get("unbiased", kind in ("loss_second_moment", "adaptive"))


def test_every_kind_is_tried_here() -> None:
    kinds = {
        kind for one in get_args(get_args(AnySampler)[0]) for kind in get_args(one.model_fields["density"].annotation)
    }
    assert kinds == {*KINDS, "slot", *DENSITIES}, "a new kind needs an entry in KINDS: its keys, and its probabilities"


@pytest.mark.parametrize(
    ("kind", "keys", "needs"),
    [
        (kind, keys, ("loss",) if kind == "loss" else ("slots",) if kind in ("slots", "adaptive") else ())
        for kind, (keys, _) in KINDS.items()
        if kind != "loss_second_moment"
    ]
    + [
        ("adaptive", MEASURING | {"bins": 4}, ()),
        ("loss_second_moment", {}, ()),
        ("loss_second_moment", {"warm_start": True}, ("losses",)),
    ],
)
def test_what_a_sampler_needs_is_all_that_it_needs(kind: str, keys: dict[str, Any], needs: tuple[str, ...]) -> None:
    chosen = settings(kind, **keys)
    assert chosen.needs == needs
    alone = BaseMeasurements(**{name: BASE.of(name) for name in needs})
    assert len(build_sampler(chosen, SCHEDULE, alone).probabilities) == T
    if needs:
        with pytest.raises(UserError, match=rf"^sampler\.density: '{kind}': needs the base's profile, and there"):
            build_sampler(chosen, SCHEDULE)


DRAWS = {"independent": Independent, "low_discrepancy": LowDiscrepancy, "mirrored": Mirrored, "stratified": Stratified}
#: Densities that go with fewer draws than `independent`, `low_discrepancy` and `mirrored`, or with more.
INSIDE_OR_LEARNED = ("easy_to_hard", "loss_second_moment", "adaptive", "info_noise")
SPREAD = ("independent", "low_discrepancy")


def draws_of(density: str) -> tuple[str, ...]:
    if density in INSIDE_OR_LEARNED:
        return SPREAD
    return (*SPREAD, "mirrored", "stratified") if density == "slots" else (*SPREAD, "mirrored")


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("density", KINDS)
def test_every_draw_goes_with_every_density_or_is_refused(density: str, draw: str) -> None:
    if draw not in draws_of(density):
        with pytest.raises(ValidationError, match="Input should be 'independent'"):
            settings(density, **KINDS[density][0], draw=draw)
        return
    plain, sampler = (
        build_sampler(settings(density, **KINDS[density][0] | keys), SCHEDULE, BASE) for keys in ({}, {"draw": draw})
    )
    assert type(sampler) is type(plain)
    assert type(sampler.draw) is DRAWS[draw]
    np.testing.assert_array_equal(sampler.density, plain.density)
    counts = np.zeros(T)
    for seed in range(40):  # 16,000 draws, in pairs at worst: a share scatters by 0.6 %
        counts += np.bincount(sampler.sample(np.random.default_rng(seed).random((4, 400))).timesteps, minlength=T)
    np.testing.assert_allclose(counts / counts.sum(), sampler.at(0), atol=0.02)


def test_the_default_draw_is_independent_but_for_the_adaptive_density() -> None:
    for density, (keys, _) in KINDS.items():
        expected = "low_discrepancy" if density == "adaptive" else "independent"
        assert settings(density, **keys).draw == expected


@pytest.mark.parametrize("density", [*KINDS, "slot"])
@pytest.mark.parametrize("key", ["unbiased", "normalised"])
def test_weights_go_with_every_density_where_they_have_a_meaning(density: str, key: str) -> None:
    never = {
        "unbiased": ("slot", "easy_to_hard", "info_noise"),
        "normalised": ("slot", "curriculum", *INSIDE_OR_LEARNED),
    }[key]
    keys = KINDS.get(density, ({}, None))[0] | {key: True}
    if density in never:
        with pytest.raises(ValidationError, match="Input should be False"):
            settings(density, **keys)
        return
    sampler = build_sampler(settings(density, **keys), SCHEDULE, BASE)
    if key == "unbiased":
        np.testing.assert_allclose(sampler.probabilities * sampler.importance(sampler.horizon), 1 / T)
    else:
        np.testing.assert_array_equal(sampler.known_loss, BASE.loss)


def test_speeds_sampler_is_an_asymmetric_density_whose_batches_are_mirrored() -> None:
    keys: dict[str, Any] = {"boundary": 0.7, "ratio": 5.0}
    sampler = build_sampler(settings("asymmetric", **keys, draw="mirrored", unbiased=True), SCHEDULE)
    plain = build_sampler(settings("asymmetric", **keys), SCHEDULE).probabilities
    mirrored = np.bincount(mirror(SCHEDULE), weights=plain, minlength=T)
    np.testing.assert_array_equal(sampler.probabilities, (plain + mirrored) / 2)


def test_the_difficulty_curriculums_clusters_are_the_known_ones() -> None:
    """Twenty of the linear schedule, from the noise end."""
    sampler = build_sampler(settings("easy_to_hard", clusters=20, patience_images=10), NoiseSchedule.linear(1000))
    assert isinstance(sampler, EasyToHardSampler)
    opened = [int((sampler.opened(stage) > 0).sum()) for stage in range(20)]
    lengths = np.diff([0, *opened]).tolist()
    assert (lengths[:3], lengths[-3:], sum(lengths)) == ([50, 51, 55], [5, 2, 2], 1000)


def test_in_a_shorter_training_what_changes_changes_earlier() -> None:
    half = settings("curriculum", **CURRICULUM, target="noise_rate").shortened(0.5)
    assert (half.model_dump()["ramp_images"], half.model_dump()["uniform_share"]) == (50, 0.2)
    quarter = settings("easy_to_hard", clusters=4, patience_images=10).shortened(0.25)
    assert quarter.model_dump()["patience_images"] == 2
    eighth = settings("info_noise", warmup_images=100, bins=7).shortened(0.125)
    assert (eighth.model_dump()["warmup_images"], eighth.model_dump()["bins"]) == (12, 7)
    assert settings("near_noise", power=1.5).shortened(0.5) == settings("near_noise", power=1.5)


def test_a_gaussian_target_lies_where_it_is_put() -> None:
    sampler = build_sampler(settings("curriculum", **CURRICULUM, target="gaussian", mean=0.5, std=0.05), SCHEDULE)
    assert sampler.probabilities.argmax() == 30


def test_bins_are_equal_intervals_of_log_snr() -> None:
    sampler = build_sampler(settings("adaptive", **MEASURING, bins=5), SCHEDULE)
    assert isinstance(sampler, AdaptiveSampler)
    assert sampler.bins == equal_log_snr(SCHEDULE, 5)


def test_inside_a_range_a_slot_is_uniform() -> None:
    sampler = sampler_inside(Slot(density="slot"), TimestepRange(20, 29), SCHEDULE)
    np.testing.assert_allclose(sampler.probabilities, ((t >= 20) & (t <= 29)) / 10)
    assert not sampler.unbiased


def test_all_timesteps_can_be_drawn_as_experts_for_groups_by_snr_draw_them_together() -> None:
    sampler = sampler_inside(Slot(density="slot", intervals=4), TimestepRange(0, T - 1), SCHEDULE)
    groups = [group.range for group in timestep_groups("snr", SCHEDULE, 4, 0.5)]
    expected = np.mean([within(group, T) for group in groups], axis=0)
    np.testing.assert_allclose(sampler.probabilities, expected, rtol=1e-12)


def test_inside_a_range_and_over_all_timesteps_other_samplers_draw() -> None:
    said = refusal(build_sampler, settings("slot"), SCHEDULE)
    assert said.startswith("sampler.density: 'slot': lies inside a range, and this")
    inside = refusal(sampler_inside, settings("loss"), TimestepRange(20, 29), SCHEDULE)
    assert inside.startswith("sampler.density: 'loss' covers all timesteps; allowed inside a")


def test_a_training_inside_a_range_has_no_other_sampler() -> None:
    recipe = recipe_of(images=10).model_dump()
    assert RangeRecipe.model_validate(recipe | {"sampler": {"density": "slot", "intervals": 2}}).sampler.intervals == 2
    with pytest.raises(ValidationError, match="Input should be 'slot'"):
        RangeRecipe.model_validate(recipe | {"sampler": {"density": "uniform"}})
    with pytest.raises(ValidationError, match="unbiased"):
        RangeRecipe.model_validate(recipe | {"sampler": {"density": "slot", "unbiased": True}})


@pytest.mark.parametrize(
    ("kind", "keys", "base", "complaint"),
    [
        ("loss", {}, {"loss": np.ones(59)}, "the profile has 59 timesteps, the model 60"),
        ("loss", {}, {"loss": np.where(t == 5, np.nan, 1.0)}, "the loss profile holds nan at t = 5; losses are finite"),
        ("loss", {}, {"loss": np.zeros(T)}, "timestep weights must be finite, not negative and not all 0"),
        ("loss", {"unbiased": True}, {"loss": np.where(t == 5, 0.0, 1.0)}, "unbiased: true cannot be had where p = 0"),
        ("slots", {}, {"slots": Partition([(0, 99)])}, "the slots end at t = 99, the model at t = 59: they are"),
        ("adaptive", MEASURING, {"slots": Partition([(0, 49)])}, "the slots end at t = 49, the model at t = 59: they"),
        ("adaptive", MEASURING | {"bins": 50}, {}, "of 50 bins, number 2 from the data end is empty: schedule"),
        ("easy_to_hard", {"clusters": 50, "patience_images": 1}, {}, "of 50 clusters, number 2 from the data end is"),
        ("loss_second_moment", {"warm_start": True}, {"losses": np.ones((59, 2))}, "the profile has 59 timesteps"),
    ],
)
def test_samplers_that_cannot_be_built_are_refused(
    kind: str, keys: dict[str, Any], base: dict[str, Any], complaint: str
) -> None:
    said = refusal(build_sampler, settings(kind, **keys), SCHEDULE, BaseMeasurements(**base))
    assert said.startswith(f"sampler.density: '{kind}': {complaint}")


@pytest.mark.parametrize(
    ("kind", "keys", "images", "complaint"),
    [
        ("curriculum", CURRICULUM | {"target": "noise_rate"}, 99, "sampler.ramp_images: 100 is longer than the trai"),
        ("easy_to_hard", {"clusters": 4, "patience_images": 10}, 30, "sampler.patience_images: the hardest cluster wo"),
        ("info_noise", {"warmup_images": 100}, 100, "sampler.warmup_images: 100 leave nothing of the 100 images"),
    ],
)
def test_what_changes_must_end_within_the_training(
    kind: str, keys: dict[str, Any], images: int, complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        settings(kind, **keys).check(images, plain_epsilon=True)
    settings(kind, **keys).check(images + 1, plain_epsilon=True)


def test_a_warm_start_takes_plain_losses_of_epsilon_and_enough_of_them() -> None:
    warm, cold = settings("loss_second_moment", warm_start=True), settings("loss_second_moment")
    warm.check(10, plain_epsilon=True)
    cold.check(10, plain_epsilon=False)
    with pytest.raises(ValueError, match="allowed for prediction epsilon with loss_weight none"):
        warm.check(10, plain_epsilon=False)
    warm.check_profile(10, learned_variance=False)
    cold.check_profile(0, learned_variance=True)
    with pytest.raises(ValueError, match="the profile has 9 losses of a timestep, the history takes 10"):
        warm.check_profile(9, learned_variance=False)
    with pytest.raises(ValueError, match=r"allowed with network\.variance: fixed"):
        warm.check_profile(10, learned_variance=True)


def test_what_learns_from_errors_needs_losses_whose_weight_is_known() -> None:
    chosen = settings("info_noise", **KINDS["info_noise"][0])
    chosen.check_weight(fixed=True)
    chosen.check_profile(0, learned_variance=False)
    with pytest.raises(ValueError, match="'info_noise' divides the loss by its weight, which is learned"):
        chosen.check_weight(fixed=False)
    with pytest.raises(ValueError, match=r"allowed with network\.variance: fixed$"):
        chosen.check_profile(0, learned_variance=True)
