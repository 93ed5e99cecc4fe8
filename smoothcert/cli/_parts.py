"""Parts of a job from the words of options: the noise, the sampling, the search for noise levels."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from smoothcert.cli._options import parse_range
from smoothcert.errors import OptionError

if TYPE_CHECKING:
    from smoothcert.contracts import Noise, Sampling
    from smoothcert.preparation.per_input_sigma import PerInputSigma


def parse_value(text: str) -> Any:
    """A number, a true or false, a list of values between commas, or the text itself."""
    if "," in text:
        return [parse_value(part) for part in text.split(",")]
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def sampling_of(
    name: str | None, n: int | None, alpha: float, radius: float | None, radii: str | None, settings: list[str] | None
) -> Sampling:
    """The sampling that these options ask for: spending when a radius is given, else fixed, unless named."""
    from smoothcert import catalog

    asked = parse_radii(radius, radii)
    name = name or ("spending" if asked else "fixed")
    fields = {field.name for field in dataclasses.fields(catalog.find("sampling", name)[0])}
    options: dict[str, Any] = {**({"alpha": alpha} if "alpha" in fields else {}), **named(settings)}
    if n is not None and "n" not in fields:
        raise OptionError(f"--n is the number of draws of fixed and runner_up; {name} takes --set cap=… instead")
    if asked and "radii" not in fields:
        raise OptionError(f"{name} finds the largest radius; leave out --radius and --radii, or take spending")
    options |= {"n": n} if n is not None else {}
    options |= {"radii": asked} if "radii" in fields else {}
    sampling: Sampling = catalog.build("sampling", name, options)
    return sampling


def noise_of(name: str, sigma: float | None, settings: list[str] | None) -> tuple[Noise, list[str]]:
    """The noise that these options ask for, and those of the settings that are not its own."""
    from smoothcert import catalog

    fields = {field.name for field in dataclasses.fields(catalog.find("noise", name)[0])}
    own, rest = settings_of("noise", name, settings)
    if sigma is not None and "sigma" not in fields:
        takes = " and ".join(f"--set {field}=…" for field in sorted(fields))
        raise OptionError(f"--sigma is no option of {name} noise, which takes {takes}; got {sigma}")
    options = {**named(own), **({} if sigma is None else {"sigma": sigma})}
    noise: Noise = catalog.build("noise", name, options)
    return noise, rest


def settings_of(folder: str, name: str, settings: list[str] | None) -> tuple[list[str], list[str]]:
    """Those of the `name=value` settings that are options of a part, and the others."""
    from smoothcert import catalog

    fields = {field.name for field in dataclasses.fields(catalog.find(folder, name)[0])}
    own = [setting for setting in settings or [] if setting.partition("=")[0] in fields]
    return own, [setting for setting in settings or [] if setting not in own]


def only_noise(name: str, sigma: float | None, settings: list[str] | None, whose: str) -> Noise:
    """The noise that these options ask for, where settings can be of nothing else."""
    noise, rest = noise_of(name, sigma, settings)
    if rest:
        raise OptionError(f"--set of {whose} must be an option of {name} noise; got '{rest[0]}'")
    return noise


def preparation_of(
    asked: bool, noise: Noise, numbers: dict[str, float | None], bounds: str | None, search: str | None
) -> PerInputSigma | None:
    """The search for each input's noise level, if one is asked for."""
    from smoothcert.preparation.per_input_sigma import PerInputSigma

    low, high = parse_range(bounds, "--sigma-bounds") or (None, None)
    given = {**numbers, "low": low, "high": high, "search": search}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not asked:
        if options:
            raise OptionError(f"--{next(iter(options)).replace('_', '-')} belongs to --sigma-per-input; got it without")
        return None
    part = PerInputSigma(**options)
    part.check(noise)
    return part


def say_noise(noise: Any) -> str:
    """A noise and its options in words."""
    from smoothcert.catalog import describe

    part = describe(noise)
    return f"{part.pop('name')} noise ({noise.norm}), " + ", ".join(f"{name} {value:g}" for name, value in part.items())


def parse_radii(radius: float | None, radii: str | None) -> tuple[float, ...]:
    """--radius 0.5 or --radii 0.25,0.5,… as one tuple."""
    if radius is not None and radii is not None:
        raise OptionError("give one of --radius and --radii; got both")
    if radius is not None:
        return (radius,)
    try:
        return tuple(float(part) for part in radii.split(",")) if radii is not None else ()
    except ValueError as error:
        raise OptionError(f"--radii must be numbers with commas between; got '{radii}'") from error


def named(settings: list[str] | None) -> dict[str, Any]:
    """`name=value` words as options."""
    pairs = [setting.partition("=") for setting in settings or []]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise OptionError(f"--set must be name=value; got '{name}'")
    return {name: parse_value(text) for name, _, text in pairs}
