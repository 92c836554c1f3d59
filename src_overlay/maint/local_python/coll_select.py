##
## Copyright (C) by Argonne National Laboratory
##     See COPYRIGHT in top-level directory
##

# Code that gen_coll.py generates for the selection of algorithms by tuning files, and for the report
# of selections: see src/mpi/coll/include/coll_select.h. gen_coll.py calls these functions at the
# places where they add code; the rest of the generated code does not depend on them.

from local_python import MPI_API_Global as G
import re

# -- algorithms without a function: they select another algorithm (csel_auto.c) --

autos = {}                      # collective: name

def take_autos():
    """ Move these algorithms from the lists of algorithms, which have functions, to autos """
    for func_commkind, algos in G.algos.items():
        for algo in [a for a in algos if 'selects' in a]:
            algos.remove(algo)
            autos[func_commkind.split('-')[0]] = algo['name']

def get_auto_full_name(func_name):
    return "MPIR_%s_intra_%s" % (func_name.capitalize(), autos[func_name])

def dump_auto_selected(func_name):
    """ Case for such an algorithm, selected by csel: select again """
    if func_name in autos:
        G.out.append("case MPII_CSEL_CONTAINER_TYPE__ALGORITHM__%s:" % get_auto_full_name(func_name))
        G.out.append("    cnt = MPIR_Csel_auto(&coll_sig);")
        G.out.append("    goto select;")
        G.out.append("")

def dump_auto_cvar(func_name, commkind, call):
    """ Case for such an algorithm, forced by the CVAR: select by it, not by rules """
    if func_name in autos and commkind == "intra":
        G.out.append("case MPIR_CVAR_%s_INTRA_ALGORITHM_%s:" % (func_name.upper(), autos[func_name]))
        G.out.append("    MPIR_Csel_begin_auto(comm_ptr);")
        G.out.append("    mpi_errno = %s;" % call)
        G.out.append("    MPIR_Csel_end_auto(comm_ptr);")
        G.out.append("    break;")

# -- tables --

# Restrictions that topo_auto checks; restrictions that hold for each call that it decides on
AUTO_ASKS = ("power-of-two", "noinplace")
AUTO_HAS = ("commutative", "any-order")

def get_plain_row(func_name, full_name, algo):
    """ Row of an algorithm that topo_auto may select. None if the algorithm has parameters, or
        restrictions that depend on more properties of a call """
    words = algo.get('restrictions', '').replace(',', ' ').split()
    if 'extra_params' in algo or 'allcomm' in algo or set(words) - {*AUTO_ASKS, *AUTO_HAS}:
        return None
    asks = ", ".join("true" if word in words else "false" for word in AUTO_ASKS)
    return "%s, %s, %s" % (func_name.upper(), full_name, asks)

def dump_tables(f, coll_names, get_algo_extra_args):
    """ Write the tables of the algorithms that a selection file can name, with their parameters, for
        csel_algo.c; and of those that topo_auto may select, for csel_auto.c """
    algos, params, plain = [], [], []
    for name in coll_names:
        for func_name in (name, 'i' + name):
            for commkind in ("intra", "inter"):
                for algo in get_algos(func_name, commkind):
                    full_name = "MPIR_%s_%s" % (func_name.capitalize(), get_algo_kind(algo, commkind))
                    if full_name in algos:
                        continue
                    algos.append(full_name)
                    row = get_plain_row(func_name, full_name, algo)
                    if row and func_name in autos and commkind == "intra":
                        plain.append(row)
                    if 'extra_params' not in algo:
                        continue
                    names = algo['extra_params'].replace(' ', '').split(',')
                    # constants, which are not in extra_params, come first
                    defaults = get_algo_extra_args(algo, "cvar").replace(' ', '').split(',')[-len(names):]
                    member = "%s.%s_%s" % (func_name, commkind, algo['name'])
                    for p, default in zip(names, defaults):
                        if '=' not in p:
                            params.append("%s, %s, %s, %s" % (full_name, member, p, default))
            if func_name == name:
                algos.append("MPIR_%s_allcomm_nb" % name.capitalize())
            if func_name in autos:
                algos.append(get_auto_full_name(func_name))
    print("  --> [%s]" % f)
    with open(f, "w") as Out:
        for l in G.copyright_c:
            print(l, file=Out)
        print("#ifndef CSEL_ALGOS_H_INCLUDED", file=Out)
        print("#define CSEL_ALGOS_H_INCLUDED", file=Out)
        print("\n/* X(name) */", file=Out)
        print("#define MPII_CSEL_ALGORITHMS(X) \\", file=Out)
        print(" \\\n".join("    X(%s)" % a for a in algos), file=Out)
        print("\n/* X(name of the algorithm, member of MPII_Csel_container_s.u, parameter, default) */", file=Out)
        print("#define MPII_CSEL_PARAMS(X) \\", file=Out)
        print(" \\\n".join("    X(%s)" % p for p in params), file=Out)
        print("\n/* X(collective, name of the algorithm, needs a power of two of ranks, must not be in place) */",
              file=Out)
        print("#define MPII_CSEL_PLAIN_ALGORITHMS(X) \\", file=Out)
        print(" \\\n".join("    X(%s)" % row for row in plain), file=Out)
        print("\n#endif /* CSEL_ALGOS_H_INCLUDED */", file=Out)

