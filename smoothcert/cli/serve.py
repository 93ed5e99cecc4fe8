"""`smoothcert serve`: certified predictions over HTTP; `smoothcert serve reveal`: tell a retired secret."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from smoothcert.cli import options as o
from smoothcert.cli import panels
from smoothcert.cli.console import DefaultCommandGroup, say, wrote
from smoothcert.errors import OptionError, require_count, require_number
from smoothcert.progress import remark

if TYPE_CHECKING:
    from smoothcert.contracts import Noise, Tensor
    from smoothcert.memory import Memory
    from smoothcert.server.offer import Offer
    from smoothcert.server.service import Service
    from smoothcert.server.values import ServedModel, ServiceLimits

EXAMPLES = 24  # inputs of --data that the page offers
DAY = 86_400.0  # seconds, the longest deadline
LARGEST_BODY = 2**30
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ORIGIN = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+")


class ServeCommands(DefaultCommandGroup):
    """To start a service, or to tell the secret of one that has ended."""

    default = "start"


app = typer.Typer(cls=ServeCommands, help="Serve certified predictions over HTTP.")

State = Annotated[Path, panels.means(help="Keep the service's secret and evidence in this folder.")]
Place = Annotated[str | None, panels.means(help="Keep certificates here: a .sqlite file or postgresql://….")]


@app.command("start")
def start(
    model: o.Model,
    sigma: o.Sigma = None,
    noise: o.NoiseName = "gaussian",
    arithmetic: o.Arithmetic = None,
    radius: o.Radius = None,
    n: Annotated[
        int, panels.draws("--n", "--N", help="Test the class with this many draws if no radius is asked.")
    ] = 100_000,
    n0: o.N0 = 100,
    alpha: o.Alpha = o.ALPHA,
    shape: Annotated[str | None, panels.data(help="Give the shape of one input if the model does not tell it.")] = None,
    data: Annotated[
        str | None, panels.data(help="Offer inputs of this data set on the page, with its class names.")
    ] = None,
    split: o.Split = "test",
    classes: o.Classes = None,
    name: Annotated[str | None, panels.what(help="Call the model by this name in the protocol.")] = None,
    sigma_per_input: Annotated[
        bool, panels.noise("--sigma-per-input", help="First search for each input's own noise level; needs --memory.")
    ] = False,
    steps: o.SearchSteps = None,
    draws: o.SearchDraws = None,
    step_size: o.SearchStepSize = None,
    sigma_bounds: o.SigmaBounds = None,
    sigma_search: o.SigmaSearch = None,
    evaluations: o.SearchEvaluations = None,
    memory: Annotated[
        str | None, panels.what(help="Answer from this memory of regions: .sqlite or postgresql://….")
    ] = None,
    evidence: Place = None,
    state: State = Path("smoothcert-serve"),
    keys: Annotated[
        Path | None, panels.means(help="Read the keys that `smoothcert keys` made; needed beyond loopback.")
    ] = None,
    host: Annotated[str, panels.means(help="Listen on this address.")] = "127.0.0.1",
    port: Annotated[int, panels.means(help="Listen on this port; 0 takes any free one.")] = 8080,
    ssl_certfile: Annotated[Path | None, panels.means(help="Use this TLS certificate chain (PEM).")] = None,
    ssl_keyfile: Annotated[Path | None, panels.means(help="Use this TLS private key (PEM).")] = None,
    cors: Annotated[
        list[str] | None, panels.means(help="Allow pages of this origin to ask; repeat for several.")
    ] = None,
    allowed_host: Annotated[
        list[str] | None, panels.means(help="Accept this host name too if there are no keys; repeat for several.")
    ] = None,
    open_metrics: Annotated[bool, panels.means("--open-metrics", help="Serve /metrics without a key.")] = False,
    deadline: Annotated[float, panels.draws(help="Abstain on an undecided input after this many seconds.")] = 60.0,
    longest: Annotated[float, panels.draws(help="Let a request ask for a deadline of at most this.")] = 600.0,
    waiting: Annotated[int, panels.means(help="Let this many inputs wait; answer 503 to more.")] = 256,
    most_inputs: Annotated[int, panels.means(help="Accept this many inputs per request.")] = 64,
    most_draws: Annotated[
        int, panels.draws(help="Let a request ask for at most this many draws per input.")
    ] = 1_000_000,
    most_alpha: Annotated[float, panels.draws(help="Let a request ask for a significance of at most this.")] = 0.05,
    most_bytes: Annotated[int, panels.means(help="Accept request bodies of up to this many bytes.")] = 2**25,
    notice: Annotated[float, panels.means(help="Report not ready for this many seconds before closing.")] = 0.0,
    check: Annotated[bool, panels.means("--check", help="Get ready, say so and stop.")] = False,
    batch: Annotated[int | None, panels.means(help="Send this many rows through the model at once.")] = None,
    engine: o.Engine = "auto",
    threads: o.Threads = None,
    set_: o.NoiseSet = None,
) -> None:
    """Answer requests with a label, radius and certificate.

    The service speaks the Open Inference Protocol v2.

    smoothcert serve cifar10-resnet8-gaussian-0 --sigma 0.25 --data cifar10
    smoothcert serve models/a --sigma 0.25 --radius 0.5 --keys keys.toml --host 0.0.0.0
    """
    from smoothcert.bounds import check_draws
    from smoothcert.server.app import application
    from smoothcert.server.offer import DefaultQuestion, make_offer
    from smoothcert.server.run import listener, serve
    from smoothcert.server.values import ServiceLimits

    limits = ServiceLimits(most_inputs, most_draws, 1e-9, most_alpha, deadline, longest, waiting, most_bytes)
    _check_limits(limits, notice)
    _check_words(name, cors, allowed_host, (ssl_certfile, ssl_keyfile))
    if batch is not None:
        check_draws(batch, "batch", "the engine")
    keyring = _keys(keys, host)
    listener(host, port).close()
    search = {"steps": steps, "draws": draws, "step_size": step_size, "evaluations": evaluations}
    chosen = _noise(noise, sigma, set_)
    if sigma_per_input and memory is None:
        raise OptionError("--sigma-per-input must have a --memory: without one its radii promise nothing; got none")
    if chosen is None and sigma_per_input:
        raise OptionError("--sigma must be given with --sigma-per-input: the search begins there; got none")
    preparation = o.preparation_of(sigma_per_input, chosen or o.only_noise("gaussian", 1.0, None, "serve"), search,
                                   sigma_bounds, sigma_search)  # fmt: skip
    names, size, examples = _examples(data, split, classes, shape)
    offer = make_offer(
        model, chosen, size, DefaultQuestion(radius, alpha, n, n0), name=name, class_names=names,
        preparation=preparation, how=arithmetic, engine=engine, threads=threads, batch=batch, say=remark,
    )  # fmt: skip
    _refuse_impossible(offer)
    with _started(offer, limits, state, evidence, memory, examples) as service:
        metrics = {"open_metrics": open_metrics}
        asgi = application(service, keyring, cors=cors or (), hosts=allowed_host or (), **metrics)
        if check:
            say(f"{offer.name} could be served at {host}:{port}")
            return
        serve(
            asgi, host, port, certificate=ssl_certfile, private_key=ssl_keyfile, notice=notice,
            begun=_begun(host, ssl_certfile is not None, service.model),
        )  # fmt: skip


@app.command("reveal")
def reveal(
    state: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Read the --state folder of a service that has stopped.")
    ],
    evidence: Place = None,
) -> None:
    """Retire and reveal the secret of a service.

    From then on anybody can redraw its answers.

    smoothcert serve reveal smoothcert-serve
    """
    from smoothcert import foreign
    from smoothcert.memory.address import is_url
    from smoothcert.server.evidence import open_evidence
    from smoothcert.server.secret import require_secret, reveal

    place = evidence or str(state / "evidence.sqlite")
    if evidence is None:
        require_secret(state)
    if not is_url(place) and not foreign.is_regular(Path(place)):
        raise OptionError(f"--evidence must be where the service kept its certificates; got '{place}'")
    with contextlib.closing(open_evidence(place)) as store:
        path = reveal(state)
        table = foreign.parse_json(foreign.content(path, "the secret"), "the secret")
        store.tell(table["commitment"], table["secret"])
    wrote(path)
    say(f"told: smoothcert verify CERTIFICATE --model MODEL --secret {shlex.quote(str(path))}")


def _check_limits(limits: ServiceLimits, notice: float) -> None:
    require_count("serve", waiting=limits.waiting, most_inputs=limits.inputs, most_draws=limits.draws)
    require_count("serve", most=LARGEST_BODY, most_bytes=limits.body)
    require_number("serve", least=0.001, most=DAY, deadline=limits.deadline, longest=limits.longest)
    require_number("serve", most=DAY, notice=notice)
    if limits.deadline > limits.longest:
        raise OptionError(f"--deadline must be at most --longest, {limits.longest:g}; got {limits.deadline:g}")
    if not limits.least_alpha < limits.most_alpha < 1:
        raise OptionError(f"--most-alpha must be above {limits.least_alpha:g} and below 1; got {limits.most_alpha:g}")


def _check_words(
    name: str | None, cors: Sequence[str] | None, hosts: Sequence[str] | None, tls: tuple[Path | None, Path | None]
) -> None:
    if name is not None and not NAME.fullmatch(name):
        raise OptionError(f"--name must be of letters, digits, '.', '_' and '-', up to 100; got '{name[:120]}'")
    for origin in cors or ():
        if origin != "*" and not ORIGIN.fullmatch(origin):
            raise OptionError(f"--cors must be an origin such as https://example.org, or *; got '{origin[:120]}'")
    for host in hosts or ():
        if not NAME.fullmatch(host):
            raise OptionError(f"--allowed-host must be the name of a machine; got '{host[:120]}'")
    if (tls[0] is None) != (tls[1] is None):
        raise OptionError("--ssl-certfile and --ssl-keyfile must be given together; got one")


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
        raise OptionError(f"--keys must be given beyond the loopback address; got --host {host[:120]} without")
    return None


def _noise(name: str, sigma: float | None, settings: list[str] | None) -> Noise | None:
    """None: that of a composition, which brings its own."""
    return (
        None if sigma is None and name == "gaussian" and not settings else o.only_noise(name, sigma, settings, "serve")
    )


def _examples(
    data: str | None, split: str, classes: Path | None, shape: str | None
) -> tuple[tuple[str, ...], tuple[int, ...] | None, Sequence[tuple[str, Tensor]]]:
    """Names of the classes, the shape of an input, and some inputs for the page."""
    from smoothcert.data import class_lines

    names, told = (
        tuple(class_lines(classes)) if classes is not None else (),
        None if shape is None else o.parse_shape(shape),
    )
    if data is None:
        if split != "test":
            raise OptionError(f"--split needs --data; got only {split}")
        return names, told, ()
    subset = o.subset(data, split, 1, -1, None, None, 0)
    inputs = subset.load()
    if told is not None and told != tuple(inputs.shape):
        raise OptionError(f"--shape must be that of --data, {list(inputs.shape)}; got {list(told)}")
    places = range(0, len(inputs), max(1, len(inputs) // EXAMPLES))[:EXAMPLES]
    found = [(f"{inputs.name} {int(inputs.indices[place])}", inputs.tensor(place)) for place in places]
    return names or subset.class_names or inputs.class_names, tuple(inputs.shape), found


def _refuse_impossible(offer: Offer) -> None:
    """What the operator asks of every input must be possible."""
    import torch

    from smoothcert.server.values import InferRequest, RequestError

    try:
        offer.question(InferRequest("start", torch.zeros(1, *offer.template.shape)))
    except RequestError as error:
        raise OptionError(error.text) from error


@contextlib.contextmanager
def _started(
    offer: Offer, limits: ServiceLimits, state: Path, evidence: str | None, memory: str | None, examples: Any
) -> Iterator[Service]:
    """The side that draws, warm; a folder that was made for a service that never began does not stay."""
    from smoothcert.server import secret
    from smoothcert.server.evidence import open_evidence
    from smoothcert.server.service import Service

    new, begun = not state.exists(), False
    try:
        with contextlib.ExitStack() as stack:
            held = stack.enter_context(secret.held(state))
            store = stack.enter_context(contextlib.closing(open_evidence(evidence or str(state / "evidence.sqlite"))))
            service = Service(offer, held, store, limits, _memory(offer, memory), examples)
            service.start()
            begun = True
            yield service
    finally:
        if new and not begun:
            shutil.rmtree(state, ignore_errors=True)


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


def _begun(host: str, tls: bool, model: ServedModel) -> Callable[[int], None]:
    def told(port: int) -> None:
        address = f"[{host}]" if ":" in host else host
        say(f"serving {model.name} at http{'s' if tls else ''}://{address}:{port}/ (Ctrl-C stops it)")
        say(f"{model.noise}; {model.norm} radii; alpha {model.alpha:g}; commitment {model.commitment}")

    return told
