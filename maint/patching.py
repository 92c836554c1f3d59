# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Apply the series and the overlay to a source tree, all or nothing, and take them back.

A patched tree has a record, .mpich-topo, and no other additional file. It is JSON with checksums of
changed and new files, and with the patches, so that they can be reversed after the clone has
changed. While files are being replaced, .mpich-topo.undo holds the originals. If a run is cut
short, the next run restores them."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import (
    OVERLAY,
    REPO,
    VERSION_HEADER,
    Failure,
    apply_patches,
    overlay_files,
    series,
    series_folder,
    supported,
    topo_commit,
    touched,
    tree_version,
)

RECORD = ".mpich-topo"
UNDO = ".mpich-topo.undo"

Record = dict[str, Any]


def digest(path: Path) -> str | None:
    """sha256 of a file, None if there is no such file"""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None


def version_header() -> str:
    """The overlay's header with the version, and with the commit if it is known"""
    text, commit = (OVERLAY / VERSION_HEADER).read_text(), topo_commit()
    return re.sub(r'(MPII_TOPO_VERSION ".*)"', rf'\1 ({commit})"', text) if commit else text


def apply(tree: Path, strict: bool = False, where: Path | None = None) -> str:
    """Patch TREE. WHERE: path for messages, if TREE is a copy of it. STRICT: refuse hunks at an
    offset. Returns a line that says what was done."""
    tree = tree.absolute()
    where = where or tree
    version = tree_version(tree)
    row = supported(version, where)
    check_writable(tree)
    undone = recover(tree)
    patches, added = series(row), overlay_files()
    if not patches:
        folder = series_folder(row).relative_to(REPO)
        raise Failure(f"{where}: this is MPICH {version}, and {folder} has no patches")
    record = read_record(tree)
    texts = {patch.name: patch.read_text(errors="surrogateescape") for patch in patches}
    if record:
        return already(tree, where, record, texts, added)

    edited = sorted({name for text in texts.values() for name in touched(text)})
    for name in edited:
        if not (tree / name).is_file():
            raise Failure(f"{where}: {name} is missing; nothing was changed")
    there = [name for name in added if (tree / name).exists()]
    if there:
        raise Failure(
            f"{where}: patched by hand, or not what the series was made for: it has"
            f" {there[0]} already; nothing was changed"
        )
    uncommitted = local_changes(tree, edited)
    if uncommitted:
        raise Failure(
            f"{where}: has changes that are not committed: {' '.join(uncommitted)}; commit or stash"
            " them, then apply; nothing was changed"
        )

    with stage(tree) as work:
        for name in edited:
            copy(tree / name, work / name)
        for patch in patches:
            try:
                apply_patches(work, [patch], strict)
            except Failure as err:
                why = why_not(tree, patches, patch, str(err))
                raise Failure(f"{where}: {why}; nothing was changed") from None
        for name in added:
            copy(OVERLAY / name, work / name)
        (work / VERSION_HEADER).write_text(version_header())
        record = {
            "what": "mpich-topo applied; `make apply REVERSE=1` takes it back",
            "version": version,
            "edited": {
                name: {"before": digest(tree / name), "after": digest(work / name)}
                for name in edited
            },
            "added": {name: digest(work / name) for name in added},
            "patches": texts,
        }
        (work / RECORD).write_text(json.dumps(record, indent=1) + "\n", errors="surrogateescape")
        replace(tree, work, [*edited, *added, RECORD], [])
    return undone + f"{where}: {len(patches)} patches applied, {len(added)} files added"


def local_changes(tree: Path, names: list[str]) -> list[str]:
    """The files of NAMES that differ from the last commit, if TREE is a git checkout. After
    patching, the user's changes in them could not be distinguished from ours."""
    if not (tree / ".git").exists() or not shutil.which("git"):
        return []
    command = ["git", "--no-optional-locks", "diff", "--name-only", "-z", "HEAD", "--", *names]
    result = subprocess.run(command, cwd=tree, check=False, capture_output=True, text=True)
    if result.returncode:
        first = next(iter(result.stderr.splitlines()), "")
        raise Failure(f"{tree}: git cannot tell what is changed there: {first}")
    return result.stdout.split("\0")[:-1]


def why_not(tree: Path, patches: list[Path], failed: Path, output: str) -> str:
    """A line that says why the patch FAILED does not apply to TREE; OUTPUT: that of `patch`"""
    for patch in reversed(patches):  # a patch that can be reversed is applied already
        with tempfile.TemporaryDirectory() as work:
            for name in touched(patch.read_text(errors="surrogateescape")):
                copy(tree / name, Path(work) / name)
            try:
                apply_patches(Path(work), [patch], reverse=True)
            except Failure:
                continue
        return f"patched in part, by hand: it has {patch.name} already"
    names = re.findall(r"patching file (\S+)\n(?:(?!patching file).*\n)*?Hunk .* FAILED", output)
    where = ", ".join(dict.fromkeys(names)) or "the tree"
    return f"{failed.name} does not apply: {where} differs from MPICH {tree_version(tree)}"