def use_agreed(extra_args):
    """ Segment lengths and radices are rank 0's: an algorithm learns them with the place of the ranks """
    ours = r'MPIR_CVAR_\w+_(SEGMENT_BYTES|TOPO_\w+_KVAL|RECURSIVE_DOUBLING_KVAL)'
    return re.sub(ours, 'MPII_Topo_as_agreed', extra_args)

def get_algos(func_name, commkind):
    return G.algos.get("%s-%s" % (func_name, commkind), [])

def get_algo_kind(algo, commkind):
    """ For example intra_binomial """
    return "%s_%s" % ("allcomm" if "allcomm" in algo else commkind, algo['name'])

# -- restrictions: the rules of the built-in selection respect them. For a rule in a file they are
#    checked; if they do not hold, the built-in selection selects again --

def has_restrictions(func_name):
    return any('restrictions' in algo for commkind in ("intra", "inter")
               for algo in get_algos(func_name, commkind))

def dump_select_label(func_name):
    if has_restrictions(func_name) or func_name in autos:
        G.out.append("")
        G.out.append("select:")

def dump_selected(algo, commkind, dump_fallback):
    """ Added at the case of an algorithm that csel selects """
    if 'restrictions' in algo:
        G.out.append("if (cnt->rule) {")
        G.out.append("INDENT")
        dump_fallback(algo)
        G.out.append("DEDENT")
        G.out.append("}")
    dump_report(algo, commkind, "cnt->rule")

def dump_fallback_search(func_name):
    """ Added at the end of a function that selects by csel """
    if has_restrictions(func_name):
        G.out.append("goto fn_exit;")
        G.out.append("")
        G.out.append("fallback:")
        G.out.append("cnt = MPIR_Csel_search(MPIR_Csel_get_fallback(comm_ptr->csel_comm), coll_sig);")
        G.out.append("MPIR_Assert(cnt);")
        G.out.append("goto select;")

# -- the device: it is asked before this selection, and does not know its rules --

REDUCTIONS = ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan")

# Collectives that ch4 may split
SPLIT = ("allgather", "allreduce", "alltoall", "barrier", "bcast", "reduce")

def is_reduction(func_name):
    return re.sub(r'^i', '', func_name) in REDUCTIONS

def get_any_order(func_name):
    """ Part of the condition for asking the device, whose selection may depend on the placement """
    return " && !MPII_COLL_HAS_FIXED_ORDER(comm_ptr)" if is_reduction(func_name) else ""

def dump_has_rule(parameters, func_name):
    """ Added before the statement that asks the device """
    global report_device
    call = ["MPIR_CSEL_COLL_TYPE__%s" % func_name.upper(), "                       , .comm_ptr = comm_ptr"]
    for p in parameters:
        if p['name'] != "comm":
            call.append("                       , .u.%s.%s = %s" % (func_name, p['name'], p['name']))
    G.out.append("bool has_rule =%s" %
                 (" MPII_COLL_HAS_FIXED_ORDER(comm_ptr) ||" if is_reduction(func_name) else ""))
    G.out.append("    MPII_COLL_HAS_RULE(comm_ptr->csel_comm, " + call[0])
    G.out.extend(call[1:])
    G.out.append("                       );")
    report_device = (len(G.out), [])
    if func_name in SPLIT:
        report_device[1].append("MPII_Coll_report_device(has_rule, &(MPIR_Csel_coll_sig_s) {.coll_type = " + call[0])
        report_device[1].extend([*call[1:], "                       }, %s);" % get_report_size(func_name)])

