"""What stands in the folder of a session: a budget, and every question answered out of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mechanisms.privacy.gaussian_filter import GaussianFilter, Spent
from mechanisms.randomness import SecureRandom
from pipelines.journal.journal import FactJournal, JournalFormat, JournalState
from pipelines.journal.object_keeping import ObjectKeeping
from pipelines.storage.backoff import Backoff
from pipelines.storage.local_object import LocalObject

KIND = "ask"
FILE = "answers.json"
_VERSION = 3
_WHY = "without it nobody knows what was answered, and at which price"
_SAME = ("question", "request", "names", "files")  # of answers that are combined


@dataclass(frozen=True)
class AskSession:
    """What stands in the folder.

    Attributes:
        terms: epsilon and delta of all answers, the unit and the column that tells users apart.
        answers: in their order; each says its question, its price and what was told.
    """

    terms: Mapping[str, Any]
    answers: tuple[Mapping[str, Any], ...] = ()

    @property
    def budget(self) -> GaussianFilter:
        """Of all answers."""
        return GaussianFilter(self.terms["epsilon"], self.terms["delta"])

    @property
    def spent(self) -> list[Spent]:
        """By each answer."""
        return [Spent(answer["parts"], answer["distance"]) for answer in self.answers]

    @property
    def left(self) -> int:
        """How many parts of the budget."""
        return self.budget.left(self.spent)

    def alike(self, answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """All answers to the question of one, by the names of the same files."""
        return [one for one in self.answers if all(one[key] == answer[key] for key in _SAME)]

    @classmethod
    def read(cls, folder: str) -> AskSession:
        """The session of a folder.

        Raises:
            RequestError: there is none, or it is damaged, or of another format.
        """
        return cls.of(journal_of(folder).read())

    @classmethod
    def of(cls, state: JournalState) -> AskSession:
        """What a journal holds; names of values stand there once, whoever asks of them again."""
        names, answers = state.rows("names"), state.rows("answers").values()
        whole = (answer | {"names": names[answer["names"]]} for answer in answers)
        return cls(json.loads(state.account), tuple(whole))


def journal_of(folder: str) -> FactJournal:
    """The journal of a session; who may read it may write it, so it has no key."""
    path = os.path.join(folder, FILE)
    absent = f"{folder} holds no session: `hushbeam ask {folder} --epsilon 1` begins one"
    form = JournalFormat(KIND, _VERSION, path, _WHY, absent)
    return FactJournal(ObjectKeeping(LocalObject(path, KIND), form, Backoff(SecureRandom())))
