# Copyright (C) by the mpich-topo authors. See LICENSE.
"""The check of a value, parsed JSON or TOML, against a JSON Schema. Its format "printable" is ours: of
names, which are shown in a terminal."""

from typing import Any

from topo_common.files import MAX_NESTING, InputError
from topo_common.text import hint, short, step


def check(value: Any, schema: dict[str, Any], path: object, top: str = "$") -> None:
    """Raises InputError with the first thing in `value`, of the file `path`, that `schema` does not
    allow: the place as a JSON path from `top` on, what was found and what is expected."""
    import jsonschema

    formats = jsonschema.FormatChecker(formats=())
    formats.checks("printable")(lambda text: not isinstance(text, str) or text.isprintable())
    validator = jsonschema.Draft202012Validator(schema, format_checker=formats)
    try:
        errors = list(validator.iter_errors(value))
    except RecursionError:
        raise InputError(path, f"found more than {MAX_NESTING} levels of nesting") from None
    if not errors:
        return
    # a wrong format explains all the rest; else the first by place
    error = min(errors, key=lambda e: (not _is_of_format(e), [str(p) for p in e.absolute_path]))
    where = top + "".join(map(step, error.absolute_path))
    raise InputError(path, _explain(error), where)


def _is_of_format(error: Any) -> bool:
    return error.validator == "const" or list(error.absolute_path) == ["format"]


def _explain(error: Any) -> str:
    """What was found and what is expected, in a line, for an error of jsonschema."""
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
        # what the alternatives mean is said by the schema itself
        return str(error.schema.get("$comment", short(error.message, 160)))
    if kind == "uniqueItems":
        twice = next(item for i, item in enumerate(found) if item in found[:i])
        return f"found {short(twice)} twice, expected each only once"
    expected = {
        "type": lambda: " or ".join(value) if isinstance(value, list) else f"{value}",
        "const": lambda: short(value),
        "enum": lambda: f"one of {', '.join(map(str, value))}",
        "minimum": lambda: f"at least {value}",
        "exclusiveMinimum": lambda: f"more than {value}",
        "maximum": lambda: f"at most {value}",
        "minItems": lambda: f"at least {value} entries",
        "maxItems": lambda: f"at most {value} entries",
        "minLength": lambda: "a name that is not empty",
        "maxLength": lambda: f"at most {value} characters",
        "pattern": lambda: f"text like {value}",
        "format": lambda: f"{value} characters",
    }.get(kind)
    if expected is None:
        return short(error.message, 160)
    return f"found {short(found)}, expected {expected()}"
