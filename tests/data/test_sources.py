"""The sources, each read from small files in their true format, and what they refuse."""

import hashlib
import pickle
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import one_line
import pytest
from PIL import Image
from reading import every_image, settings
from torchvision.datasets import CIFAR10

from unequal.data import sources
from unequal.data.arrays import Cifar10
from unequal.data.preparation import prepare
from unequal.data.prepared import PreparedData
from unequal.data.source import Source
from unequal.settings.data import Data

GENERATOR = np.random.default_rng(0)
GREY = GENERATOR.integers(0, 256, (8, 8), dtype=np.uint8)
RGB = GENERATOR.integers(0, 256, (8, 8, 3), dtype=np.uint8)


def load_folder(path: Path, **changes: Any) -> Source:
    return sources.open_source(settings(source="folder", path=str(path), **changes))


def load_array(path: Path, **changes: Any) -> Source:
    return sources.open_source(settings(source="array", path=str(path), **changes))


def refusal(call: Any, *args: Any, **kwargs: Any) -> str:
    """The line of the UserError that reading the source, or its first image, raises."""
    return one_line.refusal(lambda: call(*args, **kwargs)[0])


class TestDigits:
    def test_values_and_labels(self) -> None:
        from sklearn.datasets import load_digits

        source = sources.open_source(settings())
        images = every_image(source)
        assert np.abs(images[:, 0] * (16 / 255) - load_digits().images).max() < 16 / 255 / 2 + 1e-9
        assert images.shape == (1797, 1, 8, 8) and images.dtype == np.uint8
        assert (images.min(), images.max()) == (0, 255)
        assert len(np.unique(images)) == 17  # one for each of 0 … 16
        assert source.labels is not None and source.labels.dtype == np.int64
        assert source.labels[:10].tolist() == list(range(10)) and source.classes == list("0123456789")


