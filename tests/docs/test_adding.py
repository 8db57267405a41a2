"""The pages that say how to add something are carried out, line by line, in a copy of the project."""

import re
import shlex
from contextlib import chdir
from pathlib import Path

import pytest
import yaml
from harness.projects import copy_of_repository, run
from harness.starting import NOBODY
from pages import HOW_TO, Block, blocks, named
from test_commands import CHECKS
from test_snippets import merged

from unequal.settings.strict import read_yaml

#: Modules whose programs take seconds.
QUICK = ("pytest", "stages.", "unequal.pipeline.")
#: Subcommands that take seconds.
QUICK_COMMANDS = (["schema"], ["check"])


#: Pages that are carried out in every run; they stand for the others.
OFTEN = {"add-a-loss-weight", "add-a-stage"}


@pytest.mark.slow
@pytest.mark.usefixtures("warm_start")
@pytest.mark.parametrize(
    "page",
    [page if page.stem in OFTEN else pytest.param(page, marks=pytest.mark.thorough) for page in HOW_TO],
    ids=named,
)
def test_what_a_page_adds_works(page, tmp_path):
    project = copy_of_repository(tmp_path)
    for block in blocks(page, "bash", "diff", "python", "yaml"):
        STEPS[block.language](project, block)


def edit(project: Path, block: Block) -> None:
    """Carry out the hunks of a diff, each at the one place where its lines stand."""
    assert block.title, block.id
    file = project / block.title
    text = file.read_text(encoding="utf-8")
    for hunk in re.split(r"^@@.*\n", block.text, flags=re.MULTILINE):
        lines = hunk.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        after = "".join(line[1:] for line in lines if line[0] != "-")
        assert text.count(before) == 1, f"{block.id}: {block.title} has no such lines, or several times:\n{before}"
        text = text.replace(before, after)
    file.write_text(text, encoding="utf-8")


def set_or_create(project: Path, block: Block) -> None:
    assert block.title, block.id
    file = project / block.title
    if file.exists():
        text = yaml.safe_dump(merged(read_yaml(file), yaml.safe_load(block.text)), sort_keys=False)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = block.text
    file.write_text(text, encoding="utf-8")


def create_or_run(project: Path, block: Block) -> None:
    if block.title is None:
        call(project, "python", "-c", block.text)
        return
    file = project / block.title
    assert not file.exists(), f"{block.id}: {block.title} is there already"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(block.text, encoding="utf-8")


def command(project: Path, block: Block) -> None:
    """Run what is quick; of all else, see that there is what it names."""
    for line in block.text.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        if program == "python" and arguments[1].startswith(QUICK):
            call(project, program, *arguments)
        elif program == "unequal" and arguments[:1] in QUICK_COMMANDS:
            call(project, "python", "-m", program, *arguments)
        else:
            with chdir(project):
                CHECKS[program](arguments)


def call(project: Path, *words: str) -> None:
    run(project, *words, environment={"MLFLOW_TRACKING_URI": NOBODY})


STEPS = {"bash": command, "diff": edit, "python": create_or_run, "yaml": set_or_create}
