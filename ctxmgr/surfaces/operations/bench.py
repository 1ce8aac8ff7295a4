"""``ctxmgr bench``: run one of the benchmarks. Imports it when it runs."""

import logging
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxmgr.errors import Incorrect
from ctxmgr.surfaces.operation import Param

if TYPE_CHECKING:
    from ctxmgr.app import App
    from ctxmgr.bench.report import Report

_log = logging.getLogger(__name__)


async def bench(
    app: "App",
    name: Annotated[
        Literal[
            "stores",
            "core",
            "economy",
            "proxy",
            "surfaces",
            "audit",
            "knowledge",
            "experience",
            "memory",
        ],
        Param("Which benchmark."),
    ],
    folder: Annotated[
        Path | None,
        Param(
            "For economy and proxy: a folder of recorded sessions; for knowledge: one of question"
            " sets; for memory: one with both, as sessions and retrieval."
        ),
    ] = None,
    *,
    quick: Annotated[bool, Param("A short run with rough figures.")] = False,
    report_only: Annotated[bool, Param("Exit with 0 even if a target is missed.")] = False,
    histories: Annotated[
        int | None, Param("For stores: number of random histories to compare the stores on.")
    ] = None,
    steps: Annotated[
        int | None, Param("For experience: timesteps in the log that is queried.")
    ] = None,
    url: Annotated[
        str | None, Param("For proxy: the URL of a running proxy, to measure instead of ours.")
    ] = None,
    upstream_port: Annotated[
        int | None, Param("For proxy with --url: the port to which that proxy forwards.")
    ] = None,
    picture: Annotated[
        Path | None, Param("For economy: write a picture of the longest session here.")
    ] = None,
) -> "Report":
    """Measure ctxmgr against the simplest alternative.

    Both run in turns in one process, and targets are ratios of the two. With -v, progress is also
    printed where there is no terminal.
    """
    module = import_module(f"ctxmgr.bench.{name}.run")
    given = {
        "folder": folder,
        "picture_file": picture,
        "steps": steps,
        "url": url,
        "upstream_port": upstream_port,
    }
    options = {option: value for option, value in given.items() if value is not None}
    if folder is not None and name not in {"economy", "knowledge", "memory", "proxy"}:
        raise Incorrect(f"the {name} benchmark takes no folder; leave it out")
    if picture is not None and name != "economy":
        raise Incorrect("--picture draws recorded sessions; use it with `ctxmgr bench economy`")
    if steps is not None and name != "experience":
        raise Incorrect("--steps sizes a log; use it with `ctxmgr bench experience`")
    if (url is not None or upstream_port is not None) and name != "proxy":
        raise Incorrect("--url names a proxy; use it with `ctxmgr bench proxy`")

    def say(text: str) -> None:
        app.say(text)
        _log.info("%s", text)

    report: Report = await module.run(quick=quick, histories=histories, say=say, **options)
    return replace(report, report_only=report_only)
