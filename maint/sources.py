# Copyright (C) by the mpich-topo authors. See LICENSE.
"""MPICH's source: the user's tree or tarball, Debian's source package, or MPICH's repository."""

import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path

from common import (
    BUILD,
    Failure,
    Row,
    cache_dir,
    lock,
    parse_version,
    run,
    scratch,
    series_folder,
    sha256,
    step,
    supported,
    tree_version,
    versions,
)

# an entry in apt's sources: URI, suites, components, Signed-By line
Entry = tuple[str, list[str], list[str], str]


def given() -> list[Path]:
    """The trees and tarballs that $MPICH_SRC names, with colons between them."""
    text = os.environ.get("MPICH_SRC", "")
    if Path(text).exists():
        return [Path(text)] if text else []
    return [Path(word) for word in text.split(":") if word]


def source_path(path: str | None = None) -> Path:
    """The path of MPICH's source: PATH, or the first of $MPICH_SRC, or the tarball in the cache,
    which is downloaded if it is missing."""
    return Path(path) if path else next(iter(given()), None) or fetch(versions()[0])


def find(row: Row) -> "Source | None":
    """The source for a row of versions.toml, from $MPICH_SRC or the cache; None if both lack it.
    Users may also put a tarball or a tree into the cache."""
    for path in given():
        source = Source(path)
        if source.row == row:
            return source
    if "tarball" in row and (cache_dir() / row["tarball"]).is_file():
        return Source(fetch(row))  # fetch() checks it
    for version in (*row["tested"], f"{row['series']}*"):
        for name in (f"mpich-{version}", f"mpich-{version}.tar.*"):
            for path in sorted(cache_dir().glob(name), reverse=True):
                return Source(path)
    return None


def find_all() -> tuple[list["Source"], list[Row]]:
    """(sources, rows without a source) for the rows of versions.toml. If there is no source at all,
    that of the first row is downloaded."""
    found = {row["series"]: find(row) for row in versions()}
    if not any(found.values()):
        first = versions()[0]
        found[first["series"]] = Source(fetch(first))
    missing = [row for row in versions() if not found[row["series"]]]
    return [source for source in found.values() if source], missing


def no_source(row: Row) -> str:
    version = series_folder(row).name
    return f"no source: MPICH_SRC=PATH names one, make fetch VERSIONS={version} downloads it"


def content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file, f"{member.name} is not a file"
    return file.read()


def tarball_root(tar: tarfile.TarFile) -> tuple[str, str]:
    """(top folder of an MPICH tarball, version of MPICH)"""
    name = os.fsdecode(tar.name or "")
    for member in tar:
        is_version = member.isfile() and member.name.endswith("maint/version.m4")
        if is_version and member.name.count("/") <= 2:
            text = content(tar, member).decode(errors="replace")
            return member.name[: -len("maint/version.m4")], parse_version(text, name)
    raise Failure(f"{name}: not an MPICH source tarball, it has no maint/version.m4")