# -- the time of a blocking call: a function of its own with the same body measures it, so that a call
# that is not timed costs one more test, and no stack --

call_begin = None
report_device = None            # position in the function that measures the time, and code

def dump_call_begin():
    global call_begin
    call_begin = len(G.out)

def dump_call_end():
    header = max(i for i in range(call_begin) if G.out[i].startswith("int MPIR_"))
    first = header + G.out[header:].index("{") + 2      # behind INDENT
    text = " ".join(line.strip() for line in G.out[header:first - 2])
    name, params = re.match(r'int (MPIR_\w+)\((.*)\)$', text).groups()
    args = ', '.join(re.search(r'(\w+)(\[\])?$', p).group(1) for p in params.split(', '))
    timed = ["#include \"coll_device.h\"", ""] if report_device[1] else []
    timed += ["static ATTRIBUTE((noinline)) int %s_timed(%s)" % (name, params), *G.out[first - 2:call_begin],
              "MPII_Coll_call_t coll_call;", "MPII_Coll_call_begin(comm_ptr, &coll_call);",
              *G.out[call_begin:report_device[0]], *report_device[1], *G.out[report_device[0]:],
              "MPII_Coll_call_end(&coll_call);", "return mpi_errno;", "DEDENT", "}", ""]
    G.out[first:first] = ["if (unlikely(MPII_Coll_is_timed))", "    return %s_timed(%s);" % (name, args)]
    G.out[header:header] = timed

# -- the report --

def dump_report(algo, commkind, why):
    dump_report_name(algo['func-commkind'].split('-')[0], get_algo_kind(algo, commkind), why)

def dump_report_nb(name, why):
    dump_report_name(name, "allcomm_nb", why)

def dump_report_name(func_name, algo_kind, why):
    G.out.append("MPII_COLL_REPORT(comm_ptr, MPII_CSEL_CONTAINER_TYPE__ALGORITHM__MPIR_%s_%s," %
                 (func_name.capitalize(), algo_kind))
    G.out.append("                 %s, %s);" % (why, get_report_size(func_name)))

def get_report_size(func_name):
    """ Count and type of a block, or of the buffer, as the calling process passes it; -1 if there is
        none. Arguments that are not significant must not be used. """
    name = re.sub(r'^i', '', func_name)
    if name in ("allgather", "alltoall"):
        return "recvcount, recvtype"
    elif name in ("allgatherv", "alltoallv"):
        return "MPII_COLL_MEAN(recvcounts), recvtype"
    elif name in ("bcast", "reduce"):
        return "root == MPI_PROC_NULL ? -1 : count, datatype"
    elif name in ("gather", "scatter"):
        (root, other) = ("recv", "send") if name == "gather" else ("send", "recv")
        is_root = "MPII_COLL_IS_ROOT(root)"
        return ("root == MPI_PROC_NULL ? -1 : %s ? %scount : %scount, %s ? %stype : %stype" %
                (is_root, root, other, is_root, root, other))
    elif name in ("allreduce", "scan", "exscan"):
        return "count, datatype"
    elif name == "reduce_scatter":
        return "MPII_COLL_MEAN(recvcounts), datatype"
    elif name == "reduce_scatter_block":
        return "recvcount, datatype"
    elif name in ("neighbor_allgather", "neighbor_allgatherv", "neighbor_alltoall"):
        return "sendcount, sendtype"
    else:
        return "-1, MPI_BYTE"

def dump_decline(algo, cond_list):
    """ Added before the check of restrictions """
    G.out.append("MPII_COLL_DECLINE(comm_ptr, %s," % ' && '.join(cond_list))
    G.out.append("                  \"%s needs %s\");" % (algo['name'], algo['restrictions']))

# -- persistent collectives --

def dump_persistent(name, args):
    """ Added before the statement that makes the schedule: the schedule uses a plan if the blocking
        collective would """
    if name in ("alltoall", "alltoallv", "alltoallw"):
        G.out.append("mpi_errno = MPII_Topo_%s_init(%s," % (name, args))
        G.out.append("    &req->u.persist_coll.sched, &req->u.persist_coll.sched_type);")
        G.out.append("MPIR_ERR_CHECK(mpi_errno);")
        G.out.append("if (req->u.persist_coll.sched_type == MPIR_SCHED_INVALID)")
