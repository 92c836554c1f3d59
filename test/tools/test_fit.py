# Copyright (C) by the mpich-topo authors. See LICENSE.
"""topo-tune fit: rules and regrets from tables of times."""

import io
import json
import math
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from inprocess import run_tool

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "bench"), str(REPO / "maint")]

from topo_tune import cli, fit, grammar, points, smooth, tree
from topo_tune.points import Where

NAMES = "collective,ranks,bytes,algorithm,time_us,hosts,placement\n"


def ring_us(ranks: int, size: int) -> float:
    return (ranks - 1) * (20 + size / 100)


def brucks_us(ranks: int, size: int) -> float:
    return math.log2(ranks) * 22 + (ranks - 1) * size / 60


def table(ranks: tuple[int, ...] = (4, 8, 16), placement: str = "block") -> str:
    """Two algorithms, the one better for short blocks and the other for long ones."""
    return NAMES + "".join(
        f"allgather,{n},{size},{name},{us(n, size):.3f},{n},{placement}\n"
        for n in ranks
        for size in (2**k for k in range(4, 17, 2))
        for name, us in (("ring", ring_us), ("brucks", brucks_us))
    )


def run(tmp_path: Path, text: str, *words: str) -> Any:
    path = tmp_path / "times.csv"
    path.write_text(text)
    return run_tool("topo-tune", cli.cli, "fit", path, *words, cwd=tmp_path)


def test_rules_choose_what_was_faster(tmp_path: Path) -> None:
    done = run(tmp_path, table(), "-o", "tuning.json")
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "tuning.json").read_text()
    errors, warnings = grammar.check(text)
    assert not errors and not warnings
    tuning = json.loads(text)
    for ranks in (4, 8, 16):
        for size in (2**k for k in range(4, 17, 2)):
            call = grammar.Call("allgather", ranks, size)
            of = {"ring": ring_us(ranks, size), "brucks": brucks_us(ranks, size)}
            chosen = grammar.select(tuning, call).short
            assert of[chosen] <= 1.1 * min(of.values()), (ranks, size)
    # beyond what was measured the outermost hold
    assert grammar.select(tuning, grammar.Call("allgather", 1000, 10**6)).short == "ring"
    again = run(tmp_path, table(), "-o", "again.json")
    assert again.stdout == done.stdout
    assert (tmp_path / "again.json").read_text() == text


def test_regret_at_held_out_points(tmp_path: Path) -> None:
    text = table() + table(placement="cyclic").partition("\n")[2]
    done = run(tmp_path, text, "--default", "brucks")
    assert done.returncode == 0
    for words in ("size, between others", "hosts, between others", "placement, all"):
        assert words in done.stdout
    path = tmp_path / "times.csv"
    (group,) = fit.groups(points.read_csv(str(path))).items()
    found = list(fit.regrets(*group, ["brucks"]))
    inside = [r.loss for r in found if r.inside]
    default = [r.default for r in found if r.inside]
    assert len(inside) == 5 * 6 + 7 * 2 + 42  # sizes, hosts, placements
    assert sum(inside) / len(inside) < 0.05 < sum(default) / len(default)
    # a held-out point is not looked at: with other times there, the same is chosen
    measured = dict(group[1])
    where = Where(8, 8, 1024, "block")
    known = {w: of for w, of in measured.items() if w.num_bytes != 1024}
    chosen = smooth.best(smooth.Surface(known).scores([where])[0])
    loss = measured[where][chosen] - 1
    assert any(r.held_out == "size" and r.loss == pytest.approx(loss) for r in found)


def test_unknown_is_not_chosen() -> None:
    """An algorithm that was measured once, far away, is not better than one that is known here."""
    measured = {Where(8, 8, 2**k): {"a": 1.0, "b": 1.5} for k in range(3, 10)}
    measured[Where(4096, 4096, 2**24)] = {"c": 1.0, "b": 1.01}
    scores = smooth.Surface(measured).scores([Where(8, 8, 64)])[0]
    assert smooth.best(scores) == "a" and smooth.best(scores, {"b", "c"}) == "b"