class Source:
    """MPICH's source: a tree or a tarball. Neither is ever written to."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.root: str | None = None  # top folder of a tarball; None: a tree
        if self.path.is_dir():
            self.version = tree_version(self.path)
        elif self.path.is_file():
            try:
                with tarfile.open(self.path) as tar:
                    self.root, self.version = tarball_root(tar)
            except (tarfile.TarError, EOFError, OSError, ValueError) as err:
                raise Failure(f"{path}: not a readable tarball: {err}") from None
        else:
            raise Failure(f"{path}: no such file or folder")
        self.row = supported(self.version, path)

    def digest(self) -> str:
        """A checksum of the content"""
        if self.root is not None:
            return sha256(self.path)
        total = hashlib.sha256()
        for folder, folders, names in os.walk(self.path):
            folders[:] = sorted(f for f in folders if f != ".git")
            for name in sorted(n for n in names if n != ".git"):
                path = os.path.join(folder, name)
                total.update(os.path.relpath(path, self.path).encode() + b"\0")
                total.update(
                    os.readlink(path).encode() if os.path.islink(path) else sha256(path).encode()
                )
        return total.hexdigest()

    def copy(self, dest: Path, only: list[str] | None = None) -> None:
        """Copy everything, or the files named in ONLY, into the folder DEST."""
        if self.root is None and only is None:
            shutil.copytree(
                self.path,
                dest,
                symlinks=True,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(".git"),  # in a submodule, .git is a file
            )
        elif self.root is None:
            for name in only or ():
                if (self.path / name).is_file():
                    (dest / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(self.path / name, dest / name)
        elif only is None:
            dest.mkdir(parents=True, exist_ok=True)
            depth = self.root.strip("/").count("/") + 1 if self.root.strip("/") else 0
            strip = f"--strip-components={depth}"
            run(["tar", "-xf", self.path, "-C", dest, "--no-same-owner", strip])
        else:
            wanted = {self.root + name: name for name in only}
            with tarfile.open(self.path) as tar:
                for member in tar:
                    if member.name in wanted and member.isfile():
                        path = dest / wanted[member.name]
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_bytes(content(tar, member))
                        path.chmod(member.mode & 0o777)


# -- downloads ------------------------------------------------------------------------------

GIT = "https://github.com/pmodels/mpich"


def fetch(row: Row) -> Path:
    """The path in the cache of the source for a row of versions.toml. If it is missing, it is
    downloaded and checked."""
    with lock("fetch", "waiting for another download of MPICH's source"):
        return fetch_debian(row) if "debian" in row else fetch_git(row)


def fetch_git(row: Row) -> Path:
    """The tree of a release in MPICH's repository, with the submodules that are needed."""
    version = row["tested"][0]
    path = cache_dir() / f"mpich-{version}"
    if path.is_dir():
        return path
    if not shutil.which("git"):
        raise Failure(f"no git to download MPICH {version} with; give it as MPICH_SRC=PATH")
    log = BUILD / "log/fetch.log"
    log.unlink(missing_ok=True)
    env = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    shallow = ["--depth", "1"]
    with scratch("fetch-") as work:
        tree = work / "mpich"
        clone = [
            ["git", "clone", "-q", *shallow, "--branch", f"v{version}", GIT, str(tree)],
        ]
        if branch := row.get("folder"):  # a branch may have changed
            clone = [
                ["git", "init", "-q", str(tree)],
                ["git", "-C", str(tree), "fetch", "-q", *shallow, GIT, row["commit"]],
                ["git", "-C", str(tree), "checkout", "-q", "FETCH_HEAD"],
            ]
        update: list[str] = [
            "git",
            "submodule",
            "update",
            "-q",
            "--init",
            *shallow,
            *row["submodules"],
        ]
        try:
            for command in clone:
                step(f"fetch MPICH {version}", command, log, env=env)
            commit = run(["git", "rev-parse", "HEAD"], cwd=tree).strip()
            if commit != row["commit"]:
                raise Failure(
                    f"{GIT}: {branch or f'v{version}'} is not what maint/versions.toml wants\n"
                    f"  expected commit {row['commit']}\n  found           {commit}"
                )
            step(f"fetch MPICH {version}, modules", update, log, cwd=tree, env=env)
        except Failure as err:
            raise Failure(
                f"could not download MPICH {version}; another way is a release tarball or tree as"
                f" MPICH_SRC=PATH, or put into {cache_dir()} as mpich-{version}.tar.gz or"
                f" mpich-{version}\n{err}"
            ) from None
        os.replace(tree, path)
    return path


# -- Debian's source package ----------------------------------------------------------------

DEBIAN_KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
DEBIAN_SUITES = {
    *("stable", "oldstable", "oldoldstable", "testing", "unstable", "sid"),
    *("bullseye", "bookworm", "trixie", "forky"),
}
SUITE = "bookworm"  # the only suite that serves the source of the version wanted


def fetch_debian(row: Row) -> Path:
    """The tarball in Debian's source package."""
    path = cache_dir() / row["tarball"]
    if path.is_file():
        if sha256(path) == row["sha256"]:
            return path
        path.unlink()
        print(f"{path}: damaged, downloading it again")
    if not shutil.which("apt-get"):
        raise Failure(
            f"no apt-get to download {row['debian']} with; get MPICH {row['tested'][0]}, a"
            " release tarball or a tree, and give it as MPICH_SRC=PATH"
        )
    with scratch("fetch-") as work:
        file = download(row, work)
        found = sha256(file)
        if found != row["sha256"]:
            raise Failure(
                f"{row['tarball']} is not what maint/versions.toml wants; removed it\n"
                f"  expected sha256 {row['sha256']}\n  found           {found}"
            )
        os.replace(file, path)
    return path


