"""Several ranks on one machine, by gloo: DDP, ranks that disagree, FSDP and DTensor on the CPU."""
import os
import socket
import sys
import unittest

import torch
import torch.distributed as dist

from common import F, Lab, batches, half, network, scaler_of

RANKS = 2


def rows():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def train(rank, port, where, mode):
    """One rank, in a process of its own (spawned: it imports everything anew)."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    import scalewatch
    torch.set_num_threads(1)
    scaler = scaler_of()
    clip = False
    if mode == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
        model = FullyShardedDataParallel(network(), use_orig_params=True, device_id=torch.device("cpu"))
        scaler = ShardedGradScaler(device="cpu", init_scale=1024.0)
    elif mode == "fsdp2":
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.device_mesh import init_device_mesh
        model = network()
        fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    elif mode == "tensor":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        model = rows()
        parallelize_module(model, init_device_mesh("cpu", (RANKS,)), {
            "0": ColwiseParallel(), "2": RowwiseParallel(), "4": ColwiseParallel(output_layouts=Replicate())})
    elif mode in ("ddp", "zero"):
        model = torch.nn.parallel.DistributedDataParallel(network())
    else:  # "alone": nobody reduces, so each rank decides for itself
        model = network()
    if mode == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    watch = scalewatch.attach(model, optimizer, scaler, activations="0", **where)
    for step, (images, classes) in enumerate(batches(16, seed=0 if mode == "tensor" else rank), 1):
        optimizer.zero_grad()
        with half():
            loss = F.cross_entropy(model(images), classes)
        scaler.scale(loss).backward()
        if mode == "alone" and rank == 1 and step in (6, 9):
            model[0].weight.grad[0, 0] = float("inf")
        if mode == "ddp" and step == 6:
            model.module[0].weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        if step % 4 == 0:
            watch.wait_durable(20)
            dist.barrier()
    durable = watch.close(20)
    assert durable and not watch.not_observable, (durable, watch.not_observable)
    dist.destroy_process_group()


class Distributed(Lab):
    def run_ranks(self, mode):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        where = self.where()
        torch.multiprocessing.spawn(train, args=(port, where, mode), nprocs=RANKS)
        import scalewatch
        watch = scalewatch.Watch(**where, world_size=RANKS)
        self.addCleanup(watch.close, 0)
        return watch

    def found(self, watch):
        return [f for f in self.findings(watch) if f.severity != "info"]

    def test_ddp_agrees(self):
        watch = self.run_ranks("ddp")
        self.assertEqual([(f.rule, f.summary) for f in self.found(watch)], [])
        run = watch.questions.summary()
        self.assertEqual([int(run[k]) for k in ("attempts", "applied", "skipped", "world_size")], [16, 15, 1, RANKS])
        self.assertIn("0.weight", {p.tensor for p in watch.questions.attempt()})  # and not module.0.weight

    def test_zero_redundancy_optimizer(self):
        """Each rank holds the optimizer state of some parameters only: together they hold all."""
        watch = self.run_ranks("zero")
        self.assertEqual([(f.rule, f.summary) for f in self.found(watch)], [])
        run = watch.questions.summary()
        self.assertEqual([int(run[k]) for k in ("attempts", "applied", "skipped")], [16, 16, 0])
        points = watch.questions.attempt(11)
        names = {n for n, _ in network().named_parameters()}
        self.assertEqual({p.tensor for p in points if p.role == "gradient"}, names)
        self.assertEqual({p.tensor for p in points if p.role == "optimizer_state"},
                         {f"{n}.{key}" for n in names for key in ("exp_avg", "exp_avg_sq")})

    def test_ranks_that_disagree(self):
        watch = self.run_ranks("alone")
        found = [f for f in self.found(watch) if f.rule == "RankDisagreement"]
        self.assertEqual([f.severity for f in found], ["critical"])
        self.assertEqual(found[0].first_attempt, 6)
        self.assertEqual(found[0].ranks, [1])

    def test_fsdp(self):
        watch = self.run_ranks("fsdp")
        self.assertEqual([(f.rule, f.summary) for f in self.found(watch)], [])
        gradients = [p for p in watch.questions.attempt() if p.role == "gradient"]
        # Shards of both ranks add up to the whole.
        self.assertEqual(sum(p.numel for p in gradients), sum(p.numel() for p in network().parameters()))

    def test_fully_shard(self):
        watch = self.run_ranks("fsdp2")
        self.assertEqual([(f.rule, f.summary) for f in self.found(watch)], [])
        gradients = {p.tensor: p.numel for p in watch.questions.attempt() if p.role == "gradient"}
        self.assertEqual(gradients, {n: p.numel() for n, p in network().named_parameters()})


    def test_tensor_parallel(self):
        """DTensors of all kinds: parts of one are added up, copies (the bias of a layer that is divided by rows) are not."""
        watch = self.run_ranks("tensor")
        self.assertEqual([(f.rule, f.summary) for f in self.found(watch)], [])
        gradients = {p.tensor: p.numel for p in watch.questions.attempt() if p.role == "gradient"}
        self.assertEqual(gradients, {n: p.numel() for n, p in rows().named_parameters()})


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
