# Copyright (C) by the mpich-topo authors. See LICENSE.
"""Checks a value, parsed JSON or TOML, against a JSON Schema. Schemas may use the format
"printable" of mpich-topo, for names that are shown in a terminal."""

from typing import Any

from topo_common.files import MAX_NESTING, InputError
from topo_common.text import hint, short, step


def check(value: Any, schema: dict[str, Any], path: object, top: str = "$") -> None:
    """Raises InputError with the first thing in `value`, of the file `path`, that `schema` does not
    allow: the place as a JSON path from `top` on, what was found and what is expected."""
    import jsonschema

    formats = jsonschema.FormatChecker(formats=())
    formats.checks("printable")(lambda text: not isinstance(text, str) or text.isprintable())
    draft = jsonschema.Draft202012Validator
    # 1.0 is no integer, as for the library
    types = draft.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    validator = jsonschema.validators.extend(draft, type_checker=types)
    try:
        errors = list(validator(schema, format_checker=formats).iter_errors(value))
    except RecursionError:
        raise InputError(path, f"found more than {MAX_NESTING} levels of nesting") from None
    if not errors:
        return
    # a wrong format number of the file explains all other errors; else report the first by place
    error = min(errors, key=lambda e: (not _is_of_format(e), [str(p) for p in e.absolute_path]))
    where = top + "".join(map(step, error.absolute_path))
    raise InputError(path, _explain(error), where)


def _is_of_format(error: Any) -> bool:
    return error.validator == "const" or list(error.absolute_path) == ["format"]


def _explain(error: Any) -> str:
    """A line for an error of jsonschema: what was found, and what is expected"""
    kind, value, found = error.validator, error.validator_value, error.instance
    if kind == "required":
        missing = [key for key in value if key not in found]
        return f"found no key {short(missing[0])}, which is required"
    if kind == "additionalProperties":
        if isinstance(value, dict):
            return f"found {short(found)}, expected a {value['type']}"
        known = error.schema["properties"]
        unknown = next(key for key in found if key not in known)
        near = hint(unknown, known) or f", expected {', '.join(known)}"
        return f"found the unknown key {short(unknown)}{near}"
    if kind in ("oneOf", "not"):
        # the schema explains its alternatives
        return str(error.schema["$comment"])
    if kind == "anyOf":
        return f"found {short(found)}, expected {error.schema['$comment']}"
    if kind == "dependentRequired":
        key, missing = next(
            (k, m) for k, of in value.items() if k in found for m in of if m not in found
        )
        return f"found no key {short(missing)}, which is required beside {short(key)}"
    if kind == "uniqueItems":
        twice = next(item for i, item in enumerate(found) if item in found[:i])
        return f"found {short(twice)} twice, expected each only once"
    number = f"{value:g}" if isinstance(value, float) else value  # 1e+12
    expected = {
        "type": lambda: " or ".join(value) if isinstance(value, list) else f"{value}",
        "const": lambda: short(value),
        "enum": lambda: f"one of {', '.join(map(str, value))}",
        "minimum": lambda: f"at least {number}",
        "exclusiveMinimum": lambda: f"more than {number}",
        "maximum": lambda: f"at most {number}",
        "minItems": lambda: f"at least {value} entries",
        "maxItems": lambda: f"at most {value} entries",
        "minProperties": lambda: f"at least {value} keys",
        "minLength": lambda: "a name that is not empty",
        "maxLength": lambda: f"at most {value} characters",
        "pattern": lambda: error.schema["$comment"],
        "format": lambda: f"{value} characters",
    }[kind]
    return f"found {short(found)}, expected {expected()}"
