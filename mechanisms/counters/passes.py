"""Several passes over one batch of noisy counters: a quick look, and later what lies behind it.

The shuffler draws the dummies D of the batch, and for each share of epsilon at which somebody may
look first a layer F on top of them. The pass at a share shows N + D + F + the layers of the larger
shares; a later pass says what to take away. So whoever has seen all passes has seen N + D, and
numbers that were drawn without a look at anything: the price of all passes is that of the last one,
whatever made anybody ask for it. And a pass before costs no more than its own layer would alone.

The last pass is the estimate: those before are the same with independent noise added, so the
weights by which they are best combined with it are 0.

Source: Koufogiannis, Han, Pappas, "Gradual release of sensitive data under differential privacy",
    Journal of Privacy and Confidentiality 7(2), 2016: noises of which the larger one is the smaller
    one and more. Their laws for the rest are of reals; a layer here is a noise of its own, in whole
    numbers, which at a share s leaves a pass with 1 + s^2 times the variance that it could have.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from mechanisms.channel import Neighbours
from mechanisms.counters.design import Counters
from mechanisms.counters.dummies import Dummies, PlacedNoise, Seen
from mechanisms.counters.levels import Level
from mechanisms.counters.noise import Gaussian, ShufflerNoise
from mechanisms.counters.price import Charge

_MANY = 100  # releases, for whose price together Gaussian noise errs least


@dataclass(frozen=True)
class Layers(Dummies):
    """Independent dummies on the same counters, of which the outer ones can be taken away.

    Attributes:
        blocks: those that stay, and then layer on layer; the last one is the outermost.
    """

    blocks: tuple[Dummies, ...]

    @property
    def groups(self) -> list[tuple[int, ...]]:
        return min((block.groups for block in self.blocks), key=len)

    @property
    def parts(self) -> list[PlacedNoise]:
        return [part for block in self.blocks for part in block.parts]

    @property
    def means(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(block.means for block in self.blocks), strict=True)))

    def null_laws(self, level: int) -> tuple[ShufflerNoise, ...]:
        return tuple(law for block in self.blocks for law in block.null_laws(level))

    def widened(self, factor: float) -> "Layers":
        return Layers(tuple(block.widened(factor) for block in self.blocks))

    def charges(
        self, levels: Sequence[Level], neighbours: Neighbours, seen: Seen = ShufflerNoise.seen
    ) -> list[Charge]:
        # As if the outermost layer were alone: what lies under it, and what lay over it in passes
        # before, was drawn without a look at anything.
        return self.blocks[-1].charges(levels, neighbours, seen)


@lru_cache(maxsize=64)
def layer(design: Counters, share: float) -> Counters:
    """A layer that by itself keeps to a share of the epsilon of some counters.

    Args:
        design: of the batch, without layers.
        share: in (0, 1).

    Raises:
        ValueError: no such share, or it would take too many dummies.
    """
    if not 0 < share < 1:
        raise ValueError(f"a share of epsilon must lie in (0, 1), not {share}")
    first = len(design.levels) - design.beside
    # Of the family of the batch's own noise: where that was chosen for the price of many releases
    # together, layers that err least one by one would cost more together than their share.
    gaussian = any(isinstance(part.law, Gaussian) for part in design.dummies.parts)
    return Counters.meeting(
        design.levels[:first], design.neighbours, share * design.epsilon, design.delta,
        design.levels[first:], correlated=any(len(group) > 1 for group in design.dummies.groups),
        most_masked=2 * design.number, releases=_MANY if gaussian else 1,
    )  # fmt: skip


def layered(design: Counters, shares: Sequence[float]) -> Counters:
    """The counters as the pass at the least of some shares shows them.

    Args:
        design: of the batch, without layers.
        shares: of epsilon, ascending: at which somebody may look before the last pass; of none, it
            is the last.

    >>> count = Counters.meeting([Level(1, 1)], "add or remove", epsilon=1.0, delta=1e-6)
    >>> quick = layered(count, (0.25,))
    >>> quick.guarantee.epsilon, round(quick.variances[0], 1), round(count.variances[0], 1)
    (0.25, 33.7, 1.8)
    """
    outer = [layer(design, share) for share in shares]
    if not outer:
        return design
    blocks = (design.dummies, *(layer.dummies for layer in reversed(outer)))
    return replace(design, dummies=Layers(blocks), epsilon=outer[0].epsilon)
