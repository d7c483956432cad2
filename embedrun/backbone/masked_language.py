"""Masked-language modelling: which word pieces are hidden, and the head that guesses them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from embedrun.backbone.files import base_of, locate
from embedrun.backbone.pretrained import quiet
from embedrun.backbone.transformer import Backbone
from embedrun.console import say_and_log
from embedrun.errors import ConfigError
from embedrun.runs.search import settle

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Hide = Callable[[Tensor, float, int], tuple[Tensor, Tensor]]


def hiding(tokenizer: Any) -> Hide:
    """A function that hides word pieces of flat token ids, as transformers' collator does.

    It takes the ids, ``(tokens,)``, the share to choose and a seed, and returns the ids with what stands in
    place of the chosen ones, and the pieces to guess, -100 elsewhere, ``(tokens,)`` each.
    """
    from transformers import DataCollatorForLanguageModeling

    if tokenizer.mask_token is None:
        raise ConfigError(
            "loss.terms.mlm: this backbone's tokenizer has no mask token; leave the term out, or choose an "
            "encoder such as backbone=bert_base"
        )
    special = torch.tensor(tokenizer.all_special_ids)  # (special,)

    def hide(ids: Tensor, share: float, seed: int) -> tuple[Tensor, Tensor]:
        collator = DataCollatorForLanguageModeling(tokenizer, mlm_probability=share)
        collator.generator = torch.Generator().manual_seed(seed)
        hidden, pieces = collator.torch_mask_tokens(
            ids[None].clone(), special_tokens_mask=torch.isin(ids, special)[None]
        )
        return hidden[0], pieces[0]

    return hide


class _States(nn.Module):
    """Stands for the body of a masked-language model, whose hidden states are there already."""

    def forward(self, input_ids: Tensor | None = None, *_: object, **inputs: Any) -> object:
        from transformers.modeling_outputs import BaseModelOutput

        return BaseModelOutput(last_hidden_state=inputs["inputs_embeds"])


class Head(nn.Module):
    """Hidden states, ``(places, dim)``, to a score of each word piece, ``(places, vocabulary)``.

    Args:
        model: of transformers, for masked-language modelling; its body is taken out.
        body: the model that gives the states; the head shares its embedding as the class of `model` does.
    """

    def __init__(self, model: "PreTrainedModel", body: "PreTrainedModel") -> None:
        super().__init__()
        if model.config.tie_word_embeddings:
            model.get_output_embeddings().weight = body.get_input_embeddings().weight  # type: ignore[union-attr]
        setattr(model, model.base_model_prefix, _States())
        self.model = model

    def forward(self, states: Tensor) -> Tensor:
        """Scores, of the type of the model."""
        return self.model(inputs_embeds=states[None]).logits[0]


def head_of(backbone: Backbone, *, seed: int) -> Head:
    """The head of a backbone's model, with the weights of its files, else new ones drawn by `seed`.

    A RAN, for which transformers has none, gets BERT's.
    """
    from transformers import AutoModelForMaskedLM, BertConfig

    body, name = backbone.model, backbone.origin["name"]
    of_body = body.config
    with torch.random.fork_rng(devices=[]), quiet():
        torch.default_generator.manual_seed(seed)
        if of_body.model_type == "embedrun_ran":
            of_body = BertConfig(
                vocab_size=of_body.vocab_size,
                hidden_size=of_body.hidden_size,
                num_hidden_layers=0,
                layer_norm_eps=of_body.layer_norm_eps,
            )
            name = None
        try:
            if name is None:
                return Head(AutoModelForMaskedLM.from_config(of_body, dtype=torch.float32), body)
            folder = locate(settle(name), backbone.origin["commit"])
            folder = base_of(folder) or folder
            if not (folder / "config.json").is_file():  # a checkpoint holds no head
                return Head(AutoModelForMaskedLM.from_config(of_body, dtype=torch.float32), body)
            model, report = AutoModelForMaskedLM.from_pretrained(
                folder,
                config=of_body,
                dtype=torch.float32,
                local_files_only=True,
                use_safetensors=True,
                output_loading_info=True,
            )
        except ValueError as fault:
            raise ConfigError(
                f"loss.terms.mlm: transformers has no masked-language head for {of_body.model_type}; leave "
                "the term out, or choose an encoder such as backbone=bert_base"
            ) from fault
    if report["missing_keys"]:
        say_and_log("the model's files have no masked-language head: a new one starts from random weights")
    return Head(model, body)