def test_tree_with_a_default_holds_where_it_was_measured() -> None:
    default = {"algorithm=MPIR_Bcast_intra_topo_auto": {}}
    choice = tree.Choice("bcast", 1, 16, 4096, 16384, "topo_chain", ("segment_bytes=8192",))
    tuning = {"collective=bcast": {"comm_type=intra": tree.make([choice], "4.0", default)}}
    assert not grammar.check(json.dumps(tuning))[0]
    for ranks, size, name in (
        (16, 8192, "topo_chain"),
        (16, 1024, "topo_auto"),
        (16, 10**6, "topo_auto"),
        (4, 8192, "topo_auto"),
        (100, 8192, "topo_auto"),
    ):
        selection = grammar.select(tuning, grammar.Call("bcast", ranks, size))
        assert selection.short == name, (ranks, size)
    selection = grammar.select(tuning, grammar.Call("bcast", 16, 8192))
    assert selection.params["segment_bytes"] == 8192
    selection = grammar.select(tuning, grammar.Call("bcast", 16, 8192, hosts=4, ppn=4))
    assert selection.short == "topo_auto"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("ranks,bytes\n1,2\n", "line 1: found no column collective"),
        (NAMES, "found no measurement"),
        (table()[:-20], "fields, expected 7; is the file cut off?"),
        (NAMES + "allgather,4,64,ring,nan,4,x\n", 'line 2: found "nan" as time_us'),
        (NAMES + "allgather,4,64,ring,1_0,4,x\n", 'line 2: found "1_0" as time_us'),
        (NAMES.replace("hosts", "median_us"), 'line 1: found the column "time_us" twice'),
        (NAMES + "allgather,4,-1,ring,5,4,x\n", 'line 2: found "-1" as bytes'),
        (NAMES + "allgather,4,64,ring,5,8,x\n", "line 2: found 4 ranks on 8 hosts"),
        (table() + "allgather,4,16,ring,9e9,4,block\n", "for the same, leave one of them out"),
        (NAMES + "allgather,4,64,ring,5,4,x\n", "two algorithms"),
        ("#START topo-bench format 1\n" + NAMES + "a,4,6,b,5,4,x\n", "did not come to its end"),
        (table().replace("ring", "r" * 300), f'found "{"r" * 44}... as algorithm'),
        (NAMES + f"allgather,4,64,{'x' * 200_000},5,4,x\n", "line 2: not CSV: field larger than"),
        (table().replace("ring", "rign"), "found rign of allgather, which MPICH has not"),
    ],
)
def test_bad_tables(tmp_path: Path, text: str, words: str) -> None:
    done = run(tmp_path, text, "-o", "tuning.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "tuning.json").exists()


def test_a_table_that_may_be_cut_off(tmp_path: Path) -> None:
    """Wherever in its last line a table is cut, that is refused or told; so is a whole last line, for
    nothing tells it from one of which the end of a name or number is missing."""
    text = table()
    assert run(tmp_path, text).stderr == ""
    last = text.count("\n")
    begin = text.rindex("\n", 0, -1) + 1
    for end in range(begin + 1, len(text)):
        done = run(tmp_path, text[:end])
        assert done.stderr.count("\n") == 1
        if text[begin:end].count(",") == NAMES.count(","):
            assert done.returncode == 0 and f"warning: {tmp_path / 'times.csv'}: " in done.stderr
            found = f"line {last}: found no newline at its end, expected one; is the file cut off?"
        else:
            assert (done.returncode, done.stdout) == (2, "")
            found = (
                f"line {last}: found {text[begin:end].count(',') + 1} fields, expected 7; is the"
            )
        assert found in done.stderr
    # of rows nothing is missing here
    for more in ("# a comment", "#END 6 records", "  "):
        assert run(tmp_path, text + more).stderr == ""
    assert run(tmp_path, text.replace("\n", "\r\n")).stderr == ""


def test_what_the_library_chooses_by_itself(tmp_path: Path) -> None:
    """topo-bench calls it auto. It is left to MPICH, whose device is asked first, and not named."""
    text = table().replace("brucks", "auto")
    assert run(tmp_path, text, "-o", "tuning.json").returncode == 0
    tuning = json.loads((tmp_path / "tuning.json").read_text())
    rules = json.dumps(tuning["collective=allgather"])
    assert "MPIR_Allgather_intra_ring" in rules and "MPIR_Allgather_intra_brucks" not in rules
    assert '": {}, "' in rules


@pytest.mark.parametrize("column, value", [("in_place", "True"), ("cold", "True"), ("root", "3")])
def test_calls_that_no_rule_can_ask_for(tmp_path: Path, column: str, value: str) -> None:
    first, *rows = table().splitlines()
    lines = [f"{first},{column}", *(f"{row},{value}" for row in rows)]
    done = run(tmp_path, "\n".join(lines) + "\n")
    assert done.returncode == 2 and f'found "{value}" as {column}' in done.stderr


@pytest.mark.parametrize("value", ["", "uniform"])
def test_equal_counts_are_no_other_calls(tmp_path: Path, value: str) -> None:
    first, *rows = table().splitlines()
    lines = [f"{first},pattern", *(f"{row},{value}" for row in rows)]
    assert run(tmp_path, "\n".join(lines) + "\n").returncode == 0


def test_tables_fit_a_terminal(tmp_path: Path) -> None:
    name = "reduce_scatter_then_allgather_of_some_other_library_by_rings"
    text = table().replace("allgather", "reduce_scatter_block").replace("ring", name)
    text += table(placement="cyclic").partition("\n")[2]
    done = run(tmp_path, text, "--default", "brucks")
    assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 80
    assert name[-9:] in done.stdout and "…" not in done.stdout


def test_a_table_of_a_spreadsheet(tmp_path: Path) -> None:
    """It may begin with a byte order mark."""
    plain = run(tmp_path, table())
    marked = run(tmp_path, "\ufeff" + table())
    assert (marked.returncode, marked.stdout) == (0, plain.stdout)


def test_a_default_that_was_not_measured(tmp_path: Path) -> None:
    done = run(tmp_path, table(), "--default", "nope")
    assert done.returncode == 2 and "--default nope: found no measurement of it" in done.stderr


def test_two_sites_have_no_common_rules(tmp_path: Path) -> None:
    lines = table().splitlines()
    text = "".join(
        f"{line},{'site' if i == 0 else i % 4 in (1, 2)}\n" for i, line in enumerate(lines)
    )
    done = run(tmp_path, text, "-o", "tuning.json")
    assert done.returncode == 2 and "found 2 sites, expected one" in done.stderr
    assert run(tmp_path, text).returncode == 0


NAME = "2025_01_01___00_00_00"
# what the metadata say, 4 hosts of 2 ranks, is not what ran: 3 hosts, 6 ranks
ALLOCATION = "MPI_Rank,allocation\n" + "".join(f"\0\0{i},n{i // 2}\n" for i in range(6))


def pico(folder: Path, allocations: dict[str, str] | None = None) -> Path:
    """One archive in PICO's form, of a metadata table that has two."""
    (folder / "one").mkdir(parents=True)
    names = "timestamp,test_id,nnodes,tasks_per_node,collective_type,mpi_lib"
    rows = [f"{NAME},{i},2x2,2,{name},OMPI" for i, name in enumerate(("ALLGATHER", "BCAST"))]
    rows.append("2025_01_02___00_00_00,0,8,1,BCAST,OMPI")
    (folder / "one_metadata.csv").write_text("\n".join([names, *rows, ""]))
    content = {f"{name}.csv": text for name, text in (allocations or {}).items()}
    # the first is a warm-up, the last is cut; 4 elements are less than one for each rank
    for test, algorithms in enumerate((("ring_ompi", "brucks_mpich"), ("bine", "binomial_mpich"))):
        for name, us in zip(algorithms, (5, 9), strict=True):
            lines = "highest\n900000\n" + f"{us}000\n" * 9 + "12"
            content |= {f"{test}/{n}_{name}_int32.csv": lines for n in (4, 48)}
    content["0/notes.csv"] = "what"
    with tarfile.open(folder / f"one/{NAME}.tar.gz", "w:gz") as archive:
        for name, text in content.items():
            info = tarfile.TarInfo(f"{NAME}/{name}")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
    return folder


def fit_pico(folder: Path, *words: Any, cwd: Path | None = None) -> Any:
    return run_tool("topo-tune", cli.cli, "fit", "--format", "pico", folder, *words, cwd=cwd)


def test_pico(tmp_path: Path) -> None:
    folder = pico(tmp_path / "results")
    done = fit_pico(folder, "--points", "p.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"topo-tune: read one/{NAME}.tar.gz, SHA-256 ")
    found = points.read_csv(str(tmp_path / "p.csv"))
    # 48 elements of 4 bytes, of the whole buffer
    assert [(p.algorithm, p.time_us, p.where) for p in found if p.collective == "allgather"] == [
        ("brucks_mpich", 9.0, Where(4, 8, 24)),
        ("ring_ompi", 5.0, Where(4, 8, 24)),
    ]
    assert {p.where.num_bytes for p in found if p.collective == "bcast"} == {16, 192}
    archive = folder / f"one/{NAME}.tar.gz"
    archive.write_bytes(archive.read_bytes()[:100])
    done = fit_pico(folder)
    assert done.returncode == 2 and "cut off" in done.stderr
    done = fit_pico(tmp_path)
    assert done.returncode == 2 and "SYSTEM_metadata.csv" in done.stderr


@pytest.mark.parametrize(
    ("names", "where"),
    [
        (["alloc"], (3, 6)),
        (["alloc_6"], (3, 6)),
        (["alloc_8", "alloc_6"], (3, 8)),
        (["alloc_6", "alloc_12"], None),
    ],
)
def test_places_of_pico(tmp_path: Path, names: list[str], where: tuple[int, int] | None) -> None:
    """Of alloc.csv, or of the one for as many ranks as the metadata tell; where no one can know, of none."""
    more = ALLOCATION + "6,n2\n7,n2\n"
    files = {name: more if name == "alloc_8" else ALLOCATION for name in names}
    done = fit_pico(pico(tmp_path / "results", files), "--points", "p.csv", cwd=tmp_path)
    if where is None:
        assert (
            done.returncode == 2 and "found no alloc_RANKS.csv of test 0: left out" in done.stderr
        )
        return
    assert done.returncode == 0, done.stderr
    found = points.read_csv(str(tmp_path / "p.csv"))
    assert {(p.where.hosts, p.where.ranks) for p in found} == {where}
    of_blocks = {p.where.num_bytes for p in found if p.collective == "allgather"}
    assert of_blocks == {48 // where[1] * 4}


@pytest.mark.parametrize(
    "text", [ALLOCATION[:-4], ALLOCATION.replace("\n", "\n0,n0\n", 1), "MPI_Rank,allocation\n", "x"]
)
def test_bad_allocation_of_pico(tmp_path: Path, text: str) -> None:
    done = fit_pico(pico(tmp_path / "results", {"alloc": text}))
    assert done.returncode == 2 and f"{NAME}/alloc.csv: found another table" in done.stderr


def test_tuning_file_of_pico(tmp_path: Path) -> None:
    """By MPICH's names; what MPICH has not is in no rule. Sizes are those that MPICH sees."""
    folder, out = pico(tmp_path / "results"), tmp_path / "tuning.json"
    done = fit_pico(folder, "-o", out, "--default", "ring_ompi", "--site", "one OMPI")
    assert done.returncode == 0, done.stderr
    assert "note: MPICH has not bine\n" in done.stderr
    rules = json.loads(out.read_text())
    assert "MPIR_Allgather_intra_ring" in str(rules) and "bcast" not in str(rules)
    done = fit_pico(folder, "--default", "ring_opmi")
    assert done.returncode == 2 and "did you mean ring_ompi?" in done.stderr
    assert "read one/" not in done.stderr  # before times are read
    done = fit_pico(folder, "-o", tmp_path / "no/folder.json")
    assert done.returncode == 2 and "read one/" not in done.stderr
    done = fit_pico(folder, "--site", "two OMPI")
    assert done.returncode == 2 and 'no measurement of the site "two OMPI"' in done.stderr


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (",2x2,2,ALLGATHER,OMPI", ",2x2", "line 2: found no tasks_per_node, expected 6 fields"),
        ("nnodes", "nodes", "line 1: found no column nnodes"),
        ("2x2", "0", 'line 2: found "0" as nnodes, expected a number from 1 on (or 4x2)'),
        ("2x2", "2x", 'line 2: found "2x" as nnodes'),
        ("2x2,2", "2x2,0", 'line 2: found "0" as tasks_per_node, expected a number from 1 on'),
        ("2x2,2", "99999x99999,2", "line 2: found 19999600002 ranks, expected at most"),
        ("ALLGATHER", "x" * 200_000, "line 2: not CSV: field larger than field limit"),
    ],
)
def test_bad_metadata_of_pico(tmp_path: Path, old: str, new: str, says: str) -> None:
    table = pico(tmp_path) / "one_metadata.csv"
    table.write_text(table.read_text().replace(old, new))
    done = run_tool("topo-tune", cli.cli, "fit", "--format", "pico", tmp_path)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert f"{table}: {says}" in done.stderr


# what MPIR_CVAR_COLL_TOPO_ADAPT_FILE of 24 ranks on 6 hosts says
LEARNT = """\
collective,hosts,ranks,bytes,placement,algorithm,time_us
bcast,6,24,65536,other,smp,5210.250
bcast,6,24,65536,other,rack_lanes,2120.500
bcast,6,24,65536,other,topo_chain,2470.125
bcast,6,24,1024,other,binomial,310.500
bcast,6,24,1024,other,topo_binomial,190.250
reduce_scatter_block,6,24,4096,other,recursive_halving,9120.000
reduce_scatter_block,6,24,4096,other,rack_lanes,4010.333
barrier,6,24,1,other,smp,410.125
barrier,6,24,1,other,topo_tree,520.000
allgather,6,6,16384,block,ring,4000.125
allgather,6,6,16384,block,topo_ring,4100.250
allgather,6,6,16384,cyclic,ring,9000.500
allgather,6,6,16384,cyclic,topo_ring,4050.500
gather,3,3,4096,other,binomial,80.125
"""


def test_what_the_library_has_learnt(tmp_path: Path) -> None:
    done = run(tmp_path, LEARNT, "-o", "tuning.json")
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "tuning.json").read_text()
    assert not grammar.check(text)[0]
    tuning = json.loads(text)
    # of gather there was one alone, which tells nothing
    assert [*tuning] == [
        f"collective={name}" for name in ("allgather", "barrier", "bcast", "reduce_scatter_block")
    ]
    for name, hosts, ranks, size, best in (
        ("bcast", 6, 24, 65536, "rack_lanes"),
        ("bcast", 6, 24, 1024, "topo_binomial"),
        ("reduce_scatter_block", 6, 24, 4096, "rack_lanes"),
        ("barrier", 6, 24, 0, "smp"),
        ("allgather", 6, 6, 16384, "topo_ring"),  # good in both placements
    ):
        call = grammar.Call(name, ranks, size, hosts=hosts)
        assert grammar.select(tuning, call).short == best, name
