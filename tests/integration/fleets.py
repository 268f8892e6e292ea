"""Several servers that share their runs, each with its own folder; with a private ClickHouse between them where asked for."""
import contextlib

from clickhouse import ClickHouse
from harness import Case, free_port, wait_for


def weight(run, instance):
    """As server/fleet/instances.cc has it."""
    mask = (1 << 64) - 1

    def fnv(text):
        value = 0xCBF29CE484222325
        for byte in text.encode():
            value = (value ^ byte) * 0x100000001B3 & mask
        return value

    def mixed(value):
        value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & mask
        value = (value ^ value >> 27) * 0x94D049BB133111EB & mask
        return value ^ value >> 31

    return mixed(mixed(fnv(run)) + fnv(instance) & mask)


class FleetCase(Case):
    def click(self):
        server = ClickHouse(self.folder / "clickhouse")
        self._stack.callback(server.kill)
        return server.start()

    def fleet(self, names, clickhouse=None, sinks=(), settings=(), every="100ms", required=True):
        """{name: Server}, all started. `every`: how often they feed ClickHouse."""
        ports = {name: free_port() for name in names}
        listed = ",".join(f"{name}=127.0.0.1:{port}" for name, port in ports.items())
        shared = ("history.clickhouse.hosts=" + clickhouse.url, f"history.clickhouse.required={str(required).lower()}",
                  f"history.clickhouse.every={every}") if clickhouse else ()
        servers = {}
        for name in names:
            own = (f"fleet.instances={listed}", f"fleet.self={name}", "fleet.probe_every=200ms", "fleet.down_after=800ms")
            server = self.server(sinks=sinks, settings=(*settings, *shared, *own), start=False)
            server.grpc_port = ports[name]
            servers[name] = server
        for server in servers.values():
            server.start()
        for server in servers.values():
            wait_for("the servers to see each other", lambda: server.log().count("is there") >= len(names) - 1)
        return servers

    @staticmethod
    def addresses(servers):
        return ",".join(server.address for server in servers.values())

    @staticmethod
    def order(servers, run):
        return sorted(servers, key=lambda name: weight(run, name), reverse=True)

    def job(self, servers, mode, run, *options):
        first = next(iter(servers.values()))
        # At the end it waits for longer than the longest pause between two tries, 30 s: how often servers were away is the test's doing.
        command = self.demo_command(first, mode, "--run", run, "--progress", "0", "--wait", "60", *options)
        command[command.index("--server") + 1] = self.addresses(servers)
        return command

    @staticmethod
    def summary(server, run):
        return server.api(f"runs/{run}")["run"]

    def owner(self, servers, run, but=None):
        """Name of the server that has the run, as any that is up says; waits for another one than `but`."""
        def told():
            for server in servers.values():
                if server.process.poll() is None:
                    with contextlib.suppress(OSError):
                        name = self.summary(server, run)["instance"]
                        if name != but and servers[name].process.poll() is None:
                            return name
            return None

        return wait_for("an owner of the run", told)
