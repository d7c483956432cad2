"""A model folder that transformers and sentence-transformers load."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from embedrun.errors import DISK, MISSING, OUT_OF_MEMORY, RunFailed, exit_code
from embedrun.files import Plain, copy_mode
from embedrun.pooling import HEAD, Dense, Pooling
from embedrun.prompts import PLACE, Prompt

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

SCHEMA = 2  # of embedrun.json, which holds what the other files cannot say

# The keys and module names of sentence-transformers up to version 5, which version 6 reads as well.
_MODULES = "sentence_transformers.models"
# Averages over padding have no module there; their nearest are written, and the card says so.
NEAREST = {"mean_padded_legacy": "mean", "cls_last_mean_padded_legacy": "cls_last_mean"}
_MODES = {
    "pooling_mode_cls_token": ("cls", "pooler", "cls_mlp", "cls_last_mean", "cls_max"),
    "pooling_mode_max_tokens": ("max", "cls_max"),
    "pooling_mode_mean_tokens": ("mean", "cls_last_mean", "first_last_mean"),
    "pooling_mode_mean_sqrt_len_tokens": (),
    "pooling_mode_weightedmean_tokens": ("weighted_mean",),
    "pooling_mode_lasttoken": ("last_token",),
}
_TWO_SIDE_BY_SIDE = ("cls_last_mean", "cls_max")


def write_model(
    folder: Path,
    *,
    model: "PreTrainedModel",
    write_weights: Callable[[Path], None],
    base: Plain | None,
    tokenizer: "PreTrainedTokenizerBase",
    pooling: Pooling,
    layer: nn.Linear | None,
    dense: Sequence[Dense],
    normalize: bool,
    max_length: int,
    lowercase: bool,
    prompt: Prompt | None,
    roles: Mapping[str, Prompt | None],
    named: Mapping[str, str],
) -> None:
    """Write weights, tokenizer and everything that says how vectors are made.

    Poolings that sentence-transformers does not have are built of its modules: `cls_last_mean` and `cls_max`
    are both vectors side by side and a linear layer that halves and adds them; `first_last_mean` is a
    weighted sum of layers, then the mean; `pooler` and `cls_mlp` are `cls` and a linear layer with tanh. The
    poolings that average over padding cannot be built: they are written as the same without padding.

    Args:
        folder: must not exist, or be empty; the caller publishes it whole.
        write_weights: into the folder: an adapter, or all weights, as `save_weights` does.
        base: of an adapter: type of the frozen weights, and how they are in 4 bits.
        lowercase: whether texts are lower-cased before the tokenizer, which cuts them to `max_length` tokens.
        layer: between pooled vectors and tanh, of `pooler` (the model's own) and of `cls_mlp`.
        dense: layers behind the pooling.
        prompt: around every text. sentence-transformers supports only what stands before a text.
        roles: around queries and documents instead, by role.
        named: prompts that it puts before a text on request, by name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder}: not empty; a model needs a new folder")
    write_weights(folder)
    tokenizer.save_pretrained(folder)
    kinds = ["Transformer", *_modules(folder, model.config, pooling, layer)]
    behind: list[str] = []
    for module in dense:
        behind.append(f"{len(kinds)}_Dense")
        _dense(folder / behind[-1], module.linear.weight, module.linear.bias, module.activation)
        kinds.append("Dense")
    template, text_edit = (prompt.template, prompt.text_edit) if prompt else (None, None)
    templates = {role: PLACE if one is None else one.template for role, one in roles.items()}
    says = {
        "schema": SCHEMA,
        "pooling": pooling.name,
        "first_layer": pooling.first_layer,
        "normalize": normalize,
        "max_length": max_length,
        "lowercase": lowercase,
        "padded_to": pooling.padded_to,
        "head": "2_Dense" if pooling.name == HEAD else None,
        **(
            {"dense": [f"{place}_Dense" for place in range(len(kinds) - len(dense), len(kinds))]}
            if dense
            else {}
        ),
        "prompt": template,
        "text_edit": text_edit,
        **({"skip_prompt": True} if pooling.skip_prompt else {}),
        **({"prompts": templates} if templates else {}),
        **({} if base is None else {"base": dict(base)}),
    }
    _json(folder / "embedrun.json", says)
    settings: dict[str, object] = {"max_seq_length": max_length, "do_lower_case": lowercase}
    if pooling.all_layers:
        settings |= _all_layers(folder)
    _json(folder / "sentence_bert_config.json", settings)
    if prompts := _prompts(prompt, roles, named):
        _json(folder / "config_sentence_transformers.json", prompts)
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"{_MODULES}.{kind}"}
        for i, kind in enumerate([*kinds, "Normalize"] if normalize else kinds)
    ]
    for module in modules:
        (folder / module["path"]).mkdir(exist_ok=True)
    _json(folder / "modules.json", modules)
    copy_mode(folder / "embedrun.json", folder.rglob("*"))


def save_weights(model: "PreTrainedModel", folder: Path) -> None:
    """Write all weights of a model, without those of a pooler that its own files lacked."""
    weights = model.state_dict()
    if getattr(getattr(model, "pooler", None), "is_random", False):
        weights = {name: part for name, part in weights.items() if not name.startswith("pooler.")}
    model.save_pretrained(folder, state_dict=weights)


