"""Which rows each step sees: a pure function of seed, epoch and step."""

from embedrun.training.order.choice import order_of
from embedrun.training.order.steps import Draw, Order

__all__ = ["Draw", "Order", "order_of"]
