# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Modules that all tools written in Python share.

start.py   a tool from its first instruction to its exit status: signals, ^C
cli.py     the frame of a command line: errors, exit status, --version, hints for misspelt words
files.py   the one reader of JSON that may be bad, the one writer of files that are whole or not there
schema.py  the check of a value against a JSON Schema
progress.py  a progress bar, or lines of progress if there is no terminal
text.py    sizes, values and hints in messages
ppn.py     ranks a host, equal numbers or not

Errors of all tools have one form, in one line on standard error:

    topo-x: FILE: WHERE: what was found, expected ...
"""
