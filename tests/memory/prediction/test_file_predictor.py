"""Files are predicted from what was named and from what earlier sessions touched together."""

from ctxmgr.memory.prediction.file_predictor import FilePredictor
from ctxmgr.memory.prediction.paths import (
    FileNames,
    imported_paths,
    named_paths,
    touched_paths,
)


def test_what_was_named_last_and_not_read_comes_first() -> None:
    """001-R002: a file that an output names is likely to be read next."""
    predictor = FilePredictor()
    predictor.touch(["src/a.py"])
    predictor.name(["docs/old.md"])
    predictor.name([f"src/x{number}.py" for number in range(20)])
    predictor.name(["src/a.py", "src/b.py"])

    first, *rest = predictor.predict(5)

    assert first.path == "src/b.py"
    assert "src/a.py" not in [each.path for each in rest]


def test_files_that_go_together_are_learnt_from_sessions() -> None:
    """001-R133: the second session gets what the first ones read beside the same file."""
    predictor = FilePredictor()
    for _ in range(3):
        predictor.begin_session()
        for path in ("models.py", "tests/test_models.py"):
            predictor.predict(3)
            predictor.touch([path])
    predictor.begin_session()
    predictor.touch(["models.py"])

    assert predictor.predict(1)[0].path == "tests/test_models.py"


def test_probabilities_follow_what_happens() -> None:
    """001-A19: what keeps coming true becomes likely, what never does becomes unlikely."""

    def after(*, comes_true: bool) -> float:
        predictor = FilePredictor()
        for number in range(40):
            path = f"src/f{number}.py"
            predictor.name([path])
            predictor.predict(3)
            for call in range(5):
                predictor.touch([path if comes_true else f"other/{number}/{call}.py"])
        predictor.name(["src/next.py"])
        return next(e.probability for e in predictor.predict(9) if e.path == "src/next.py")

    assert after(comes_true=True) > 0.5
    assert after(comes_true=False) < 0.05


def test_paths_are_found_in_commands_outputs_and_imports() -> None:
    """What a command writes into a file is not what it touches."""
    command = "cd /repo && cat <<'EOF' > new.py\nopen('inner.py')\nEOF\nsed -n 1p ./src/a.py"

    assert touched_paths(command) == ["new.py", "src/a.py"]
    assert list(named_paths("see src/a.ts, b.md and v1.2 or e.g. this")) == ["src/a.ts", "b.md"]
    assert list(imported_paths("from a.b import c\nimport d\n", suffix=".py")) == ["a/b.py", "d.py"]


def test_a_file_has_one_name() -> None:
    """A file that is called by more or less of its path is one file."""
    known = FileNames()

    assert known.one_name("packages/app/src/x.ts") == "packages/app/src/x.ts"
    assert known.one_name("src/x.ts") == "packages/app/src/x.ts"
    assert known.one_name("work/packages/app/src/x.ts") == "packages/app/src/x.ts"
    assert known.one_name("other/x.ts") == "other/x.ts"
