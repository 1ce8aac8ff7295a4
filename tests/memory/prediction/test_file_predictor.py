"""Files are predicted from what was named and from what earlier sessions touched together."""

from ctxmgr.memory.prediction.file_predictor import FilePredictor
from ctxmgr.memory.prediction.paths import (
    FileNames,
    imported_paths,
    named_paths,
    touched_paths,
)
from ctxmgr.memory.prediction.related_files import RelatedFiles
from ctxmgr.memory.prediction.source_imports import imports_of


def test_what_was_named_last_and_not_read_comes_first() -> None:
    """001-R002: a file that an output names is likely to be read next."""
    session = FilePredictor().begin_session()
    session.touch(["src/a.py"])
    session.name(["docs/old.md"])
    session.name([f"src/x{number}.py" for number in range(20)])
    session.name(["src/a.py", "src/b.py"])

    first, *rest = session.predict(5)

    assert first.path == "src/b.py"
    assert "src/a.py" not in [each.path for each in rest]


def test_files_that_go_together_are_learnt_from_sessions() -> None:
    """001-R133: the second session gets what the first ones read beside the same file."""
    predictor = FilePredictor()
    for _ in range(3):
        session = predictor.begin_session()
        for path in ("models.py", "tests/test_models.py"):
            session.predict(3)
            session.touch([path])
        session.end()
    session = predictor.begin_session()
    session.touch(["models.py"])

    assert session.predict(1)[0].path == "tests/test_models.py"


def test_a_prediction_between_two_calls_counts_once() -> None:
    """A chat without calls asks before every prompt: that is one outcome, and bounded."""

    def weights_after(questions: int) -> list[float]:
        predictor = FilePredictor()
        session = predictor.begin_session()
        session.name(["src/a.py", "src/b.py"])
        for _ in range(questions):
            session.predict(1)
        session.touch(["src/b.py"])
        session.end()
        return predictor.weights

    assert weights_after(20) == weights_after(1) != weights_after(0)


def test_files_that_were_committed_together_are_predicted() -> None:
    """001-R133: the history of the project speaks before any session was seen."""
    related = RelatedFiles()
    related.take_commits([("shop/price.py", "tests/test_price.py")] * 3 + [("shop/mail.py",)])
    related.take_commits([[f"generated/{number}.py" for number in range(50)] + ["shop/price.py"]])
    session = FilePredictor(related).begin_session()
    session.name(["shop/mail.py"])
    session.name([f"src/x{number}.py" for number in range(40)])
    session.touch(["shop/price.py"])

    found = {each.path: each for each in session.predict(50)}

    assert found["tests/test_price.py"].why == "changed together in commits"
    assert found["tests/test_price.py"].probability > found["shop/mail.py"].probability
    assert not any(path.startswith("generated/") for path in found)


def test_names_of_a_large_commit_are_not_kept() -> None:
    """It says nothing about two files: an import of a whole tree costs neither time nor memory."""
    related = RelatedFiles()

    related.take_commits([[f"vendor/{number}.py" for number in range(50)], ["src/a.py"]])

    assert related.name("lib/vendor/1.py") == "lib/vendor/1.py"
    assert related.name("lib/src/a.py") == "src/a.py"


def test_files_beside_a_file_have_reasons() -> None:
    """001-R053: imports, what imports the file, and what was committed with it."""
    related = RelatedFiles()
    related.take_commits([("src/a.py", "docs/a.md")] * 2 + [("src/a.py", "once.md")])
    related.take_imports("src/a.py", ["src/b.py"])
    related.take_imports("src/c.py", ["src/a.py", "src/d.py"])
    related.take_imports("src/c.py", ["src/a.py"])

    beside = related.beside("/workspace/src/a.py", 10)

    assert [(each.path, each.why) for each in beside] == [
        ("src/b.py", "imported by src/a.py"),
        ("docs/a.md", "changed with src/a.py in 2 of 3 commits"),
        ("src/c.py", "imports src/a.py"),
    ]
    assert related.beside("src/d.py", 10) == []


def test_probabilities_follow_what_happens() -> None:
    """001-A19: what keeps coming true becomes likely, what never does becomes unlikely."""

    def after(*, comes_true: bool) -> float:
        session = FilePredictor().begin_session()
        for number in range(40):
            path = f"src/f{number}.py"
            session.name([path])
            session.predict(3)
            for call in range(5):
                session.touch([path if comes_true else f"other/{number}/{call}.py"])
        session.name(["src/next.py"])
        return next(e.probability for e in session.predict(9) if e.path == "src/next.py")

    assert after(comes_true=True) > 0.5
    assert after(comes_true=False) < 0.05


def test_paths_are_found_in_commands_outputs_and_imports() -> None:
    """What a command writes into a file is not what it touches."""
    command = "cd /repo && cat <<'EOF' > new.py\nopen('inner.py')\nEOF\nsed -n 1p ./src/a.py"

    assert touched_paths(command) == ["new.py", "src/a.py"]
    assert list(named_paths("see src/a.ts, b.md and v1.2 or e.g. this")) == ["src/a.ts", "b.md"]
    assert list(imported_paths("from a.b import c\nimport d\n", suffix=".py")) == ["a/b.py", "d.py"]


def test_imports_are_parsed() -> None:
    """001-R053: over several lines, relative, conditional; text that only looks like one is not."""
    python = (
        '"""from fake import doc"""\nif True:\n    from .clock import (\n        now,\n    )\n'
        "from .. import base\nimport a.b as c, d\n"
    )
    script = (
        "import x from '../lib/x';\nexport {\n  y,\n} from './y.js';\nimport react from 'react';\n"
        "const q = require('./q');\n// import z from './z'\n"
    )

    assert imports_of("src/shop/main.py", python) == (
        "src/shop/clock.py",
        "src/shop/clock/now.py",
        "src/base.py",
        "a/b.py",
        "d.py",
    )
    assert imports_of("src/app/main.ts", script) == ("src/lib/x.ts", "src/app/y.ts", "src/app/q.ts")
    assert imports_of("src/app/main.js", script)[0] == "src/lib/x.js"
    assert imports_of("README.md", python) == ()


def test_a_file_has_one_name() -> None:
    """A file that is called by more or less of its path is one file."""
    known = FileNames()

    assert known.one_name("packages/app/src/x.ts") == "packages/app/src/x.ts"
    assert known.one_name("src/x.ts") == "packages/app/src/x.ts"
    assert known.one_name("work/packages/app/src/x.ts") == "packages/app/src/x.ts"
    assert known.one_name("other/x.ts") == "other/x.ts"


def test_the_folder_of_a_file_does_not_count() -> None:
    """001-R133: what was named last comes first; most files lie beside some other."""
    session = FilePredictor().begin_session()
    session.name(["a/named.py", "b/named_last.py"])
    session.touch(["a/read.py"])

    assert [each.path for each in session.predict(2)] == ["b/named_last.py", "a/named.py"]
