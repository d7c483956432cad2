"""What each loss term needs: the parameters of its `forward` say so. Imports no torch."""

import inspect

VIEWS = ("left", "right", "negative", "text")  # names of embeddings; any other name is a target


def needs(cls: type) -> tuple[list[str], list[str], list[str]]:
    """What the `forward` of a term asks for: (views, targets, optional targets).

    A parameter that has the name of a view is one; of the others, those with the default None are optional.
    """
    parameters = list(inspect.signature(cls.forward).parameters.values())[1:]  # without self
    views = [parameter.name for parameter in parameters if parameter.name in VIEWS]
    others = [parameter for parameter in parameters if parameter.name not in VIEWS]
    optional = [parameter.name for parameter in others if parameter.default is None]
    return views, [parameter.name for parameter in others if parameter.name not in optional], optional
