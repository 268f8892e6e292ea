"""A thousand ranks by hand, in one thread: each keeps what is not durable and connects again at once when its stream breaks.

Real clients wait up to 30 s at random before they come back; these don't, which is the worst that can come.
"""
import asyncio
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from reflection import grpc
from session import STREAM, Words

PER_CONNECTION = 250


class Rank:
    def __init__(self, words, run, rank, world):
        self.hello = words.hello(run, rank=rank, world_size=world)
        self.table = words.table(["w"]).SerializeToString()
        self.words = words
        self.seq = self.durable = self.connects = 0
        self.said_goodbye = False

    def report(self, seq):
        return self.words.report(seq).SerializeToString()

    def next_report(self):
        self.seq += 1
        return self.report(self.seq)


class Crowd:
    """Runs in a thread of its own from start to finish()."""

    def __init__(self, client, address, runs, ranks, every):
        words = Words(client)
        self._answer = client.message("scalewatch.v1.ServerMessage")
        self._address, self._every = address, every
        self.ranks = [Rank(words, f"crowd-{run}", rank, ranks) for run in range(runs) for rank in range(ranks)]
        self._leaving = False
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)
        self._thread.start()

    def durable(self):
        return [rank.durable for rank in self.ranks]

    def finish(self, timeout):
        """Every rank sends what it has and says goodbye."""
        self._leaving = True
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise AssertionError(f"{sum(not r.said_goodbye for r in self.ranks)} of {len(self.ranks)} ranks did not get through")

    async def _all(self):
        channels = [grpc.aio.insecure_channel(self._address, options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 200),
                                                                      ("grpc.initial_reconnect_backoff_ms", 100)])
                    for _ in range(-(-len(self.ranks) // PER_CONNECTION))]
        await asyncio.gather(*(self._live(rank, channels[i // PER_CONNECTION]) for i, rank in enumerate(self.ranks)))
        for channel in channels:
            await channel.close()

    async def _live(self, rank, channel):
        while not rank.said_goodbye:
            try:
                await self._stream(rank, channel)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                await asyncio.sleep(0.05)

    async def _read(self, call):
        data = await call.read()
        if data == grpc.aio.EOF:
            await call.code()
            raise asyncio.InvalidStateError("the stream ended")
        return self._answer.FromString(data)

    async def _stream(self, rank, channel):
        call = channel.stream_stream("/" + STREAM)()
        try:
            rank.hello.hello.last_seq = rank.seq
            await call.write(rank.hello.SerializeToString())
            ack = (await self._read(call)).hello_ack
            rank.connects += 1
            await call.write(rank.table)
            rank.durable = ack.resume_after_seq
            for seq in range(rank.durable + 1, rank.seq + 1):
                await call.write(rank.report(seq))
            reader = asyncio.ensure_future(self._acks(rank, call))
            try:
                while not self._leaving and not reader.done():
                    await call.write(rank.next_report())
                    await asyncio.wait({reader}, timeout=self._every)
                while rank.durable < rank.seq and not reader.done():
                    await asyncio.wait({reader}, timeout=0.05)
                if reader.done():
                    await reader
                await call.write(rank.words.goodbye(rank.seq).SerializeToString())
                await asyncio.wait({reader}, timeout=30)
                rank.said_goodbye = await call.code() == grpc.StatusCode.OK
            finally:
                reader.cancel()
        finally:
            call.cancel()

    async def _acks(self, rank, call):
        while True:
            message = await self._read(call)
            if message.HasField("ack"):
                rank.durable = max(rank.durable, message.ack.durable_seq)