def _all_layers(folder: Path) -> Plain:
    """Have the transformer hand on all layers, not only its last: in its configuration or these settings."""
    path, option = folder / "config.json", {"output_hidden_states": True}
    if not path.is_file():  # of an adapter, which has the configuration of its base
        return {"config_args": option}
    _json(path, json.loads(path.read_text(encoding="utf-8")) | option)
    return {}


def push(folder: Path, repo: str, *, token: str, public: bool) -> str:
    """Upload a model folder as one commit, and return its address and whether others see it.

    The repository is made where there is none, private unless `public`. One that is there stays as visible as
    it is; if that is public, and `public` is not asked for, nothing is uploaded.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    hub = HfApi(token=token)
    try:
        address = hub.create_repo(repo, private=not public, exist_ok=True)
        private = bool(hub.model_info(repo).private)
        if not (private or public):
            raise RunFailed(
                f"{address} is there already and public, and nothing was uploaded; --public allows it",
                exit_code=MISSING,
            )
        made = hub.upload_folder(repo_id=repo, folder_path=folder, commit_message="Export of embedrun")
    except RunFailed:
        raise
    except Exception as fault:  # what a broken network raises has no common class
        if exit_code(fault) in (DISK, OUT_OF_MEMORY):
            raise
        status = fault.response.status_code if isinstance(fault, HfHubHTTPError) else None
        answer = "is not reached" if status is None else f"answers {status}"
        # The library that sends the header may quote it.
        text = (str(fault).strip() or type(fault).__name__).splitlines()[0].replace(token, "(token)")
        raise RunFailed(
            f"{repo}: the hub {answer} ({text}); the token in HF_TOKEN must be valid, and one that may write",
            exit_code=MISSING,
        ) from None
    return f"{address} ({'private' if private else 'public'}), commit {made.oid}"


def _prompts(prompt: Prompt | None, roles: Mapping[str, Prompt | None], named: Mapping[str, str]) -> Plain:
    """What sentence-transformers puts before texts; nothing where a prompt has words behind a text too."""
    of_roles = {role: "" if one is None else one.before for role, one in roles.items()}
    if any(one is not None and (one.after or one.text_edit is not None) for one in (prompt, *roles.values())):
        return {}
    if prompt is None:
        prompts = {**named, **of_roles}
        return {"prompts": prompts, "default_prompt_name": None} if prompts else {}
    # `query` and `document` have methods of their own there, with no prompt unless one is named.
    prompts = dict.fromkeys(("text", "query", "document"), prompt.before)
    return {"prompts": {**prompts, **named, **of_roles}, "default_prompt_name": "text"}


def _modules(
    folder: Path, config: "PreTrainedConfig", pooling: Pooling, layer: nn.Linear | None
) -> list[str]:
    kinds = ["Pooling"]
    dim, name, first_layer = config.hidden_size, NEAREST.get(pooling.name, pooling.name), pooling.first_layer
    size = {"word_embedding_dimension": dim}
    if first_layer is not None:
        kinds.insert(0, "WeightedLayerPooling")
        weights = torch.zeros(config.num_hidden_layers + 1 - first_layer)  # (layers from the first on,)
        weights[0] += 1
        weights[-1] += 1  # the same one if the model has no other
        layers = {"layer_start": first_layer, "num_hidden_layers": config.num_hidden_layers}
        _module(folder / "1_WeightedLayerPooling", {**size, **layers}, {"layer_weights": weights})
    modes = {key: name in names for key, names in _MODES.items()}
    skips = {"include_prompt": False} if pooling.skip_prompt else {}
    _module(folder / f"{len(kinds)}_Pooling", {**size, **modes, **skips})
    if name in _TWO_SIDE_BY_SIDE:
        half = torch.eye(dim) / 2  # (dim, dim)
        _dense(folder / "2_Dense", torch.cat([half, half], dim=1))
    elif layer is not None:
        _dense(folder / "2_Dense", layer.weight, layer.bias)
    return [*kinds, "Dense"] if (folder / "2_Dense").is_dir() else kinds


def _dense(target: Path, weight: Tensor, bias: Tensor | None = None, activation: str | None = None) -> None:
    """Write a linear layer, ``(out, in)`` and ``(out,)``; tanh comes behind one with a bias."""
    activation = activation or ("Identity" if bias is None else "Tanh")
    function = f"{'linear' if activation == 'Identity' else 'activation'}.{activation}"
    config = {
        "in_features": weight.shape[1],
        "out_features": weight.shape[0],
        "bias": bias is not None,
        "activation_function": f"torch.nn.modules.{function}",
    }
    _module(target, config, {"linear.weight": weight} | ({} if bias is None else {"linear.bias": bias}))


def _module(target: Path, config: Plain, tensors: Mapping[str, Tensor] | None = None) -> None:
    target.mkdir()
    _json(target / "config.json", config)
    if tensors is not None:
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(plain, target / "model.safetensors")


def _json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