def download(row: Row, work: Path) -> Path:
    """Download with apt, which checks Debian's signature. It uses lists and settings of its own;
    the machine's sources are only read, for the address of the mirror."""
    entries = mirrors()
    if not entries:
        raise Failure(
            "no Debian mirror in /etc/apt: give MPICH's source as MPICH_SRC=PATH"
            f" (a release tarball or tree of {row['tested'][0]})"
        )
    log = BUILD / "log/fetch.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (work / name).mkdir(parents=True)
    error = None
    for number, (uri, signed_by) in enumerate(entries):
        sources = work / "mpich.sources"
        sources.write_text(
            f"Types: deb-src\nURIs: {uri}\nSuites: {SUITE}\nComponents: main\n{signed_by}\n"
        )
        options = [
            f"Dir::Etc::sourcelist={sources}",
            f"Dir::Etc::sourceparts={work / 'parts'}",
            f"Dir::State::lists={work / 'lists'}",
            f"Dir::Cache={work / 'cache'}",
            "Acquire::Languages=none",
            "Acquire::Retries=3",
        ]
        if os.geteuid() == 0:
            options.append("APT::Sandbox::User=root")  # the cache may be closed to _apt
        apt = ["apt-get", *(word for option in options for word in ("-o", option))]
        title = f"fetch MPICH {row['tested'][0]}" + (f" ({number + 1})" if number else "")
        try:
            # --error-on: without it a mirror that does not answer is only a warning
            step(f"{title}, list", [*apt, "--error-on=any", "update"], log)
            step(title, [*apt, "source", "--download-only", row["debian"]], log, cwd=work)
            return work / row["tarball"]
        except Failure as err:
            error = err
    raise Failure(
        f"could not download {row['debian']} from the mirrors of this machine; another way is"
        f" MPICH_SRC=PATH, a release tarball or tree of {row['tested'][0]}\n{error}"
    )


def mirrors(etc: Path = Path("/etc/apt")) -> list[tuple[str, str]]:
    """(URI, Signed-By line) of each Debian archive in the machine's sources, best first."""
    found: list[Entry] = []
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if path.suffix == ".sources":
            found += deb822_entries(path.read_text(errors="replace"))
        elif path.suffix == ".list" and path.is_file():
            found += one_line_entries(path.read_text(errors="replace"))
    ranked: dict[tuple[str, str], int] = {}
    for uri, suites, components, signed_by in found:
        known = {re.sub(r"(-updates|-backports|-proposed-updates)$", "", s) for s in suites}
        if not known & DEBIAN_SUITES or "main" not in components or uri.startswith("cdrom:"):
            continue
        if not signed_by and Path(DEBIAN_KEYS).is_file():
            signed_by = f"Signed-By: {DEBIAN_KEYS}"
        rank = 0 if SUITE in suites else 1 if SUITE in known else 2
        key = (uri.rstrip("/"), signed_by)
        ranked[key] = min(rank, ranked.get(key, rank))
    return sorted(ranked, key=ranked.__getitem__)


def deb822_entries(text: str) -> Iterator[Entry]:
    for stanza in re.split(r"\n\s*\n", text):
        lines = [line for line in stanza.split("\n") if not line.startswith("#")]
        fields = {
            name.lower(): value.strip()
            for name, value in re.findall(
                r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", "\n".join(lines), re.MULTILINE
            )
        }
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        signed_by = f"Signed-By: {fields['signed-by']}" if "signed-by" in fields else ""
        if fields.get("trusted", "").lower() == "yes":
            signed_by = "Trusted: yes"
        for uri in fields.get("uris", "").split():
            suites = fields.get("suites", "").split()
            yield uri, suites, fields.get("components", "").split(), signed_by


def one_line_entries(text: str) -> Iterator[Entry]:
    for line in text.split("\n"):
        match = re.match(r"\s*deb(?:-src)?\s+(?:\[(.*?)\]\s*)?(\S+)\s+(\S+)\s+([^#]+)", line)
        if match:
            options = dict(o.split("=", 1) for o in (match[1] or "").split() if "=" in o)
            signed_by = f"Signed-By: {options['signed-by']}" if "signed-by" in options else ""
            if options.get("trusted") == "yes":
                signed_by = "Trusted: yes"
            yield match[2], [match[3]], match[4].split(), signed_by
