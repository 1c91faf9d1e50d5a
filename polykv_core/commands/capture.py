"""`polykv capture`: heads of a Hugging Face model, on a text, into one compact file."""

import os
import sys
from pathlib import Path
from typing import Any

import click

from polykv_core.capture.request import LOGITS, CaptureRequest
from polykv_core.commands.options import KINDS, number_set, precision_option
from polykv_core.commands.shared import Facts, keep, lines, loaded, naming, write
from polykv_core.errors import CaptureError, CodecError
from polykv_core.options import REFERENCE, ReplayOptions
from polykv_core.packs import Precision, pack_bytes
from polykv_core.program import PASSED, show
from polykv_core.terminal import complain

_MISSING = "capture needs torch and transformers; install them with: pip install 'polykv[capture]'"
_DEFAULT = CaptureRequest()


@click.command()
@click.argument("model")
@click.option("--text", required=True, metavar="FILE", help="What the model reads, in UTF-8.")
@click.option("--out", required=True, metavar="FILE", help="A .safetensors or .npz file.")
@click.option("--layers", metavar="L,L-L", callback=number_set, help="Only these layers: 0,10-15.  [default: all]")
@click.option("--heads", metavar="H,H-H", callback=number_set, help="Only these query heads.  [default: all]")
@click.option("--queries", type=int, default=_DEFAULT.queries, show_default=True, help="Queries of each head.")
@click.option(
    "--shared-tokens", type=int, default=_DEFAULT.shared_tokens, show_default=True, help="Tokens of the shared pool."
)
@click.option("--max-tokens", "most_tokens", type=int, metavar="N", help="Read no more of the text.  [default: all]")
@click.option("--vocab", type=int, default=_DEFAULT.vocab, show_default=True, help="Tokens that logits are kept for.")
@click.option(
    "--logits",
    type=click.Choice(LOGITS),
    default=_DEFAULT.logits,
    show_default=True,
    help="local: those of the head's exact output alone. model: the whole model's.",
)
@click.option("--seed", type=int, default=_DEFAULT.seed, show_default=True, help="Of pool and shell, for every head.")
@precision_option
def capture(model: str, text: str, out: str, precision: Precision, **asked: Any) -> int:
    """Run MODEL over a text and write what its attention heads saw into one file.

    MODEL is a folder with .safetensors weights and their tokenizer, or a .gguf file, on this machine: nothing is
    fetched from anywhere.
    """
    request = CaptureRequest(**asked)
    kind = KINDS.get(Path(out).suffix)
    if kind is None:
        raise click.UsageError(f"{out} must end in .safetensors or .npz")
    keep("--out", out, model, text, *_files_of(model))
    words = loaded(text, _decoded)
    # Read by the libraries as they are imported: no network, and no progress bars but ours.
    os.environ |= {"HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    try:
        import polykv_core.capture.heads as heads  # torch takes seconds to import, and is an extra
        from polykv_core.capture.model import load_checkpoint
    except ImportError:
        raise click.ClickException(_MISSING) from None
    captured = heads.capture(load_checkpoint(model), words, request, _progress)
    with naming(out):
        data = pack_bytes(captured.fixtures, kind, precision, captured.about)
    write(out, data)
    _warn_of(captured)
    show(f"{out}: {len(captured.fixtures)} heads, {len(data):,} bytes\n{lines(_facts(captured, request))}")
    return PASSED


def _files_of(model: str) -> list[str]:
    """What a checkpoint is read from: its weights above all, which an output must not replace."""
    folder = Path(model)
    return [str(path) for path in folder.iterdir()] if folder.is_dir() else []


def _warn_of(captured: Any) -> None:
    """Say what the file cannot be replayed with: the reference's codecs do not take every head size."""
    head_dim = next(iter(captured.fixtures.values())).head_dim
    try:
        for codec in (REFERENCE.pool_codec, REFERENCE.shell_codec):
            codec.check_head_dim(head_dim)
    except CodecError as bad:
        complain("warning", f"the heads replay with --pool-codec exact --shell-codec exact only: {bad}")


def _facts(captured: Any, request: CaptureRequest) -> Facts:
    rows = [len(query.keys) for fixture in captured.fixtures.values() for query in fixture.queries]
    cut = f", the first of {captured.text_tokens}: the model's context and --max-tokens allow no more"
    scales = sorted({about["scale"] for about in captured.about.values()})
    return [
        ("Text", f"{captured.tokens} tokens{'' if captured.tokens == captured.text_tokens else cut}"),
        (
            "Queries",
            f"{request.queries} a head, each with {min(rows)} to {max(rows)} rows, {request.shared_tokens} shared",
        ),
        ("Scale", f"{', '.join(f'{scale:.6g}' for scale in scales)}{_how_to_replay(captured, scales)}"),
        ("Logits", request.logits),
        ("Checked", f"outputs are within {captured.largest_difference:.1e} of attention recomputed from the rows"),
    ]


def _how_to_replay(captured: Any, scales: list[float]) -> str:
    """The option that replays at the captured scale, where the reference's own, 1, would be another attention."""
    settings = {
        ReplayOptions.setting_of(captured.about[name]["scale"], fixture.head_dim)
        for name, fixture in captured.fixtures.items()
    }
    return f"; replay with --attention-scale {settings.pop()}" if len(settings) == 1 and scales != [1.0] else ""


def _progress(done: int, total: int) -> None:
    """On a terminal, how far it is."""
    if sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {total} layers" if done < total else "\r\033[K")
        sys.stderr.flush()


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        raise CaptureError(
            f"the text is not UTF-8: byte {bad.start} is {data[bad.start]:#04x}; save it as UTF-8"
        ) from None
