"""Who has which worker: started on demand, first come first served, evicted when idle."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import Callable, Coroutine

from environments.errors import (
    EnvhubError,
    InfrastructureFault,
    PackInvalid,
    ToolTimedOut,
    WorkerExited,
    WorkerLost,
)
from environments.sandbox import wire
from environments.sandbox.limits import OnEvent, SandboxLimits
from environments.sandbox.memory import Holdings
from environments.sandbox.nursery import Nursery
from environments.sandbox.pool import Pool, Waiting
from environments.sandbox.questions import read_loaded
from environments.sandbox.shares import Share, Shares, least_missed
from environments.sandbox.worker import Question, Worker

_TURN_SECONDS = 0.25
"""How long a worker serves its own queue before it may be given up for an environment with none."""
_SHARE_TURN_SECONDS = 0.02
"""The same, where what waits is another environment of a tenant whose share is full."""
_AHEAD_SECONDS = 0.004
"""Questions worth this much of a worker's time may wait at it: it need not sleep between them, and
they leave a few at a time."""
_SMOOTHING = 0.2
_BAD_ENDS = frozenset(("exited", "frame", "deadline", "refused"))
_SWEEP_SECONDS = 2.0
_ZYGOTE_SECONDS = 60.0


class Crew:
    """All workers, and who asks something of them."""

    def __init__(self, limits: SandboxLimits, on_event: OnEvent) -> None:
        self.limits = limits
        self.pools: dict[object, Pool] = {}
        self.starts = 0
        self.ends: Counter[str] = Counter()
        self.layers = wire.Loaded((), ())
        self.holdings = Holdings(limits.memory_budget_bytes)
        self.closed = False
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self.shares: Shares[Pool] = Shares(limits.workers_per_tenant, self._loop, self._serve)
        self._count = 0
        self._member_of: dict[Worker, Pool] = {}
        self._idle: dict[Worker, None] = {}  # least recently used first
        self._starved: deque[Pool] = deque()  # those that queue and have no worker at all
        self._tickets = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._nurseries: dict[wire.Breed, Nursery] = {}
        self._opening = asyncio.Lock()
        self._sweeper: asyncio.TimerHandle | None = None

    # --- for those who ask --------------------------------------------------------------

    def submit(self, pool: Pool, question: Question) -> None:
        """Ask an idle worker, rather one that knows the branch, or whoever is free next.

        Its answer raises what a worker's start raised, or ``WorkersBusy`` when all is full.
        """
        if self.closed:
            raise InfrastructureFault("the sandbox is closed")
        worker = self._take(pool, question.slot)
        if worker is not None:
            worker.ask(question)
            return
        pool.waiters.append(Waiting(next(self._tickets), self._loop.time(), question))
        self._grow(pool)
        self._keep_sweeping()

    def withdraw(self, pool: Pool, question: Question) -> None:
        """Nobody waits for the answer any more: a worker that is at it must not serve again."""
        if question.worker is not None:
            self.discard(question.worker, "cancelled")
        else:
            pool.waiters = deque(each for each in pool.waiters if each.question is not question)

    def _take(self, pool: Pool, slot: int) -> Worker | None:
        if pool.idle and pool.share.full:
            pool.share.queue(pool)
            return None
        worker = pool.take(slot)
        if worker is not None:
            del self._idle[worker]
            pool.share.busy += 1
        return worker

    async def try_out(self, pool: Pool) -> wire.Loaded:
        """Start a worker only to see what it is held by. Raises what its start raises."""
        worker, loaded = await self._load(pool)
        worker.kill("used")
        self._note_layers(pool, loaded)
        return loaded

    def _note_layers(self, pool: Pool, loaded: wire.Loaded) -> None:
        if loaded != self.layers:
            self.layers = loaded
            active, missing = loaded.active, loaded.missing
            self._on_event("layers", pool.environment, active=active, missing=missing)

    def release(self, worker: Worker) -> None:
        """The worker has answered and may serve the next one."""
        pool = self._member_of.get(worker)
        if pool is None:
            return  # it has ended meanwhile
        pool.usual_seconds += (worker.took_seconds - pool.usual_seconds) * _SMOOTHING
        pool.failures = 0
        if worker.cost_seconds:
            self.shares.charge(pool.share, worker.cost_seconds)
        if not worker.usable or self.closed:
            self.discard(worker, "closed")
        elif worker.spoiled:
            self.discard(worker, "spoiled")
        elif pool.single_use:
            self.discard(worker, "used")
        elif not worker.come_forward(self.limits.niceness):
            self.discard(worker, "slow")
        elif self._give_up(worker, pool):
            if not worker.load:
                self.discard(worker, "evicted")
        elif pool.share.full and self._stand_aside(worker, pool):
            if not worker.load:
                pool.share.queue(pool)
                self._rest(worker, pool)
        else:
            self._offer(worker, pool)

    def discard(self, worker: Worker, reason: str) -> None:
        """The worker must not serve again. Idempotent."""
        pool = self._drop(worker, reason)
        if pool is not None:
            self._feed()  # first, or its own queue would take the place it was to give up
            self._serve(pool.share)
            self._grow(pool)

    # --- supply and demand ------------------------------------------------------------------

    def _offer(self, worker: Worker, pool: Pool) -> None:
        depth = max(1, min(pool.depth, int(_AHEAD_SECONDS / max(pool.usual_seconds, 1e-6))))
        if worker.behind:
            depth = 1
        if worker.load > depth // 2:
            return  # a few at a time cost less than one by one
        asked: list[Question] = []
        while pool.waiters and worker.load + len(asked) < depth:
            question = pool.waiters.popleft().question
            if not question.answer.done():
                asked.append(question)
        if asked:
            worker.ask(*asked)
        if not worker.load:
            self._rest(worker, pool)

    def _rest(self, worker: Worker, pool: Pool) -> None:
        """The worker is idle now."""
        worker.since = self._loop.time()
        pool.idle.append(worker)
        self._idle[worker] = None
        pool.share.busy -= 1
        if self._starved:
            self._feed()
        self._serve(pool.share)

    def _serve(self, share: Share[Pool]) -> None:
        """Let those go on that waited for room in their tenant's share."""
        for pool in share.turns():
            worker = self._take(pool, pool.waiters[0].question.slot)
            if worker is not None:
                self._offer(worker, pool)
            self._grow(pool)

    def _stand_aside(self, worker: Worker, pool: Pool) -> bool:
        """Whether another environment of the tenant may have this one's place in the share now."""
        share = pool.share
        turn = self._loop.time() - worker.since
        return share.resting or (share.contended and turn >= _SHARE_TURN_SECONDS)

    def _give_up(self, worker: Worker, pool: Pool) -> bool:
        """Whether somebody with no worker at all has waited longer than the worker's own queue."""
        if not self._starved or self._loop.time() - worker.since < _TURN_SECONDS:
            return False
        others = self._starved[0].waiters
        return bool(others) and (not pool.waiters or others[0].ticket < pool.waiters[0].ticket)

    def _grow(self, pool: Pool) -> None:
        """Start the workers that the queue of ``pool`` calls for, as far as there is room."""
        if self.closed:
            return
        wanted = len(pool.waiters) + pool.spares - pool.starting - len(pool.idle)
        more = wanted > 0 and pool.size < pool.limit
        if pool.share.full and pool.waiters and (more or pool.idle):
            pool.share.queue(pool)
            return
        if more and pool.starts_at > self._loop.time():
            if pool.timer is None:
                pool.timer = self._loop.call_at(pool.starts_at, self._grow_again, pool)
            return
        while wanted > 0 and pool.size < pool.limit and not pool.share.full:
            spare = pool.starting >= len(pool.waiters)  # nobody has to go for that
            if self._count >= self.limits.max_workers and (spare or not self._evict()):
                if not pool.size and pool.waiters and pool not in self._starved:
                    self._starved.append(pool)
                return
            while self.holdings.full(1 + self._count - len(self._member_of)) and self._evict():
                pass
            self._count += 1
            pool.share.busy += 1
            pool.starting += 1
            wanted -= 1
            self._do(self._start, pool)

    def _grow_again(self, pool: Pool) -> None:
        pool.timer = None
        self._grow(pool)

    def _do(self, work: Callable[..., Coroutine[None, None, None]], *arguments: object) -> None:
        task = self._loop.create_task(work(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _feed(self) -> None:
        """Let those without a worker start one, longest waiting first."""
        while self._starved:
            pool = self._starved[0]
            if pool.waiters and not pool.size:
                full = self._count >= self.limits.max_workers and not pool.share.full
                if full and not self._evict():
                    return
                self._starved.popleft()
                self._grow(pool)
            else:
                self._starved.popleft()

    def _evict(self) -> bool:
        worker = least_missed({each: self._member_of[each].share for each in self._idle})
        return worker is not None and self._drop(worker, "evicted") is not None

    def _drop(self, worker: Worker, reason: str) -> Pool | None:
        pool = self._member_of.pop(worker, None)
        if pool is None:
            return None
        pool.workers -= 1
        self.holdings.remove(worker)
        if worker in self._idle:
            del self._idle[worker]
            pool.idle.remove(worker)
        else:
            pool.share.busy -= 1
        self._count -= 1
        worker.kill(reason)
        self.ends[worker.reason] += 1
        self._on_event("worker_ended", pool.environment, reason=worker.reason, pid=worker.pid)
        return pool

    def _gone(self, worker: Worker) -> None:
        """A worker ended by itself, or broke the rules."""
        pool = self._member_of.get(worker)
        if pool is not None:
            if worker.reason in _BAD_ENDS:
                pool.failed(self._loop.time())
            self.discard(worker, worker.reason)
        else:
            worker.kill(worker.reason)

    # --- starting -------------------------------------------------------------------------------

    async def _start(self, pool: Pool) -> None:
        began = self._loop.time()
        try:
            try:
                worker, loaded = await self._load(pool)
            except WorkerLost:
                worker, loaded = await self._load(pool)
        except EnvhubError as error:
            pool.starting -= 1
            pool.share.busy -= 1
            self._count -= 1
            self._refuse(pool, error)
        else:
            pool.started()
            self._member_of[worker] = pool
            worker.yields = pool.share.limited
            self.holdings.add(worker)
            self.starts += 1
            self._note_layers(pool, loaded)
            seconds = self._loop.time() - began
            self._on_event("worker_started", pool.environment, pid=worker.pid, seconds=seconds)
            self._offer(worker, pool)
            self._keep_sweeping()

    async def _load(self, pool: Pool) -> tuple[Worker, wire.Loaded]:
        """Fork a worker and have it load its job."""
        nursery = await self.nursery(pool.breed)
        worker = await nursery.fork(self.limits.start_timeout_seconds)
        try:
            question = Question(
                f"loading {pool.environment}",
                self.limits.start_timeout_seconds,
                lambda number, _: pool.load(number),
                read_loaded,
            )
            worker.ask(question)
            return worker, await question.answer
        except BaseException as error:
            worker.kill("start")
            if isinstance(error, (ToolTimedOut, WorkerExited)):
                raise PackInvalid(error.message, hint="mend what tools.py does when imported")\
                    from error  # fmt: skip
            raise

    def _refuse(self, pool: Pool, error: EnvhubError) -> None:
        """No worker came of it. The next comes later, for those who still wait."""
        now = self._loop.time()
        pool.failed(now)
        pool.refuse(error, now)
        self._on_event("start_failed", pool.environment, code=error.code, message=error.message)
        if pool.waiters:
            self._grow(pool)
        self._feed()
        self._serve(pool.share)

    async def nursery(self, breed: wire.Breed = wire.Breed.PLAIN) -> Nursery:
        """The zygote of that breed that runs now; a new one where there is none or it is gone.

        Raises ``InfrastructureFault``, and ``PackInvalid`` where packages are missing.
        """
        async with self._opening:
            nursery = self._nurseries.get(breed)
            if nursery is None or not nursery.alive:
                if self.closed:
                    raise InfrastructureFault("the sandbox is closed")
                if nursery is not None:
                    del self._nurseries[breed]
                    self._on_event("zygote_lost", "", pid=nursery.pid)
                    await nursery.close()
                nursery = self._nurseries[breed] = await Nursery.open(
                    breed, self.limits.max_frame_bytes, self._gone, self.release, _ZYGOTE_SECONDS
                )
                self._on_event("zygote_started", "", pid=nursery.pid)
            return nursery

    # --- keeping house --------------------------------------------------------------------------

    async def _sweep(self) -> None:
        """Let idle workers go that are old, too large, or too many for the budget, again and
        again; what goes wrong with one such round is the event loop's to tell."""
        try:
            await self._tidy()
        finally:
            self._sweeper = None
            if self.pools and not self.closed:
                self._keep_sweeping()

    async def _tidy(self) -> None:
        await self.holdings.look()
        now = self._loop.time()
        for worker in list(self._idle):
            pool = self._member_of[worker]
            if now - worker.since > self.limits.idle_seconds:
                self._drop(worker, "idle")
            elif pool.memory_bytes and self.holdings[worker] > pool.memory_bytes // 2:
                self._drop(worker, "grown")
        while self.holdings.over_budget and self._evict():
            pass
        for pool in self.pools.values():
            pool.turn_away(now, self.limits.queue_timeout_seconds)
        self.pools = {key: pool for key, pool in self.pools.items() if pool.size or pool.waiters}
        self._feed()

    def _keep_sweeping(self) -> None:
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(_SWEEP_SECONDS, self._do, self._sweep)

    async def close(self) -> None:
        """End every worker and the zygote; those who wait are told. Bounded and idempotent."""
        self.closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        closed = InfrastructureFault("the sandbox is closed")
        for pool in self.pools.values():
            while pool.waiters:
                pool.waiters.popleft().question.fail(closed)
        for nursery in self._nurseries.values():
            await nursery.close()
        for worker in list(self._member_of):
            self._drop(worker, "closed")
