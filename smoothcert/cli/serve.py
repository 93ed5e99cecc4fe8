"""`smoothcert serve`: certified predictions over HTTP; `smoothcert serve reveal`: tell a retired secret."""

from __future__ import annotations

import contextlib
import ipaddress
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from smoothcert.cli import options as o
from smoothcert.cli.console import say, wrote
from smoothcert.errors import OptionError, require_count
from smoothcert.progress import remark

if TYPE_CHECKING:
    from smoothcert.contracts import Tensor
    from smoothcert.memory import Memory
    from smoothcert.server.offer import Offer
    from smoothcert.server.values import ServiceLimits

START = "start"
EXAMPLES = 24  # inputs of --data that the page offers


class ServeGroup(TyperGroup):
    """`smoothcert serve MODEL` is the start of a service; another word may name another thing to do with one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put in the command that is meant."""
        named = args and (args[0] in self.commands or args[0] in ("-h", "--help"))
        return super().parse_args(ctx, args if named or not args else [START, *args])


app = typer.Typer(cls=ServeGroup, help="Certified predictions over HTTP: `smoothcert serve MODEL --sigma 0.25`.")

State = Annotated[Path, typer.Option(help="Folder of this service: its secret, and its evidence unless told.")]
Place = Annotated[str | None, typer.Option(help="Where certificates are kept: file.sqlite or postgresql://…")]