def already(
    tree: Path, where: Path, record: Record, texts: dict[str, str], added: list[str]
) -> str:
    wanted = {name: digest(OVERLAY / name) for name in added}
    wanted[VERSION_HEADER] = hashlib.sha256(version_header().encode()).hexdigest()
    if record["patches"] != texts or record["added"] != wanted:
        raise Failure(
            f"{where}: another state of mpich-topo is applied; take it back first"
            " (REVERSE=1), then apply; nothing was changed"
        )
    changed = changed_since(tree, record)
    note = f"; changed since: {' '.join(changed)}" if changed else ""
    return f"{where}: already applied, nothing to do{note}"


def changed_since(tree: Path, record: Record) -> list[str]:
    after = {name: sums["after"] for name, sums in record["edited"].items()} | record["added"]
    return [name for name, value in after.items() if digest(tree / name) != value]


def reverse(tree: Path) -> str:
    """Reverse apply()."""
    tree = tree.absolute()
    tree_version(tree)
    check_writable(tree)
    undone = recover(tree)
    record = read_record(tree)
    if not record:
        return undone or f"{tree}: not applied, nothing to take back"
    changed = changed_since(tree, record)
    if changed:
        raise Failure(
            f"{tree}: changed since the patches were applied: {' '.join(changed)};"
            " nothing was changed"
        )
    with stage(tree) as work:
        for name in record["edited"]:
            copy(tree / name, work / name)
        for name in sorted(record["patches"], reverse=True):
            patch = work / name
            patch.write_text(record["patches"][name], errors="surrogateescape")
            apply_patches(work, [patch], reverse=True)
        for name, sums in record["edited"].items():
            if digest(work / name) != sums["before"]:
                raise Failure(f"{tree}: {name} cannot be restored; nothing was changed")
        replace(tree, work, list(record["edited"]), [*record["added"], RECORD])
    return f"{tree}: {len(record['patches'])} patches taken back"


# -- files ------------------------------------------------------------------------------------


@contextmanager
def stage(tree: Path) -> Iterator[Path]:
    """A temporary folder inside TREE, so that a full disk is noticed before any change, and files
    can be moved by renaming."""
    path = Path(tempfile.mkdtemp(prefix=".mpich-topo.new.", dir=tree))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def check_writable(tree: Path) -> None:
    if not os.access(tree, os.W_OK | os.X_OK):
        raise Failure(f"{tree}: no permission to write there")


def read_record(tree: Path) -> Record | None:
    path = tree / RECORD
    try:
        return json.loads(path.read_text(errors="surrogateescape"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise Failure(f"{path}: damaged; nothing was changed") from None


def copy(source: Path, dest: Path) -> None:
    dest.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, dest)
    shutil.copymode(source, dest)


def replace(tree: Path, work: Path, new: list[str], gone: list[str]) -> None:
    """Move the files NEW from WORK into TREE, and remove the files GONE. After any error or ^C,
    TREE is as before."""
    undo = work / "undo"
    undo.mkdir()
    for name in [*new, *gone]:
        if (tree / name).exists():
            copy(tree / name, undo / "files" / name)
    plan = {"new": new, "gone": gone, "folders": missing_folders(tree, new)}
    (undo / "plan.json").write_text(json.dumps(plan))
    for name in [*new, *gone]:
        parent = tree / name
        while not parent.parent.exists():
            parent = parent.parent
        if not os.access(parent.parent, os.W_OK | os.X_OK):
            raise Failure(f"{parent.parent}: no permission to write there; nothing was changed")
    os.rename(undo, tree / UNDO)
    try:
        for name in new:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(work / name, tree / name)
        for name in gone:
            (tree / name).unlink()
            remove_empty(tree, Path(name).parent)
    except BaseException:
        recover(tree)
        raise
    shutil.rmtree(tree / UNDO)


def missing_folders(tree: Path, names: list[str]) -> list[str]:
    return sorted(
        {
            str(folder)
            for name in names
            for folder in Path(name).parents
            if not (tree / folder).exists()
        }
    )


def remove_empty(tree: Path, folder: Path) -> None:
    """Remove FOLDER and its parents in TREE, as far as they are empty."""
    while folder != Path(".") and not any((tree / folder).iterdir()):
        (tree / folder).rmdir()
        folder = folder.parent


def recover(tree: Path) -> str:
    """Restore the originals if an earlier run was cut short."""
    undo = tree / UNDO
    for old in tree.glob(".mpich-topo.new.*"):
        shutil.rmtree(old, ignore_errors=True)
    if not (undo / "plan.json").is_file():
        return ""
    plan = json.loads((undo / "plan.json").read_text())
    for name in [*plan["new"], *plan["gone"]]:
        if (undo / "files" / name).exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            copy(undo / "files" / name, tree / name)
        else:
            (tree / name).unlink(missing_ok=True)
    for folder in sorted(plan["folders"], reverse=True):
        if (tree / folder).is_dir():
            (tree / folder).rmdir()
    shutil.rmtree(undo)
    return f"{tree}: undid a run that was cut short\n"
