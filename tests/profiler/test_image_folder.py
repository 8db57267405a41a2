"""Captions as people save them, images that stand in both folders, and the numbers of a model's classes."""

import codecs
import json
import re

import pytest
from one_line import refusal
from PIL import Image

from unequal.models.class_names import class_numbers, read_class_names, write_class_names
from unequal.profiler.image_folder import ImageFolder, refuse_shared

CAPTION = "a café, 猫 at noon"
LINE = json.dumps({"file_name": "a.png", "text": "one\u2028two"}, ensure_ascii=False)


@pytest.fixture
def folder(tmp_path):
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    return tmp_path


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (b"", "utf-8"),
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
    ],
)
def test_a_caption_is_read_as_its_mark_says(folder, mark, encoding):
    for text in (CAPTION, f"\r\n{CAPTION}\r\n", ""):
        (folder / "a.txt").write_bytes(mark + text.encode(encoding))
        assert ImageFolder.of(folder).captions() == [text.strip()]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("un café".encode("latin-1"), "a.txt: byte 6 is no utf-8 text; save it as UTF-8"),
        ("猫".encode("shift-jis"), "a.txt: byte 0 is no utf-8 text; save it as UTF-8"),
        ("a cat".encode("utf-16-le"), "a.txt: holds a zero byte, so it is no UTF-8 text"),
        (codecs.BOM_UTF16_LE + b"abc", "a.txt: byte 4 is no utf-16 text; save it as UTF-8"),
    ],
)
def test_what_is_no_text_is_refused(folder, content, said):
    (folder / "a.txt").write_bytes(content)
    assert said in refusal(ImageFolder.of(folder).captions)


@pytest.mark.parametrize(("mark", "end"), [("", ""), ("", "\n"), ("\ufeff", "\r\n\r\n")])
def test_a_list_of_captions_holds_any_text(folder, mark, end):
    (folder / "metadata.jsonl").write_bytes((mark + LINE + end).encode())
    assert ImageFolder.of(folder).captions() == ["one\u2028two"]
    (folder / "metadata.jsonl").write_bytes(LINE.replace("one", "café").encode("latin-1", "replace"))
    assert re.search(r"metadata\.jsonl: byte \d+ is no utf-8 text", refusal(ImageFolder.of(folder).captions))


def test_an_image_with_the_content_of_a_training_image_is_refused(tmp_path):
    for name, colour in (("train/1", "red"), ("train/2", "blue"), ("held/3", "blue"), ("held/4", "green")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 8), colour).save(tmp_path / f"{name}.png")
    train, held = (ImageFolder.of(tmp_path / name) for name in ("train", "held"))
    assert "held: 1 of its images are training images too (3.png)" in refusal(refuse_shared, train, held)
    (tmp_path / "held/3.png").unlink()
    refuse_shared(train, ImageFolder.of(tmp_path / "held"))


WORDNET = [f"n{number:08}" for number in range(1000)]


@pytest.mark.parametrize(
    ("names", "known", "classes", "numbers"),
    [
        (["0", "2", "10"], None, 11, [0, 2, 10]),
        (["cat", "big_dog"], {0: "Big Dog", 1: "house cat, cat"}, 2, [1, 0]),
        (["b", "a", "c"], {7: "a", 8: "b", 9: "c"}, 10, [8, 7, 9]),
        (WORDNET[::-1], None, 1000, list(range(1000))[::-1]),
    ],
)
def test_numbers_of_classes_are_matched_by_name(names, known, classes, numbers):
    assert class_numbers(names, known, classes, "here") == numbers


@pytest.mark.parametrize(
    ("names", "known", "said"),
    [
        (["1", "2"], None, "here: class 2; the model knows classes 0 … 1"),
        (["cat", "dog"], None, "here: class 'cat' has no number that the model says; name the subfolders by"),
        (["cat", "owl"], {0: "cat", 1: "dog"}, "here: class 'owl' is none of the 2 classes that the model names"),
        (["crane"], {0: "crane", 1: "crane, machine"}, "here: class 'crane' is 2 of the 2 classes"),
    ],
)
def test_numbers_that_names_do_not_say_are_asked_for(names, known, said):
    assert refusal(class_numbers, names, known, 2, "here").startswith(said)


def test_names_of_classes_are_found_where_models_have_them(tmp_path):
    assert read_class_names(tmp_path) is None
    index = {"_class_name": "DiTPipeline", "id2label": {"0": "tench", "1": "shark"}}
    (tmp_path / "model_index.json").write_text(json.dumps(index))
    assert read_class_names(tmp_path) == {0: "tench", 1: "shark"}
    write_class_names(tmp_path, ["b", "a"])
    assert read_class_names(tmp_path) == {0: "b", 1: "a"}
