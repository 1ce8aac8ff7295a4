"""The commands behind the tools ``ls``, ``grep`` and ``find``. Pure.

    rg      if the sandbox has it: ripgrep's syntax, .gitignore respected, .git/ skipped
    git     otherwise, in a repository: the files that git does not ignore, searched with grep
    neither grep and find on everything but .git/

The outputs have one form, whichever of them ran: lines as ``grep -rn`` and ``find`` print them.
Without ripgrep, patterns are those of Perl (``grep -P``), which agree with ripgrep's in all that
models write; where grep has no ``-P``, extended regular expressions.

Every script is given its words as arguments, so that no path or pattern is read as shell.
"""

from typing import Final

LINE_CHARS_MAX: Final = 2_000
"""Of a matching line, as ripgrep prints it: a minified file has lines of megabytes."""

NO_MATCHES: Final = "no matches\n"
NO_FILES: Final = "no files\n"
SEPARATOR: Final = "\0"
"""Stands in the output of ``ls`` between the names and the ignored ones."""

_EXISTS: Final = """
[ -e "$1" ] || [ -L "$1" ] || { printf '%s\\n' "$1: no such file or directory"; exit 2; }
"""

_GIT: Final = "git -c safe.directory='*'"
"""In a sandbox, the files of a repository often belong to another user."""

_LISTED_BY_GIT: Final = f"""
listed_by_git() {{
    [ -d "$1" ] && {_GIT} ls-files -- "$1" >/dev/null 2>&1 &&
        ! {_GIT} check-ignore -q -- "$1" 2>/dev/null
}}
git_files() {{ {_GIT} ls-files -z -co --exclude-standard -- "$1" 2>/dev/null; }}
"""

_RG: Final = "rg --no-config --color never --hidden --no-require-git --glob '!.git' --sort path"

_GREP: Final = f"""
{_EXISTS}
{_LISTED_BY_GIT}
pattern=$2 glob=$3 fold=$4
if command -v rg >/dev/null 2>&1; then
    set -- "$1" --no-heading --with-filename --line-number
    [ -n "$fold" ] && set -- "$@" -i
    case $glob in
        '') ;;
        */*) set -- "$@" --glob "$glob" ;;
        *) set -- "$@" --type-add "asked:$glob" --type asked ;;
    esac
    where=$1
    shift
    exec {_RG} --max-columns {LINE_CHARS_MAX} --max-columns-preview "$@" -e "$pattern" -- "$where"
fi
where=$1
printf x | grep -P x >/dev/null 2>&1 && kind=-P || kind=-E
set -- -nIHs "$kind"
[ -n "$fold" ] && set -- "$@" -i
printf x | grep "$@" -e "$pattern" >/dev/null
[ $? -le 1 ] || exit 2
[ -n "$glob" ] && set -- "$@" --include="${{glob##*/}}"
if listed_by_git "$where"; then
    git_files "$where" | xargs -0 -r grep "$@" -e "$pattern" --
    [ $? -eq 0 ] || exit 1
else
    exec grep -r --exclude-dir=.git "$@" -e "$pattern" -- "$where"
fi
"""

_FIND: Final = f"""
{_EXISTS}
{_LISTED_BY_GIT}
name=$2
if command -v rg >/dev/null 2>&1; then
    if [ -n "$name" ]; then
        exec {_RG} --files --type-add "asked:$name" --type asked -- "$1"
    fi
    exec {_RG} --files -- "$1"
fi
if listed_by_git "$1"; then
    [ "$1" = . ] && before=./ || before=
    git_files "$1" | tr '\\0' '\\n' | while IFS= read -r file; do
        case ${{file##*/}} in ${{name:-*}}) ;; *) continue ;; esac
        if [ -e "$file" ] || [ -L "$file" ]; then printf '%s%s\\n' "$before" "$file"; fi
    done
    exit 0
fi
if [ -n "$name" ]; then
    exec find "$1" -name .git -prune -o ! -type d -name "$name" -print
fi
exec find "$1" -name .git -prune -o ! -type d -print
"""

_LS: Final = f"""
ls -1Ap -- "$1" || exit
[ -d "$1" ] || exit 0
printf '\\0'
cd -- "$1" && ls -1A | {_GIT} check-ignore --stdin 2>/dev/null
exit 0
"""

_PAGE: Final = 'tail -n "+$2" -- "$1" | head -n "$3" | head -c "$4"'


def grep_command(pattern: str, *, path: str, glob: str | None, ignore_case: bool) -> list[str]:
    """Search files; it ends with 0 if lines match, with 1 if none does."""
    return ["sh", "-c", _GREP, "sh", path, pattern, glob or "", "i" if ignore_case else ""]


def find_command(path: str, *, name: str | None) -> list[str]:
    """List the files below a folder; ripgrep ends with 1 if there are none."""
    return ["sh", "-c", _FIND, "sh", path, name or ""]


def ls_command(path: str) -> list[str]:
    """List a folder, and after ``SEPARATOR`` the entries that git ignores."""
    return ["sh", "-c", _LS, "sh", path]


def page_command(path: str, *, offset: int, lines: int, size: int) -> list[str]:
    """Print some lines of a file, and not more than some bytes of them."""
    return ["sh", "-c", _PAGE, "sh", path, str(offset), str(lines), str(size)]


def listing(output: str) -> str:
    """Return the output of ``ls_command`` as the agent sees it."""
    names, _, hidden = output.partition(SEPARATOR)
    ignored = set(hidden.splitlines())
    shown = [
        line
        for line in names.splitlines(keepends=True)
        if line.rstrip("\n").rstrip("/") not in ignored | {".git"}
    ]
    if ignored:
        shown.append(f"[ignored by .gitignore: {', '.join(sorted(ignored))}]\n")
    return "".join(shown) or "no files\n"