class TestPatches:
    @staticmethod
    def load(size: int) -> Source:
        return sources.open_source(settings(source="patches", image_size=size, channels=3))

    @pytest.mark.parametrize("size", [16, 128])
    def test_as_many_as_fit_without_overlap(self, size: int) -> None:
        source = self.load(size)
        images = every_image(source)
        assert images.dtype == np.uint8 and images.shape[1:] == (3, size, size)
        assert len(images) == 2 * (427 // size) * (640 // size)
        assert source.labels is not None and source.labels.dtype == np.int64 and source.labels.shape == (len(images),)
        assert source.classes == list("0123456789") and set(source.labels.tolist()) == set(range(10))

    def test_a_patch_is_a_square_of_its_photograph(self) -> None:
        from sklearn.datasets import load_sample_images

        images, photographs = self.load(20), load_sample_images().images
        columns, each = 640 // 20, (427 // 20) * (640 // 20)
        for number, row, column in ((0, 0, 0), (0, 3, 7), (1, 20, 31)):
            square = photographs[number][20 * row : 20 * row + 20, 20 * column : 20 * column + 20]
            assert np.array_equal(images[each * number + columns * row + column], square.transpose(2, 0, 1))

    def test_labels_know_the_photograph_and_the_look(self) -> None:
        source = self.load(16)
        assert source.labels is not None
        images, half = every_image(source).astype(float), len(source) // 2
        assert (source.labels[:half] < 5).all() and (source.labels[half:] >= 5).all()
        colours = images.mean((2, 3))
        within = sum(
            ((colours[source.labels == k] - colours[source.labels == k].mean(0)) ** 2).sum() for k in range(10)
        )
        assert within < 0.3 * ((colours - colours.mean(0)) ** 2).sum()


class TestCifar10:
    @pytest.fixture
    def batches(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, np.ndarray, list[int]]:
        """CIFAR-10's folder in its true layout with 2 images a file."""
        folder = tmp_path / CIFAR10.base_folder
        folder.mkdir()
        names = [name for name, _ in [*CIFAR10.train_list, *CIFAR10.test_list]]
        pixels = np.random.default_rng(1).integers(0, 256, (len(names), 2, 3072), dtype=np.uint8)
        sums = {}
        for number, name in enumerate(names):
            batch = {"batch_label": name, "labels": [number, 9 - number], "data": pixels[number], "filenames": ["", ""]}
            sums[name] = self.write(folder / name, batch)
        meta = {"label_names": [f"class {number}" for number in range(10)], "num_vis": 3072, "num_cases_per_batch": 2}
        md5 = self.write(folder / CIFAR10.meta["filename"], meta)
        for table in ("train_list", "test_list"):
            monkeypatch.setattr(CIFAR10, table, [[name, sums[name]] for name, _ in getattr(CIFAR10, table)])
        monkeypatch.setattr(CIFAR10, "meta", {**CIFAR10.meta, "md5": md5})
        monkeypatch.setattr(Cifar10, "count", 10)
        return tmp_path, pixels[:5].reshape(10, 3, 32, 32), [0, 9, 1, 8, 2, 7, 3, 6, 4, 5]

    @staticmethod
    def write(path: Path, content: dict[str, Any]) -> str:
        path.write_bytes(pickle.dumps(content, protocol=2))
        return hashlib.md5(path.read_bytes()).hexdigest()

    @staticmethod
    def load(path: Path, **changes: Any) -> Source:
        return sources.open_source(
            settings(source="cifar10", path=str(path), image_size=32, channels=3).model_copy(update=changes)
        )

    def test_training_images_and_labels(self, batches: tuple[Path, np.ndarray, list[int]]) -> None:
        path, pixels, labels = batches
        source = self.load(path)
        assert np.array_equal(every_image(source), pixels)
        assert source.labels is not None and source.labels.tolist() == labels
        assert source.classes[:2] == ["airplane", "automobile"] and len(source.classes) == 10

    def test_another_size_by_fit_only_and_no_grey(self, batches: tuple[Path, np.ndarray, list[int]]) -> None:
        assert every_image(self.load(batches[0], image_size=16, fit="crop")).shape == (10, 3, 16, 16)
        for changes in ({"image_size": 16}, {"channels": 1}):
            assert "cifar10 is 32 pixels wide with 3 channels" in refusal(self.load, batches[0], **changes)

    def test_download_that_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def no_network(self: CIFAR10) -> None:
            raise URLError("no route to host")

        monkeypatch.setattr(CIFAR10, "download", no_network)
        line = refusal(self.load, tmp_path / "cifar")
        assert "could not be downloaded" in line and "no route to host" in line


class TestFolder:
    def test_order_is_by_name_at_any_depth(self, tmp_path: Path) -> None:
        for value, name in enumerate(["a/z/1.png", "b.png", "c/0.png"]):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            Image.new("L", (8, 8), value).save(tmp_path / name)
        source = load_folder(tmp_path)
        assert every_image(source)[:, 0, 0, 0].tolist() == [0, 1, 2]
        assert source.labels is None


class TestSettings:
    @pytest.mark.parametrize(
        ("changes", "named"),
        [
            ({"source": "mnist"}, "data.source: 'mnist'; allowed: digits, patches, cifar10, folder, array"),
            ({"source": "folder"}, "data.path: source 'folder' needs a path; allowed without one: digits, patches"),
            ({"path": "x"}, "data.path: source 'digits' has no path; set it to null"),
            ({"fit": "crop"}, "data.fit: 'crop' has no meaning for source 'digits'; allowed: exact"),
            ({"image_size": 16}, "data: digits are 8 pixels wide with 1 channel; set image_size: 8, channels: 1"),
            ({"source": "patches", "channels": 3, "image_size": 129}, "data: patches have 3 channels and at most 128"),
            ({"source": "cifar10", "path": "x", "channels": 3}, "data: cifar10 is 32 pixels wide with 3 channels"),
        ],
    )
    def test_what_no_source_can_have_is_refused(self, changes: dict[str, Any], named: str) -> None:
        assert one_line.refusal(sources.open_source, settings(**changes)).startswith(named)

    def test_a_source_is_one_class_and_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The rows of a text file, which stand for a database or a stream."""

        class Rows(Source):
            def __init__(self, data: Data) -> None:
                super().__init__(data)
                self.rows = [line.split() for line in self.path.read_text().splitlines()]

            def __len__(self) -> int:
                return len(self.rows)

            def __getitem__(self, index: int, /) -> np.ndarray:
                size = self.data.image_size
                return np.array(self.rows[index][1:], np.uint8).reshape(1, size, size)

            @property
            def classes(self) -> list[str]:
                return sorted({row[0] for row in self.rows})

            @property
            def labels(self) -> np.ndarray:
                return np.array([self.classes.index(row[0]) for row in self.rows])

        monkeypatch.setitem(sources.SOURCES, "rows", Rows)
        pixels = np.random.default_rng(0).integers(0, 256, (12, 16))
        text = "\n".join(f"{['dog', 'cat'][n % 2]} {' '.join(map(str, row))}" for n, row in enumerate(pixels))
        (tmp_path / "rows.txt").write_text(text)
        chosen = settings(source="rows", path=str(tmp_path / "rows.txt"), image_size=4, holdout=0.25)
        facts = prepare(chosen, 0, tmp_path / "data")
        data = PreparedData.open(tmp_path / "data")
        assert (facts["classes"], facts["n"]) == (["cat", "dog"], 12)
        assert data.labels is not None
        found = {(int(label), *image.flatten().tolist()) for label, image in zip(data.labels, data.images, strict=True)}
        assert found == {(1 - n % 2, *row.tolist()) for n, row in enumerate(pixels)}


class TestFit:
    @pytest.fixture
    def wide(self, tmp_path: Path) -> Path:
        """One image of 32 × 16 pixels: black, and white in its outer quarters."""
        pixels = np.zeros((16, 32), dtype=np.uint8)
        pixels[:, :8] = pixels[:, -8:] = 255
        Image.fromarray(pixels).save(tmp_path / "a.png")
        np.save(tmp_path / "a.npy", pixels[None])
        return tmp_path

    def test_crop_keeps_the_centre(self, wide: Path) -> None:
        with Image.open(wide / "a.png") as picture:
            short_side = picture.resize((16, 8), Image.Resampling.LANCZOS)
        expected = np.asarray(short_side.crop((4, 0, 12, 8)), dtype=int)
        cropped = load_folder(wide, fit="crop")[0][0]
        assert np.abs(cropped - expected).max() <= 1 and cropped.max() < 20

    def test_resize_keeps_everything(self, wide: Path) -> None:
        row = load_folder(wide, fit="resize")[0][0, 4].astype(int)
        assert row[[0, -1]].min() > 240 and row[3:5].max() < 15

    @pytest.mark.parametrize("fit", ["crop", "resize"])
    def test_arrays_fit_as_files_do(self, wide: Path, fit: str) -> None:
        array = load_array(wide / "a.npy", fit=fit)[0]
        assert np.array_equal(array, load_folder(wide, fit=fit)[0])


class TestBadFolder:
    @pytest.mark.parametrize("name", ["a.png", "a.jpg"])
    def test_truncated(self, tmp_path: Path, name: str) -> None:
        pixels = np.random.default_rng(2).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
        assert f"{name}: not a readable image" in refusal(load_folder, tmp_path, channels=3, image_size=64)

    def test_too_large_unpacked(self, tmp_path, monkeypatch, recwarn) -> None:
        Image.new("L", (8, 8)).save(tmp_path / "a.png")
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
        assert "a.png: not a readable image (Image size (64 pixels) exceeds limit" in refusal(load_folder, tmp_path)
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
        assert load_folder(tmp_path)[0].shape == (1, 8, 8)
        assert not recwarn.list, "what Pillow warns of alone is read in silence"

    def test_a_name_chooses_no_program_for_the_content(self, tmp_path: Path) -> None:
        """Pillow would hand this to Ghostscript, whatever the file is called."""
        (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n")
        assert "cannot identify image file" in refusal(load_folder, tmp_path)

    def test_a_colour_table_that_is_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        Image.fromarray(RGB).quantize(4).save(tmp_path / "a.png")
        monkeypatch.setattr(Image.Image, "convert", broken)
        assert "a.png: not a readable image (unrecognized" in refusal(load_folder, tmp_path, channels=3)


def broken(*_: Any) -> None:
    raise ValueError("unrecognized\nraw mode")


class TestLinks:
    @pytest.fixture
    def linked(self, tmp_path: Path) -> Path:
        """Two classes of 3 images: one in a folder, one behind a link to a folder elsewhere."""
        for value, folder in enumerate(["images/a", "elsewhere"]):
            (tmp_path / folder).mkdir(parents=True)
            for number in range(3):
                Image.new("L", (8, 8), 10 * value + number).save(tmp_path / folder / f"{number}.png")
        (tmp_path / "images/b").symlink_to(tmp_path / "elsewhere")
        return tmp_path / "images"

    def test_linked_folders_are_read_as_others_are(self, linked: Path) -> None:
        source = load_folder(linked)
        assert every_image(source)[:, 0, 0, 0].tolist() == [0, 1, 2, 10, 11, 12]
        assert source.labels is not None and source.labels.tolist() == [0, 0, 0, 1, 1, 1]

    @pytest.mark.parametrize("target", ["images/a/0.png", "elsewhere/0.png", "images/b/0.png"])
    def test_no_file_is_read_twice(self, linked: Path, target: str) -> None:
        (linked / "a/9.png").symlink_to(linked.parent / target)
        said = refusal(load_folder, linked)
        assert "the same file as" in said and said.endswith("which would count twice; remove one of the two")

    def test_hard_links_are_images_of_their_own(self, linked: Path) -> None:
        (linked / "a/9.png").hardlink_to(linked / "b/0.png")
        assert len(load_folder(linked)) == 7

    @pytest.mark.parametrize("target", ["images", "images/a", "elsewhere"])
    def test_no_folder_is_read_twice(self, linked: Path, target: str) -> None:
        (linked / "b/c").symlink_to(linked.parent / target)
        assert "the same folder as" in refusal(load_folder, linked)

    def test_an_editors_lock_does_not_matter(self, linked: Path) -> None:
        (linked / ".#notes").symlink_to("someone@host.1234")
        assert len(load_folder(linked)) == 6


class TestArray:
    IMAGES = np.random.default_rng(3).integers(0, 256, (5, 3, 8, 8), dtype=np.uint8)

    def test_nchw_and_nhwc_are_the_same_images(self, tmp_path: Path) -> None:
        for layout in (self.IMAGES, self.IMAGES.transpose(0, 2, 3, 1), np.asfortranarray(self.IMAGES)):
            np.save(tmp_path / "a.npy", layout)
            images = load_array(tmp_path / "a.npy", channels=3)
            assert np.array_equal(every_image(images), self.IMAGES)
        assert isinstance(images.pixels, np.memmap), "it stays on the disk"
        for shape in ((5, 8, 8), (5, 1, 8, 8), (5, 8, 8, 1)):
            np.save(tmp_path / "a.npy", self.IMAGES[:, 0].reshape(shape))
            assert np.array_equal(every_image(load_array(tmp_path / "a.npy")), self.IMAGES[:, :1])

    def test_size_decides_between_layouts_and_nchw_otherwise(self, tmp_path: Path) -> None:
        both = np.random.default_rng(4).integers(0, 256, (2, 3, 6, 3), dtype=np.uint8)
        np.save(tmp_path / "a.npy", both)
        as_nchw = Image.fromarray(both[0].transpose(1, 2, 0)).resize((4, 4), Image.Resampling.LANCZOS)
        loaded = load_array(tmp_path / "a.npy", channels=3, image_size=4, fit="resize")[0]
        assert np.array_equal(loaded.transpose(1, 2, 0), np.asarray(as_nchw))