@app.command(START)
def start(
    model: o.Model,
    sigma: o.Sigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: o.Arithmetic = None,
    radius: o.Radius = None,
    n: Annotated[int, typer.Option("--n", "--N", help="Draws that test the class, without a radius.")] = 100_000,
    n0: o.N0 = 100,
    alpha: o.Alpha = o.ALPHA,
    shape: Annotated[str | None, typer.Option(help="Shape of one input, where the model does not tell it.")] = None,
    data: Annotated[str | None, typer.Option(help="Data set whose inputs the page offers, and class names.")] = None,
    split: o.Split = "test",
    classes: o.Classes = None,
    name: Annotated[str | None, typer.Option(help="What the model is called in the protocol.")] = None,
    sigma_per_input: Annotated[
        bool, typer.Option("--sigma-per-input", help="First search each input's own noise level; needs --memory.")
    ] = False,
    steps: Annotated[int | None, typer.Option(help="Steps of that search.  [default: 900]")] = None,
    draws: Annotated[int | None, typer.Option(help="Noisy copies a step.  [default: 1]")] = None,
    step_size: Annotated[float | None, typer.Option(help="Length of a step.  [default: 0.0001]")] = None,
    sigma_bounds: Annotated[str | None, typer.Option(help="lo,hi of levels.  [default: sigma/4 to 4·sigma]")] = None,
    sigma_search: Annotated[str | None, typer.Option(help="ascent (needs gradients), grid or votes.")] = None,
    evaluations: Annotated[int | None, typer.Option(help="Copies in all, of grid and votes.  [default: 200]")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory of regions: file.sqlite or postgresql://…")] = None,
    evidence: Place = None,
    state: State = Path("smoothcert-serve"),
    keys: Annotated[Path | None, typer.Option(help="File of `smoothcert keys`; needed beyond loopback.")] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free one.")] = 8080,
    ssl_certfile: Annotated[Path | None, typer.Option(help="Certificate chain for TLS, PEM.")] = None,
    ssl_keyfile: Annotated[Path | None, typer.Option(help="Private key for TLS, PEM.")] = None,
    cors: Annotated[list[str] | None, typer.Option(help="Origin whose pages may ask; may be repeated.")] = None,
    allowed_host: Annotated[
        list[str] | None, typer.Option(help="Without keys: another name of this machine; may be repeated.")
    ] = None,
    open_metrics: Annotated[bool, typer.Option("--open-metrics", help="/metrics needs no key.")] = False,
    deadline: Annotated[float, typer.Option(help="Seconds until an undecided input abstains, unless told.")] = 60.0,
    longest: Annotated[float, typer.Option(help="Longest deadline that a request may ask for.")] = 600.0,
    waiting: Annotated[int, typer.Option(help="Inputs that may wait; further ones get 503.")] = 256,
    most_inputs: Annotated[int, typer.Option(help="Inputs of one request.")] = 64,
    most_draws: Annotated[int, typer.Option(help="Draws (n) that a request may ask for an input.")] = 1_000_000,
    most_alpha: Annotated[float, typer.Option(help="Largest alpha that a request may ask for.")] = 0.05,
    most_bytes: Annotated[int, typer.Option(help="Bytes of a request's body.")] = 2**25,
    notice: Annotated[float, typer.Option(help="Seconds from not ready to closed, when it stops.")] = 0.0,
    batch: Annotated[int | None, typer.Option(help="Rows of a forward pass.")] = None,
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    set_: o.NoiseSet = None,
) -> None:
    """Answer requests with a label, a radius and a certificate, by the Open Inference Protocol v2.

    smoothcert serve cifar10-resnet8-gaussian-0 --sigma 0.25 --data cifar10
    smoothcert serve models/a --sigma 0.25 --radius 0.5 --keys keys.toml --host 0.0.0.0
    """
    from smoothcert.server.offer import DefaultQuestion, make_offer
    from smoothcert.server.values import ServiceLimits

    keyring = _keys(keys, host)
    if (ssl_certfile is None) != (ssl_keyfile is None):
        raise OptionError("--ssl-certfile and --ssl-keyfile must be given together; got one")
    limits = ServiceLimits(most_inputs, most_draws, 1e-9, most_alpha, deadline, longest, waiting, most_bytes)
    chosen = None if sigma is None and noise == "gaussian" and not set_ else o.only_noise(noise, sigma, set_, "serve")
    search = {"steps": steps, "draws": draws, "step_size": step_size, "evaluations": evaluations}
    preparation = None
    if chosen is not None:
        preparation = o.preparation_of(sigma_per_input, chosen, search, sigma_bounds, sigma_search)
    if sigma_per_input and memory is None:
        raise OptionError("--sigma-per-input must have a --memory: without one its radii promise nothing; got none")
    names, size, examples = _examples(data, split, classes, shape)
    default = DefaultQuestion(radius, alpha, n, n0)
    offer = make_offer(
        model, chosen, size, default, name=name, class_names=names, preparation=preparation, how=arithmetic,
        engine=engine, threads=threads, batch=batch, say=remark,
    )  # fmt: skip
    _refuse_wrong_default(offer, limits)
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(_started(offer, limits, state, evidence, memory, examples))
        from smoothcert.server.app import application
        from smoothcert.server.run import serve

        app = application(
            service, keyring, cors=cors or (), hosts=allowed_host or (), open_metrics=open_metrics
        )  # fmt: skip
        tls = {"certificate": ssl_certfile, "private_key": ssl_keyfile}
        serve(app, host, port, **tls, notice=notice, begun=_begun(host, ssl_certfile is not None, service.model))


@app.command("reveal")
def reveal(
    state: Annotated[Path, typer.Argument(metavar="FOLDER", help="The --state of a service that has stopped.")],
    evidence: Place = None,
) -> None:
    """Retire the secret of a service, and tell it: from now on anybody can draw its answers again.

    smoothcert serve reveal smoothcert-serve
    """
    from smoothcert import foreign
    from smoothcert.server.evidence import open_evidence
    from smoothcert.server.secret import reveal

    path = reveal(state)
    table = foreign.parse_json(foreign.content(path, "the secret"), "the secret")
    with contextlib.closing(open_evidence(evidence or str(state / "evidence.sqlite"))) as store:
        store.tell(table["commitment"], table["secret"])
    wrote(path)
    say(f"told: smoothcert verify CERTIFICATE --secret {shlex.quote(str(path))}")


def _keys(keys: Path | None, host: str) -> Any:
    """Who may ask; everybody only where nobody else can reach it."""
    from smoothcert.server.keys import KeyRing

    if keys is not None:
        return KeyRing(keys)
    try:
        alone = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        alone = False
    if not alone:
        raise OptionError(f"--keys must be given beyond the loopback address; got --host {host} without")
    return None


def _examples(
    data: str | None, split: str, classes: Path | None, shape: str | None
) -> tuple[tuple[str, ...], tuple[int, ...] | None, Sequence[tuple[str, Tensor]]]:
    """Names of the classes, the shape of an input, and some inputs for the page."""
    from smoothcert.data import class_lines

    names = tuple(class_lines(classes)) if classes is not None else ()
    if data is None:
        return names, None if shape is None else o.parse_shape(shape), ()
    subset = o.subset(data, split, 1, -1, None, None, 0)
    inputs = subset.load()
    every = max(1, len(inputs) // EXAMPLES)
    places = range(0, len(inputs), every)[:EXAMPLES]
    found = [(f"{inputs.name} {int(inputs.indices[place])}", inputs.tensor(place)) for place in places]
    return names or subset.class_names or inputs.class_names, tuple(inputs.shape), found


def _refuse_wrong_default(offer: Offer, limits: ServiceLimits) -> None:
    """What the operator asks of every input must be possible, and what a request may ask for, too."""
    import torch

    from smoothcert.server.values import InferRequest, RequestError

    require_count("serve", waiting=limits.waiting, most_inputs=limits.inputs, most_draws=limits.draws)
    require_count("serve", most_bytes=limits.body)
    if not 0 < limits.deadline <= limits.longest:
        raise OptionError(f"--deadline must be above 0 and at most --longest; got {limits.deadline:g}")
    if not limits.least_alpha < limits.most_alpha < 1:
        raise OptionError(f"--most-alpha must be above {limits.least_alpha:g} and below 1; got {limits.most_alpha:g}")
    try:
        offer.question(InferRequest("start", torch.zeros(1, *offer.template.shape)))
    except RequestError as error:
        raise OptionError(error.text) from error


@contextlib.contextmanager
def _started(
    offer: Offer, limits: ServiceLimits, state: Path, evidence: str | None, memory: str | None, examples: Any
) -> Iterator[Any]:
    """The side that draws, warm."""
    from smoothcert.server import secret
    from smoothcert.server.evidence import open_evidence
    from smoothcert.server.service import Service

    with (
        secret.held(state) as held,
        contextlib.closing(open_evidence(evidence or str(state / "evidence.sqlite"))) as store,
    ):
        service = Service(offer, held, store, limits, _memory(offer, memory), examples)
        service.start()
        yield service


def _memory(offer: Offer, place: str | None) -> Callable[[], Memory] | None:
    """What opens the memory, made if there is none."""
    from smoothcert.memory import Memory, named

    if place is None:
        return None
    spec = offer.template
    o.check_memory(place, None, False, spec.noise, False, "guess")

    def opened() -> Memory:
        if Memory.make(place, spec.model_digest, spec.norm, spec.shape):
            remark(f"{named(place)} is a new memory")
        memory = Memory.open(place)
        memory.require(spec.model_digest, spec.norm, spec.shape)
        return memory

    return opened


def _begun(host: str, tls: bool, model: Any) -> Callable[[int], None]:
    def told(port: int) -> None:
        address = f"[{host}]" if ":" in host else host
        say(f"serving {model.name} at http{'s' if tls else ''}://{address}:{port}/ (Ctrl-C stops it)")
        say(f"{model.noise}; {model.norm} radii; alpha {model.alpha:g}; commitment {model.commitment}")

    return told
