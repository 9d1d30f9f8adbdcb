"""Questions about tensors that several ranks must have alike."""

from __future__ import annotations

from collections.abc import Sequence

from rankdbg.session.asking import Asking
from rankdbg.types import Rank, Reply
from rankdbg.wire import questions, replica_answers


class AskingForReplicas(Asking):
    def replicas(
        self, ranks: Sequence[Rank], kinds: Sequence[str], step: int | None, seconds: float
    ) -> list[Reply[replica_answers.ReplicaHashes]]:
        """Hashes at the start of a step, or now."""
        question = questions.HashReplicas(kinds=tuple(kinds), step=step)
        return self.ask(question, ranks, seconds)

    def replica_blocks(
        self,
        ranks: Sequence[Rank],
        tensors: Sequence[tuple[str, str]],
        step: int | None,
        seconds: float,
        blocks: Sequence[Sequence[int]] = (),
    ) -> list[Reply[replica_answers.ReplicaBlocks]]:
        """Figures and hashes of blocks of these tensors (kind and name), or the values of blocks."""
        question = questions.ReadReplicaBlocks(
            tensors=tuple(tensors), step=step, blocks=tuple(map(tuple, blocks))
        )
        return self.ask(question, ranks, seconds)

    def keep_replicas(
        self, ranks: Sequence[Rank], every: int, kinds: Sequence[str] = ()
    ) -> list[Reply[replica_answers.ReplicaKeeping]]:
        return self.ask(questions.KeepReplicas(every=every, kinds=tuple(kinds)), ranks)

    def kept_replicas(
        self,
        ranks: Sequence[Rank],
        step: int | None = None,
        tensors: Sequence[tuple[str, str]] = (),
    ) -> list[Reply[replica_answers.ReplicaRecords]]:
        """All tensors at a step that was kept; hashes of some at all steps."""
        return self.ask(questions.ReadKeptReplicas(step=step, tensors=tuple(tensors)), ranks)

    def module_calls(
        self, ranks: Sequence[Rank], step: int, under: str, inside: str | None, seconds: float
    ) -> list[Reply[replica_answers.ModuleCalls]]:
        """The calls of modules in one step, and the operators inside of one of them."""
        question = questions.TraceModules(step=step, under=under, inside=inside)
        return self.ask(question, ranks, seconds)
